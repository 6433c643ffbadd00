"""The reasons why a catalog needs attention, each with the command to run next."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from olympia_cli.catalog.catalog import DAY_MILLIS
from olympia_cli.catalog.checks import DEFAULT_MAX_AGE, FSCK_MAX_AGE, MAX_AGE
from olympia_cli.catalog.file_writer import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.references import dated_ahead, way_out
from olympia_cli.catalog.saves import State
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import Hints
from olympia_cli.errors import InvalidReference
from olympia_cli.format.paths import LATEST
from olympia_cli.names import parse_duration, parse_time, plural, span_text
from olympia_cli.ops.export.note import resume_command
from olympia_cli.ops.fsck.last_fsck import FsckRun, fsck_runs

FAR_BEHIND = 100
"""The acceptable lag of the hint `vn/latest`, in versions. Beyond it every reader probes many roots."""

SHOW_CLOCK = ("date", "-u")


@dataclass(frozen=True, slots=True)
class Reason:
    """A reason for attention, and the words of the next command: one of this program, or with `shell` one of the
    machine. `overdue` marks work that is late.
    """

    text: str
    words: tuple[str, ...]
    overdue: bool = False
    shell: bool = False


def damage(runs: Sequence[FsckRun]) -> tuple[Reason, ...]:
    """Return the damage that runs of fsck found and no later run has cleared. The command repeats the run."""
    reasons = []
    for run in reversed(runs):
        if run.damaged:
            errors = plural(run.errors, "error") if run.errors else "damage"
            what = "all versions" if run.all_versions else "the latest version" if run.latest else f"v{run.version}"
            reasons.append(Reason(f"fsck of {what} at level {run.level} found {errors}{_when(run)}", run.words()))
    return tuple(reasons)


def worth_knowing(runs: Sequence[FsckRun]) -> tuple[Reason, ...]:
    """Return the advice for a catalog without urgent problems."""
    if any(run.complete for run in runs):
        return ()
    text = "the last fsck did not finish" if runs else "this catalog has never been checked"
    return (Reason(text, ("fsck", "--since-last") if runs else ("fsck",)),)


def unfinished(exports: Sequence[Mapping[str, Any]]) -> Iterator[Reason]:
    """Yield a reason for each unfinished export. Running and interrupted exports cannot be told apart here."""
    for export in exports:
        when = f"{export['begun_at'][:16].replace('T', ' ')}Z"
        text = f"the export {export['name']}, begun {when}, is unfinished: resume it unless it is still running"
        yield Reason(text, resume_command(export["name"], export["location"]))


def fsck_due(runs: Sequence[FsckRun], now: int) -> Reason | None:
    """Return the next fsck to run: some check every day, a full one every week.

    This is advice only. The catalog's own settings decide what is overdue.
    """
    if notes := worth_knowing(runs):
        return notes[0]
    thorough = [run for run in runs if run.all_versions and run.level in ("full", "data")]
    if not _since(thorough, now, 7):
        text = "no fsck of all versions at level full within 7 days"
        return Reason(text, ("fsck", "--level", "full", "--all-versions"))
    return None if _since(runs, now, 1) else Reason("no fsck within a day", ("fsck",))


def _since(runs: Sequence[FsckRun], now: int, days: int) -> bool:
    times = [run.finished_at_millis for run in runs if run.complete]
    return any(time is not None and now - time <= days * DAY_MILLIS for time in times)


def needs_attention(
    snapshot: Snapshot,
    now: int,
    stored_at_millis: int,
    values: Mapping[str, Any],
    hints: Hints,
    fsck: Mapping[str, Any] | None,
    expire: Mapping[str, Any] | None,
) -> tuple[Reason, ...]:
    """Return the reasons for exit code 51, the most urgent first. `stored_at_millis` is the latest root's time by the
    store's clock.
    """
    return (
        *_root(snapshot),
        *_hint(snapshot, hints, values["hint_lag"]),
        *_transactions(values["transactions"]),
        *_overdue(snapshot, now, fsck, expire),
        *_clocks(snapshot, now, stored_at_millis),
    )


def _root(snapshot: Snapshot) -> Iterator[Reason]:
    if not snapshot.in_place:
        yield Reason(snapshot.out_of_place().reason, ("fsck",))


def _hint(snapshot: Snapshot, hints: Hints, lag: int | None) -> Iterator[Reason]:
    mend, look = ("fsck", "--repair"), ("fsck",)
    for error in hints.unread.values():
        yield Reason(f"a hint cannot be read: {error.message}", look)
    if lag is None and snapshot.version > FAR_BEHIND and LATEST not in hints.unread:
        yield Reason("the hint vn/latest is missing or unreadable", mend)
    elif lag is not None and lag > FAR_BEHIND:
        yield Reason(f"the hint vn/latest is {plural(lag, 'version')} behind", mend)
    elif lag is not None and lag < 0:
        # a root may be lost, so fsck must run before a repair
        yield Reason(f"the hint vn/latest is {plural(-lag, 'version')} ahead", look)


def _transactions(transactions: Sequence[Mapping[str, Any]]) -> Iterator[Reason]:
    for state, of_one, of_many in (
        (State.EXPIRED, "is past its lifetime", "are past their lifetime"),
        (State.UNREADABLE, "cannot be read", "cannot be read"),
    ):
        ids = [transaction["id"] for transaction in transactions if transaction["state"] == state.value]
        if ids:
            words = ("txn", "abort", ids[0]) if len(ids) == 1 else ("txn", "ls")
            which = plural(len(ids), "distributed transaction")
            yield Reason(f"{which} {of_one if len(ids) == 1 else of_many}", words)


def _overdue(
    snapshot: Snapshot, now: int, fsck: Mapping[str, Any] | None, expire: Mapping[str, Any] | None
) -> Iterator[Reason]:
    properties = snapshot.definition.properties
    if expire is not None and _older(expire, now, properties.get(MAX_AGE, DEFAULT_MAX_AGE)):
        yield Reason("expire has not run for longer than versions are kept", ("expire",), overdue=True)
    if fsck is not None and FSCK_MAX_AGE in properties and _older(fsck, now, properties[FSCK_MAX_AGE]):
        text = f"fsck has not run for longer than {properties[FSCK_MAX_AGE]}"
        yield Reason(text, fsck_runs(fsck)[-1].words(), overdue=True)


def _clocks(snapshot: Snapshot, now: int, stored_at_millis: int) -> Iterator[Reason]:
    behind, early = stored_at_millis - now, snapshot.created_at_millis - stored_at_millis
    if behind > HALF_AN_HOUR_MILLIS:
        text = f"this machine's clock is {span_text(behind)} behind the store's: set it"
        yield Reason(text, SHOW_CLOCK, shell=True)
    # compare with the later of the two clocks: a date that one of them has passed does no harm
    ahead = dated_ahead(snapshot, max(now, stored_at_millis))
    if ahead is not None:
        yield Reason(*way_out(snapshot, ahead))
    elif early > HALF_AN_HOUR_MILLIS:
        text = f"v{snapshot.version} is dated {span_text(early)} later than it was written: set the clock of its writer"
        yield Reason(text, ("log", "-n", "1"))


def _older(record: Mapping[str, Any], now: int, limit: str) -> bool:
    try:
        return now - parse_time(str(record.get("finished_at", ""))) > parse_duration(limit)
    except InvalidReference:
        return False


def _when(run: FsckRun) -> str:
    return f", {run.finished_at[:16].replace('T', ' ')}Z" if run.finished_at_millis is not None else ""
