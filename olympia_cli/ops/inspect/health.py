"""The status of a catalog from a few reads, and on demand from a listing and a walk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any

from olympia_cli.catalog.catalog import DAY_MILLIS, Catalog
from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.distributed import Saved, State, UnreadableSave
from olympia_cli.catalog.properties import DEFAULT_MAX_AGE, FSCK_MAX_AGE, MAX_AGE
from olympia_cli.catalog.references import at_version, dated_ahead, oldest_version, resolve, way_out
from olympia_cli.catalog.retained import ExportRecord, lost_reason, lost_versions, read_exports
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import Hints, read_hints
from olympia_cli.errors import (
    Damaged,
    InvalidReference,
    OlympiaError,
    PathMissing,
    Refused,
    Unsupported,
    VersionNotFound,
)
from olympia_cli.format.paths import LAST_FSCK, LATEST, file_kind, root_path
from olympia_cli.names import AtTime, Kind, parse_duration, parse_time, plural, span_text, time_text
from olympia_cli.ops.expire import Floors, Planner, list_marks, read_policy, sum_up_marks
from olympia_cli.ops.export import resume_command, unfinished_exports
from olympia_cli.ops.fsck import FsckRun, fsck_runs
from olympia_cli.ops.inspect.transactions import saved_transactions
from olympia_cli.ops.last_runs import LAST_EXPIRE, LAST_EXPORT, read_notes
from olympia_cli.storage.protocol import FileInfo
from olympia_cli.tree.search import depth

# The growth of a catalog per day, from few reads.

WINDOW_MILLIS = 7 * DAY_MILLIS
SHORTEST_MILLIS = 3_600_000
"""The shortest time for which a rate per day is computed."""


def growth(snapshot: Snapshot, oldest: int, stored_at_millis: int) -> dict[str, Any]:
    """Return the number of versions per day since the oldest version, by the store's clock. One request."""
    try:
        first = snapshot.store.stat(root_path(oldest, snapshot.file.width)).modified_at_millis
    except PathMissing:
        return {"versions_per_day": None, "since_at": None}
    rate = _per_day(snapshot.version - oldest, stored_at_millis - first)
    return {"versions_per_day": rate, "since_at": time_text(first)}


def growth_in_full(snapshot: Snapshot, objects: int, listing: Sequence[FileInfo]) -> dict[str, Any]:
    """Return objects per day, compared with the version of a week ago, and bytes per day, counted by the files that
    still exist.
    """
    end = max(file.modified_at_millis for file in listing)
    begin = max(min(file.modified_at_millis for file in listing), end - WINDOW_MILLIS)
    written = sum(file.size for file in listing if file.modified_at_millis > begin)
    return {"bytes_per_day": _per_day(written, end - begin), "objects_per_day": _objects(snapshot, objects)}


def count_objects(snapshot: Snapshot) -> dict[str, int]:
    return {kind.word + "s": sum(1 for _ in snapshot.scan(kind)) for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)}


def _objects(snapshot: Snapshot, now: int) -> float | None:
    """Return None if the older version cannot be read."""
    end = snapshot.created_at_millis
    try:
        before = _week_ago(snapshot, end - WINDOW_MILLIS)
        return _per_day(now - sum(count_objects(before).values()), end - before.created_at_millis)
    except OlympiaError:
        return None


def _week_ago(snapshot: Snapshot, millis: int) -> Snapshot:
    try:
        return resolve(AtTime(millis), snapshot, millis)
    except VersionNotFound:
        return at_version(oldest_version(snapshot), snapshot)


def _per_day(count: int, millis: int) -> float | None:
    return round(count * DAY_MILLIS / millis, 2) if millis >= SHORTEST_MILLIS else None


# The reasons why a catalog needs attention, each with the command to run next.

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
        # fsck must run before a repair
        lost = lost_versions(snapshot.version - lag, snapshot.version, snapshot.definition)
        text = f": {lost_reason(lost)}, and commits are refused" if lost else ""
        yield Reason(f"the hint vn/latest is {plural(-lag, 'version')} ahead{text}", look)


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


_ALIVE = (State.OPEN, State.EXPIRED, State.UNREADABLE)


class Standing(StrEnum):
    """The status in one word, the worst first."""

    NOT_FOUND = "not found"
    UNREACHABLE = "unreachable"
    UNREADABLE = "unreadable"
    DAMAGED = "damaged"
    OVERDUE = "overdue"
    ATTENTION = "needs attention"
    UNCHECKED = "never checked"
    SOUND = "sound"


@dataclass(frozen=True, slots=True)
class Status:
    """The status of a catalog, with the reasons for it.

    `attention` holds the reasons for exit code 51, `notes` advice that needs no action, `runs` the runs of fsck that
    count.
    """

    values: dict[str, Any]
    attention: tuple[Reason, ...]
    damage: tuple[Reason, ...]
    notes: tuple[Reason, ...]
    runs: tuple[FsckRun, ...]

    @property
    def damaged(self) -> bool:
        return bool(self.damage)

    @property
    def is_known(self) -> bool:
        """True if a run of fsck was complete or found damage. A run that was stopped before that proves nothing."""
        return any(run.damaged or run.complete for run in self.runs)

    @property
    def reasons(self) -> tuple[Reason, ...]:
        return (*self.damage, *self.attention, *self.notes)

    @property
    def standing(self) -> Standing:
        if self.damaged:
            return Standing.DAMAGED
        if self.attention:
            overdue = all(reason.overdue for reason in self.attention)
            return Standing.OVERDUE if overdue else Standing.ATTENTION
        return Standing.SOUND if self.is_known else Standing.UNCHECKED

    @property
    def exit_code(self) -> int:
        return 50 if self.damaged else 51 if self.attention else 0


def standing_of(error: OlympiaError) -> Standing:
    """Return the word for a catalog that cannot be opened. Denied access and timeouts say nothing about damage."""
    if error.exit_code == 10:
        return Standing.NOT_FOUND
    return Standing.UNREADABLE if error.exit_code in (40, 41) else Standing.UNREACHABLE


def status(catalog: Catalog, full: bool = False) -> Status:
    """Compute the status. The catalog is not changed."""
    store = catalog.store
    snapshot = catalog.snapshot()
    hints = read_hints(store)
    definition = snapshot.definition
    saved = list(saved_transactions(catalog, snapshot.file.java))
    states = [transaction.state(catalog.clock) for transaction in saved]
    alive = [transaction for transaction, state in zip(saved, states, strict=True) if state in _ALIVE]
    fsck, expire, export = read_notes(store, LAST_FSCK, LAST_EXPIRE, LAST_EXPORT)
    oldest, stored = oldest_version(snapshot), store.stat(snapshot.file.path).modified_at_millis
    # ignore the damage of a version that has been expired since
    runs = [run for run in fsck_runs(fsck) if run.latest or (run.version or 0) >= oldest]
    values: dict[str, Any] = {
        "catalog": store.uri,
        "id": definition.id,
        "version": snapshot.version,
        "created_at": time_text(snapshot.created_at_millis),
        "oldest_version": oldest,
        "hint": hints.latest,
        "hint_lag": None if hints.latest is None else snapshot.version - hints.latest,
        "depth": depth(snapshot.reader, snapshot.root.node),
        "order": definition.order,
        "open_transactions": states.count(State.OPEN),
        "stale_transactions": states.count(State.EXPIRED),
        "unreadable_transactions": states.count(State.UNREADABLE),
        "exports": len(definition.exported_snapshots),
        "last_fsck": None if fsck is None else {key: value for key, value in fsck.items() if key != "runs"},
        "last_expire": expire,
        "read_only": snapshot.file.java,
        "looked_at": time_text(catalog.clock.now_millis()),
        "last_export": export,
        "fsck_runs": [asdict(run) for run in runs],
        "transactions": [_transaction(transaction, catalog) for transaction in alive],
        "export_names": [name for name, record in read_exports(definition).items() if isinstance(record, ExportRecord)],
        "unfinished_exports": unfinished_exports(snapshot),
        "quarantine": sum_up_marks(snapshot, DAY_MILLIS),
        "growth": growth(snapshot, oldest, stored),
    }
    if full:
        counted = _full(catalog, snapshot)
        values |= {**counted, "growth": values["growth"] | counted["growth"]}
    attention = needs_attention(snapshot, catalog.clock.now_millis(), stored, values, hints, fsck, expire)
    damaged = damage(runs)
    notes = (*(() if attention or damaged else worth_knowing(runs)), *unfinished(values["unfinished_exports"]))
    status = Status(values, attention, damaged, notes, tuple(runs))
    values["needs_attention"] = [reason.text for reason in attention]
    values["verdict"] = str(status.standing)
    values["damaged"] = status.damaged if status.is_known else None
    return status


def _transaction(saved: Saved | UnreadableSave, catalog: Catalog) -> dict[str, Any]:
    began = expires = None
    if isinstance(saved, Saved):
        began = time_text(saved.definition.began_at_millis)
        expires = time_text(saved.definition.expire_at_millis)
    return {"id": saved.id, "state": saved.state(catalog.clock).value, "began_at": began, "expires_at": expires}


def _full(catalog: Catalog, snapshot: Snapshot) -> dict[str, Any]:
    objects = count_objects(snapshot)
    files: dict[str, dict[str, int]] = {}
    listing: list[FileInfo] = []
    for file in catalog.store.list():
        counted = files.setdefault(file_kind(file.path).value, {"files": 0, "bytes": 0})
        counted["files"] += 1
        counted["bytes"] += file.size
        listing.append(file)
    marks = list(list_marks(snapshot, DAY_MILLIS))
    return {
        "objects": objects,
        "files": files,
        "reclaimable_bytes": _reclaimable(catalog),
        "quarantine_bytes": sum(mark["bytes"] or 0 for mark in marks),
        "growth": growth_in_full(snapshot, sum(objects.values()), listing),
    }


def _reclaimable(catalog: Catalog) -> int | None:
    """Return the bytes that an expire would move to quarantine now, or None if it would refuse to run."""
    try:
        planner = Planner(catalog, Floors(DAY_MILLIS, DAY_MILLIS), probe=False, definitions=False)
        plan = planner.expire(read_policy(planner.facts.definition, planner.facts.now_millis))
    except (Damaged, Refused, Unsupported):
        return None
    return plan.mark.files.totals.bytes


# The status of a catalog as Prometheus gauges, also for a catalog that cannot be opened.

Gauge = tuple[str, str, float | int | None]

_COUNTS = {
    "version": "The latest version.",
    "oldest_version": "The oldest version that counts.",
    "hint_lag": "How far the hint vn/latest is behind.",
    "open_transactions": "Distributed transactions under way.",
    "stale_transactions": "Distributed transactions past their lifetime.",
    "unreadable_transactions": "Distributed transactions that cannot be read.",
    "exports": "Recorded exports.",
    "reclaimable_bytes": "Bytes that an expire would put into quarantine.",
    "quarantine_bytes": "Bytes in quarantine.",
}


def prometheus(uri: str, status: Status | None) -> str:
    """Return the gauges of a catalog. If it cannot be opened, the gauge `up` is 0. Unknown values are omitted."""
    gauges: list[Gauge] = [("up", "Whether the catalog can be opened.", int(status is not None))]
    if status is not None:
        gauges += _gauges(status)
    label = uri.encode("utf-8", "backslashreplace").decode()
    label = label.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return "".join(_lines(gauges, f'{{catalog="{label}"}}'))


def _gauges(status: Status) -> Iterable[Gauge]:
    values = status.values
    yield from ((name, help, values.get(name)) for name, help in _COUNTS.items())
    yield "tree_depth", "Levels of the tree.", values["depth"]
    yield "needs_attention", "How many things need attention.", len(status.attention)
    damaged = values["damaged"]
    help = "Whether fsck found damage that no later fsck has cleared."
    yield "damaged", help, None if damaged is None else int(damaged)
    yield "quarantine_versions", "Versions in quarantine.", values["quarantine"]["versions"]
    yield "created_timestamp_seconds", "When the latest version was created.", _seconds(values, "created_at")
    for work in ("fsck", "expire", "export"):
        record = values[f"last_{work}"]
        seconds = None if record is None else _seconds(record, "finished_at")
        yield f"last_{work}_timestamp_seconds", f"When the last {work} ended.", seconds
    for kind, count in values.get("objects", {}).items():
        yield kind, f"How many {kind} there are.", count


def _seconds(record: Mapping[str, Any], key: str) -> float | None:
    try:
        return parse_time(str(record.get(key, ""))) / 1000
    except InvalidReference:
        return None


def _lines(gauges: Iterable[Gauge], label: str) -> Iterable[str]:
    for name, help, value in gauges:
        if value is not None:
            yield f"# HELP olympia_{name} {help}\n# TYPE olympia_{name} gauge\nolympia_{name}{label} {value}\n"
