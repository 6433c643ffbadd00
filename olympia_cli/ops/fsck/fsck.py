"""fsck: find damage of a catalog, the versions and objects that it affects, and the next step.

Damage never raises an error: fsck exists to report it. Each file is read once, even if versions share it. Only files
around damage are read again, to name the affected objects.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from olympia_cli.catalog.clock import Clock, SystemClock
from olympia_cli.catalog.references import dated_ahead, way_out
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import read_root
from olympia_cli.days import OnDay
from olympia_cli.errors import OlympiaError, VersionNotFound
from olympia_cli.names import Ago, AtTime, Reference
from olympia_cli.ops.fsck.acknowledged import answered, recognised
from olympia_cli.ops.fsck.actions import read_actions
from olympia_cli.ops.fsck.chain import wanted_root
from olympia_cli.ops.fsck.data import DataChecks
from olympia_cli.ops.fsck.examined import FULL, HINTS, STRUCTURE, Engine, Examined, new_examined
from olympia_cli.ops.fsck.findings import SALVAGE, Finding, Severity, describe_finding, finding
from olympia_cli.ops.fsck.hints import look_at_versions, no_version
from olympia_cli.ops.fsck.holders import Held, Holder, held_files
from olympia_cli.ops.fsck.local import LocalEngine
from olympia_cli.ops.fsck.meanwhile import still_so
from olympia_cli.ops.fsck.roots import RootChecks
from olympia_cli.ops.fsck.sound import compare_with_log, look_back, look_for_named
from olympia_cli.ops.fsck.verdict import Verdict, importance
from olympia_cli.ops.fsck.verified import Verified
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.files import Files, failures_pass
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.storage.protocol import Store

LOOK_BACK = 512
"""The number of older versions that are searched for a sound one if the latest is damaged."""

_COUNTS = ("versions", "roots", "nodes", "definitions", "actions", "transactions", "exports", "data_files", "skipped")


HowRead = Literal["read", "listed", "no"]


class Level(StrEnum):
    """The depth of the check. Each level includes the ones before it."""

    HINTS = "hints"
    STRUCTURE = "structure"
    FULL = "full"
    DATA = "data"


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


def fsck(store: Store, request: FsckRequest, engine: Engine | None = None) -> Report:
    """Check a catalog. `engine` reads the files; by default this process does.

    Raise CatalogNotFound if the location has no files of a catalog, and VersionNotFound if `at` means no version. Raise
    the store's error if the store itself fails.
    """
    clock = request.clock if request.clock is not None else SystemClock()
    files = Files(store, _timer(clock, request.max_duration), request.progress)
    engine = engine if engine is not None else LocalEngine(request.data)
    with failures_pass():
        report = _Run(files, engine, request, clock.now_millis()).run()
    if request.verified is not None:
        request.verified.save()
    return report


def _timer(clock: Clock, seconds: float | None) -> Callable[[], bool]:
    if seconds is None:
        return lambda: False
    end = clock.elapsed_millis() + seconds * 1000
    return lambda: clock.elapsed_millis() >= end


@dataclass(frozen=True, slots=True)
class _Run:
    files: Files
    engine: Engine
    request: FsckRequest
    now: int

    @property
    def depth(self) -> int:
        return list(Level).index(self.request.level)

    def run(self) -> Report:
        """Run the check in this order:

        1. Hints and names.
        2. Roots as a chain, and the trees below the requested ones.
        3. Other holders of files.
        4. A listing.
        5. The verdict about versions.
        """
        files, store, all_versions = self.files, self.files.store, self.request.all_versions
        opened = look_at_versions(files)
        if opened is None:
            checked = {**dict.fromkeys(_COUNTS, 0), "bytes": files.bytes}
            return Report(self.request.level, checked, (no_version(store),), None, True)
        chain, findings = opened
        verified = self.request.verified if self.depth >= FULL else None
        if verified is not None and chain.reference is not None:
            verified.open(chain.reference.id, store.uri)
        examined = new_examined(files, chain, self.depth, verified)
        examined.findings += findings
        holdings: list[Held] = []
        versions = self._examine(examined, holdings)
        for holder in (holder for holding in holdings for holder in holding.holders):
            examined.findings += _check_holder(examined, holder)
        examined.findings += _check_dates(examined, self.now)
        compare_with_log(examined, all_versions)
        look_for_named(examined)
        listing = None
        if self.depth >= FULL and all_versions and not files.out_of_time:
            listing = self.engine.list_files(examined, frozenset().union(*(holding.saved for holding in holdings)))
        verdict = Verdict(examined, versions)
        if self.depth >= STRUCTURE and not all_versions and versions == [chain.latest]:
            verdict = look_back(self.engine, examined, verdict, LOOK_BACK)
        findings = verdict.findings(objects=True)
        if listing is not None:
            findings += listing.findings(verdict.hides_files)
        findings = verdict.with_hints(still_so(files, chain, findings, self.now, all_versions))
        sound = verdict.last_sound(findings)
        findings = recognised(findings, chain.reference, chain.latest, chain.oldest)
        if self.request.at is None and not all_versions and not chain.java:
            findings = sorted(answered(findings, examined.reader), key=importance)
        return Report(
            self.request.level,
            _checked(examined, holdings),
            tuple(findings),
            sound,
            not files.stopped,
            versions[-1] if versions else None,
            chain.java,
            chain.latest,
            _how_definitions(examined),
            chain.oldest,
        )

    def _examine(self, examined: Examined, holdings: list[Held]) -> list[int]:
        chain, files, at, all_versions = examined.chain, examined.files, self.request.at, self.request.all_versions

        def holders() -> list[Holder]:
            if self.depth >= STRUCTURE and all_versions and not files.out_of_time:
                for holding in held_files(files, chain, self.now):
                    holdings.append(holding)
                    # the findings about holders with damaged roots
                    examined.findings += holding.findings
            return [holder for holding in holdings for holder in holding.holders]

        is_wanted = None if all_versions else wanted_root(chain, at, self.now)
        versions = self.engine.examine(examined, chain.kept_versions, is_wanted, holders)
        if not versions and isinstance(at, AtTime | Ago | OnDay) and not files.out_of_time:
            # a version in a gap is damage that is already reported
            raise VersionNotFound("every version was created after that time", hint="choose a later time")
        if self.depth == HINTS and examined.notes.newest is not None:
            RootChecks(examined.reader, examined.notes, actions=False).check_catalogs([examined.notes.newest])
        if not examined.notes.readable and not files.out_of_time:
            examined.findings.append(finding("F103", "vn/", "no version can be read", hint=SALVAGE))
        return versions


def _check_dates(examined: Examined, now: int) -> Iterator[Finding]:
    """Yield a finding if versions are dated later than now. Dates never decrease, so the newest version is enough to
    find them.
    """
    newest, chain, store = examined.notes.newest, examined.chain, examined.files.store
    if newest is None or newest.root is None or newest.root.created_at_millis <= now:
        return
    with suppress(OlympiaError):
        latest = Snapshot(store, read_root(store, newest.version, chain.width))
        if (ahead := dated_ahead(latest, now)) is not None:
            text, words = way_out(latest, ahead)
            here = [(ahead.version, newest.version)]
            yield finding("F119", chain.path(ahead.version), text, versions=here, hint=shlex.join(words))


def _how_definitions(examined: Examined) -> HowRead:
    if examined.definitions is not None:
        return "read"
    return "listed" if examined.named is not None and examined.named.looked_for else "no"


def _check_holder(examined: Examined, holder: Holder) -> list[Finding]:
    findings = []
    catalog = examined.reader.catalog(holder.root.catalog_def)
    if catalog.flaw is not None and holder.root.catalog_def not in examined.notes.bad_catalogs:
        findings.append(holder.finding(holder.root.catalog_def, catalog.flaw))
    checks_actions = examined.depth >= FULL and not examined.chain.java
    if checks_actions and isinstance(flaw := read_actions(holder.data, holder.path), Flaw):
        findings.append(holder.finding(holder.path, flaw))
    return findings


def _checked(examined: Examined, holdings: Sequence[Held]) -> dict[str, int]:
    definitions, notes = examined.definitions, examined.notes
    counts = [holding.count for holding in holdings]
    return {
        "versions": len(examined.roots) if examined.depth >= STRUCTURE else notes.read_count,
        "roots": notes.read_count,
        "nodes": examined.graph.read_count,
        "definitions": (definitions.read_count if definitions is not None else 0) + len(examined.chain.catalogs),
        "actions": notes.actions,
        "transactions": counts[0] if counts else 0,
        "exports": counts[1] if len(counts) > 1 else 0,
        "data_files": examined.data_files,
        "skipped": definitions.skipped if definitions is not None else 0,
        "bytes": examined.files.bytes,
    }


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
