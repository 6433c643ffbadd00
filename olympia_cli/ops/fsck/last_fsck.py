"""The notes of earlier runs of fsck. A quick run never hides the damage that a thorough one has found.

A run answers one question: is the latest version sound, or a named version, or all versions, at a level. The note holds
the last run and the earlier runs that still count. A later run replaces an earlier one exactly if it answers the same
question or a larger one:

- It was complete.
- Its level is at least as deep.
- It checked all versions; or the earlier one did not, and both checked the latest version or the same named one.
- It read what the earlier one read: a run that skipped definitions (`--since-last`) replaces a run of level full or
  data only if that skipped some, too.

The result does not matter: sound replaces damaged, and damaged replaces sound. So a shallow run never hides the damage
of a deep one, nor a run on the latest version the damage of older ones. A dry run of a repair hides nothing. The same
check after the repair clears the damage.

Notes of older programs hold one run, and are read in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from olympia_cli.catalog.clock import Clock
from olympia_cli.errors import InvalidReference
from olympia_cli.format.paths import LAST_FSCK
from olympia_cli.names import parse_time, time_text
from olympia_cli.ops.fsck.findings import Level, Report, Severity
from olympia_cli.ops.last_runs import leave_note, read_note
from olympia_cli.storage.protocol import Store

MAX_RUNS = 64
"""The largest number of runs to keep. Each damaged version that was checked by number has its own run."""

_LEVELS = [str(level) for level in Level]


@dataclass(frozen=True, slots=True)
class FsckRun:
    """A run of fsck: its question and its result. `latest` is False if --at named the version."""

    finished_at: str
    level: str
    damaged: bool
    complete: bool
    errors: int
    warnings: int
    version: int | None
    all_versions: bool
    latest: bool
    skipped: int

    @property
    def finished_at_millis(self) -> int | None:
        try:
            return parse_time(self.finished_at)
        except InvalidReference:
            return None

    @property
    def sound(self) -> bool:
        """True if the run was complete and found no damage."""
        return self.complete and not self.damaged

    def covers(self, earlier: FsckRun) -> bool:
        """Return whether this run replaces an earlier one, by the rules in the module's docstring."""
        same_versions = self.all_versions or (
            not earlier.all_versions
            and ((self.latest and earlier.latest) or (not earlier.latest and self.version == earlier.version))
        )
        read_as_much = not self.skipped or bool(earlier.skipped) or _depth(earlier) < _LEVELS.index(Level.FULL)
        return self.complete and _depth(self) >= _depth(earlier) and same_versions and read_as_much

    def words(self) -> tuple[str, ...]:
        """Return the command that runs the same check again."""
        words = ["fsck", "--level", self.level]
        if self.all_versions:
            words.append("--all-versions")
        elif not self.latest and self.version is not None:
            words += ["--at", f"v{self.version}"]
        return tuple(words)


def note_fsck(store: Store, report: Report, clock: Clock, all_versions: bool, latest: bool = True) -> list[FsckRun]:
    """Write the note of a run. `latest` is False if --at named the version.

    Return the earlier runs whose damage this run did not check again.
    """
    if report.read_only or report.version is None:
        return []
    run = FsckRun(
        finished_at=time_text(clock.now_millis()),
        level=str(report.level),
        damaged=report.damaged,
        complete=report.complete,
        errors=report.count(Severity.ERROR),
        warnings=report.count(Severity.WARNING),
        version=report.version,
        all_versions=all_versions,
        latest=latest or all_versions,
        skipped=report.checked.get("skipped", 0),
    )
    earlier = [other for other in fsck_runs(read_note(store, LAST_FSCK)) if _counts(other) and not run.covers(other)]
    runs = [*earlier[-MAX_RUNS + 1 :], run]
    leave_note(store, LAST_FSCK, clock, {**asdict(run), "runs": [asdict(noted) for noted in runs]})
    return [
        other for other in earlier if other.damaged and (other.latest or (other.version or 0) >= (report.oldest or 0))
    ]


def fsck_runs(record: Mapping[str, Any] | None) -> list[FsckRun]:
    """Return the runs in a note, the newest last."""
    if record is None:
        return []
    runs = record.get("runs")
    records = runs if isinstance(runs, list) and runs else [record]
    return [_parse(entry) for entry in records if isinstance(entry, dict)]


def _counts(run: FsckRun) -> bool:
    """Return whether a run counts after later ones: it found damage, or was a complete check of the latest version."""
    return run.damaged or (run.complete and run.latest)


def _depth(run: FsckRun) -> int:
    return _LEVELS.index(run.level)


def _parse(record: Mapping[str, Any]) -> FsckRun:
    def number(key: str) -> int:
        value = record.get(key)
        return value if type(value) is int and 0 <= value < 2**63 else 0

    level, version = record.get("level"), record.get("version")
    return FsckRun(
        finished_at=str(record.get("finished_at", ""))[:40],
        level=level if isinstance(level, str) and level in _LEVELS else str(Level.STRUCTURE),
        damaged=bool(record.get("damaged")),
        complete=record.get("complete") is not False,
        errors=number("errors"),
        warnings=number("warnings"),
        version=number("version") if version is not None else None,
        all_versions=bool(record.get("all_versions")),
        latest=record.get("latest") is not False,
        skipped=number("skipped"),
    )
