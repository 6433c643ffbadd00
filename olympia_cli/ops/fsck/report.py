"""The request of a check, and its report."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from olympia_cli.catalog.clock import Clock
from olympia_cli.names import Reference
from olympia_cli.ops.fsck.definitions import Verified
from olympia_cli.ops.fsck.findings import (
    DataChecks,
    Finding,
    Severity,
    describe_finding,
)
from olympia_cli.ops.progress import SILENT, Progress

HowRead = Literal["read", "listed", "no"]


class Level(StrEnum):
    """The depth of the check. Each level includes the ones before it."""

    HINTS = "hints"
    STRUCTURE = "structure"
    FULL = "full"
    DATA = "data"


HINTS, STRUCTURE, FULL, DATA = range(len(Level))
"""The depth of each level."""


@dataclass(frozen=True, slots=True)
class FsckRequest:
    """The depth of the check, and its subject: the latest version, the version that `at` means, or all versions.

    `verified` and `max_duration`, in seconds, only apply to the engine of this process. `data` checks table data for
    that engine.
    """

    level: Level = Level.STRUCTURE
    at: Reference | None = None
    all_versions: bool = False
    clock: Clock | None = None
    verified: Verified | None = None
    max_duration: float | None = None
    data: DataChecks | None = None
    progress: Progress = SILENT


@dataclass(frozen=True, slots=True)
class Report:
    """The extent and the findings of a check. `complete` is False if the time ran out.

    `last_sound_version` is the newest checked version without an error, `version` the newest requested one. `latest`
    and `oldest` are the latest and the oldest version of the catalog. `definitions` tells how definitions of objects
    were checked: all `read`, only `listed` to find missing ones, or not at all. `read_only` means a catalog of the Java
    SDK, which this program never writes to.
    """

    level: Level
    checked: dict[str, int]
    findings: tuple[Finding, ...]
    last_sound_version: int | None
    complete: bool
    version: int | None = None
    read_only: bool = False
    latest: int | None = None
    definitions: HowRead = "no"
    oldest: int | None = None

    @property
    def damaged(self) -> bool:
        return any(finding.is_damage for finding in self.findings)

    def count(self, severity: Severity) -> int:
        return sum(finding.severity is severity for finding in self.findings)


def not_read(report: Report) -> list[tuple[str, str]]:
    """Return the parts of the catalog that were not checked, with the option that checks them."""
    depth = list(Level).index(report.level)
    kept = 0 if report.latest is None or report.oldest is None else report.latest - report.oldest + 1
    parts = [
        ("nodes", "--level structure", depth < STRUCTURE),
        ("definitions", "--level full", report.definitions != "read"),
        ("table data", "--level data", report.level is not Level.DATA),
        ("other versions", "--all-versions", depth >= STRUCTURE and report.checked["versions"] < kept),
    ]
    return [(what, option) for what, option, is_left in parts if is_left]


def describe_report(report: Report) -> dict[str, Any]:
    """Return the report in its JSON form."""
    return {
        "level": str(report.level),
        "version": report.version,
        "checked": report.checked,
        "findings": [describe_finding(finding) for finding in report.findings],
        "damaged": report.damaged,
        "complete": report.complete,
        "last_sound_version": report.last_sound_version,
        "definitions": report.definitions,
        "not_read": [{"what": what, "option": option} for what, option in not_read(report)],
    }
