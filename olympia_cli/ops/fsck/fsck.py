"""fsck: what is wrong with a catalog, which versions and objects it hits, and what to do next.

It never raises on damage, whatever the file and whatever the damage: that is what it is there to report. Each file is
read once, however many versions share it; only what damage hits is read again, to name it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from olympia_cli.catalog.clock import Clock, SystemClock
from olympia_cli.errors import OlympiaError
from olympia_cli.names import Reference, time_text
from olympia_cli.ops.fsck.data import DataChecks
from olympia_cli.ops.fsck.examined import Engine
from olympia_cli.ops.fsck.findings import Finding, Severity, describe_finding
from olympia_cli.ops.fsck.local import LocalEngine
from olympia_cli.ops.fsck.run import Run
from olympia_cli.ops.fsck.verified import Verified
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.files import Files, failures_pass
from olympia_cli.storage.protocol import Store

LAST_FSCK = "ops/last-fsck.json"


class Level(StrEnum):
    """How deep to look; each level includes the ones before it."""

    HINTS = "hints"
    STRUCTURE = "structure"
    FULL = "full"
    DATA = "data"


@dataclass(frozen=True, slots=True)
class Report:
    """What was looked at and what was found. `complete` is False when the time ran out.

    `last_sound_version` is the newest version looked at that no error hits; `version` the newest one asked for.
    `read_only` is a catalog of the Java SDK, which we never write to.
    """

    level: Level
    checked: dict[str, int]
    findings: tuple[Finding, ...]
    last_sound_version: int | None
    complete: bool
    version: int | None = None
    read_only: bool = False

    @property
    def damaged(self) -> bool:
        return any(one.severity is Severity.ERROR for one in self.findings)

    def count(self, severity: Severity) -> int:
        return sum(one.severity is severity for one in self.findings)


def fsck(
    store: Store,
    *,
    level: Level = Level.STRUCTURE,
    at: Reference | None = None,
    all_versions: bool = False,
    clock: Clock | None = None,
    verified: Verified | None = None,
    max_duration: float | None = None,
    data: DataChecks | None = None,
    progress: Progress = SILENT,
    engine: Engine | None = None,
) -> Report:
    """Check a catalog: the latest version, the one that `at` means, or all of them. `engine` reads the many files; this
    process if none is given.

    CatalogNotFound when there is nothing of a catalog at all; VersionNotFound when `at` means no version. The store's
    own failure passes when it is not about single files.
    """
    clock = clock if clock is not None else SystemClock()
    run = Run(
        Files(store, _timer(clock, max_duration), progress),
        engine if engine is not None else LocalEngine(data),
        depth=list(Level).index(level),
        at=at,
        all_versions=all_versions,
        now=clock.now_millis(),
        verified=verified,
    )
    with failures_pass():
        found = run.run()
    if verified is not None:
        verified.save()
    return Report(
        level,
        found.checked,
        tuple(found.findings),
        found.last_sound,
        found.complete,
        found.version,
        found.read_only,
    )


def _timer(clock: Clock, seconds: float | None) -> Callable[[], bool]:
    if seconds is None:
        return lambda: False
    end = clock.elapsed_millis() + seconds * 1000
    return lambda: clock.elapsed_millis() >= end


def describe_report(report: Report) -> dict[str, Any]:
    """The report as the JSON output holds it."""
    return {
        "level": str(report.level),
        "version": report.version,
        "checked": report.checked,
        "findings": [describe_finding(one) for one in report.findings],
        "damaged": report.damaged,
        "complete": report.complete,
        "last_sound_version": report.last_sound_version,
    }


def note_last(store: Store, report: Report, clock: Clock, all_versions: bool) -> None:
    """Leave word of this run for `status`; that it may not be written is no error."""
    if report.read_only or report.version is None:
        return
    record = {
        "finished_at": time_text(clock.now_millis()),
        "level": str(report.level),
        "damaged": report.damaged,
        "complete": report.complete,
        "errors": report.count(Severity.ERROR),
        "warnings": report.count(Severity.WARNING),
        "version": report.version,
        "all_versions": all_versions,
    }
    with suppress(OlympiaError):
        store.overwrite(LAST_FSCK, json.dumps(record).encode())
