"""fsck: find damage of a catalog, the versions and objects that it affects, and the next step.

Damage never raises an error: fsck exists to report it. Each file is read once, even if versions share it. Only files
around damage are read again, to name the affected objects.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Literal

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.clock import Clock, SystemClock
from olympia_cli.catalog.references import dated_ahead, way_out
from olympia_cli.catalog.retained import KnownDamage, kept_aside_before, purged_before, read_acknowledged
from olympia_cli.catalog.snapshot import ACKNOWLEDGED, Snapshot
from olympia_cli.catalog.versions import read_root
from olympia_cli.errors import OlympiaError, VersionNotFound
from olympia_cli.format.paths import OLDEST
from olympia_cli.format.pb.actions_pb2 import ActionType, RepairDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Ago, AtTime, OnDay, Reference
from olympia_cli.ops.expire import UndoPlan, plan_undo
from olympia_cli.ops.fsck.actions import read_actions
from olympia_cli.ops.fsck.chain import Chain, ChainReader, list_versions, wanted_root
from olympia_cli.ops.fsck.definitions import Verified
from olympia_cli.ops.fsck.engine import LocalEngine
from olympia_cli.ops.fsck.findings import (
    REPAIR,
    SALVAGE,
    DataChecks,
    Finding,
    Severity,
    describe_finding,
    finding,
    merge,
)
from olympia_cli.ops.fsck.holders import Held, Holder, held_files
from olympia_cli.ops.fsck.impact import without
from olympia_cli.ops.fsck.roots import RootChecks, check_gaps, look_at_versions, no_version, open_chain, read_hint
from olympia_cli.ops.fsck.sound_versions import compare_with_log, look_back, look_for_named
from olympia_cli.ops.fsck.verdict import FULL, HINTS, STRUCTURE, Engine, Examined, Verdict, importance, new_examined
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.files import Files, failures_pass
from olympia_cli.ops.walk.nodes import Flaw
from olympia_cli.storage.protocol import Store

# Known damage of older versions: acknowledged by users, or answered by a repair. It is reported, but does not count.
#
# Acknowledged findings are stored in the catalog's definition. A finding is acknowledged if code and file match, and if
# all its versions were acknowledged. New damage counts, even of the same file.

MOST = 1000
"""The largest number of findings to store. Every reader reads them."""

_GAP = "F101"
_OF_ALL = frozenset({_GAP, "F102", "F103"})
"""The codes that concern the history as a whole, and so its latest version."""


def of_the_past(finding: Finding, latest: int | None, oldest: int | None) -> bool:
    """Return whether a finding concerns only older versions.

    False if the latest version, a live transaction or an export is affected. A gap counts as older only if the oldest
    versions are missing, as readers may stop at any other gap.
    """
    is_error = finding.severity is Severity.ERROR or finding.mended_in is not None
    if not is_error or latest is None or not (finding.path and finding.versions):
        return False
    # where vn/oldest of a full export is lost, a repair writes it
    if finding.held_by or finding.hint == REPAIR:
        return False
    at_the_end = finding.code == _GAP and oldest is not None and finding.versions[0][0] <= oldest
    return (at_the_end or finding.code not in _OF_ALL) and finding.versions[-1][1] < latest


def recognised(
    findings: Iterable[Finding], definition: CatalogDef | None, latest: int, oldest: int | None
) -> list[Finding]:
    """Return the findings, with the acknowledged ones marked. All findings about a former catalog, which a promotion
    keeps aside, are marked too.
    """
    known_damage = {} if definition is None else read_acknowledged(definition)
    aside = 0 if definition is None else kept_aside_before(definition)
    return [
        replace(finding, acknowledged=True)
        if _is_aside(finding, aside) or (of_the_past(finding, latest, oldest) and _covers(known_damage, finding))
        else finding
        for finding in findings
    ]


def _is_aside(finding: Finding, aside: int) -> bool:
    """Return whether a finding concerns only versions below `aside`, and no live transaction or export."""
    is_old = bool(finding.versions) and finding.versions[-1][1] < aside
    return finding.severity is Severity.ERROR and is_old and not finding.held_by


def answered(findings: Iterable[Finding], reader: ChainReader) -> list[Finding]:
    """Return the findings, with older damage that a repair answers turned into warnings.

    The answering repair is the version directly after the affected versions. It names the files that it answers.
    """
    findings, chain = list(findings), reader.chain
    past = [finding for finding in findings if finding.is_damage and of_the_past(finding, chain.latest, chain.oldest)]
    hit = merge(span for finding in past for span in finding.versions)
    files = {last + 1: _answers(reader, last + 1) for _, last in hit}

    def answer(finding: Finding) -> Finding:
        after = next(last + 1 for first, last in hit if first <= finding.versions[-1][0] <= last)
        if finding.path not in files[after]:
            return finding
        message = f"{finding.message}; the repair in v{after} answers it"
        return replace(finding, severity=Severity.WARNING, message=message, mended_in=after)

    return [answer(finding) if finding in past else finding for finding in findings]


def _answers(reader: ChainReader, version: int) -> frozenset[str]:
    """Return the files that a version answers. Empty if it is not a repair."""
    for root in reader.roots([version]) if version in reader.chain.existing else ():
        actions = None if root.data is None else read_actions(root.data, root.path)
        for action in () if actions is None or isinstance(actions, Flaw) else actions:
            if action.type == ActionType.CATALOG_REPAIR:
                return frozenset(action.parse_payload(RepairDef).answers)
    return frozenset()


def _covers(known_damage: KnownDamage, finding: Finding) -> bool:
    spans = merge(known_damage.get((finding.code, finding.path), ()))
    return merge([*spans, *finding.versions]) == spans


def acknowledge(catalog: Catalog, findings: Sequence[Finding], message: str = "") -> int | None:
    """Commit the findings as acknowledged. Return the version, or None if there is nothing to commit."""
    transaction = catalog.begin()
    definition = transaction.base.definition
    known_damage, purged = read_acknowledged(definition), purged_before(definition)
    # forget findings about purged versions; those in quarantine may return with an undo
    known_damage = {key: spans for key, spans in known_damage.items() if any(last >= purged for _, last in spans)}
    for each in findings:
        key = (each.code, each.path)
        if key in known_damage or len(known_damage) < MOST:
            known_damage[key] = list(merge([*known_damage.get(key, ()), *each.versions]))
    text = json.dumps(
        [{"code": code, "path": path, "versions": spans} for (code, path), spans in sorted(known_damage.items())],
        separators=(",", ":"),
    )
    if text == definition.properties.get(ACKNOWLEDGED, "[]"):
        return None
    transaction.acknowledge(text)
    count = "1 finding" if len(findings) == 1 else f"{len(findings):,} findings"
    return catalog.commit(transaction, message or f"{count} of fsck acknowledged").version


# Remove findings that an expire, a commit or an abort has resolved while fsck was reading.

_HELD = frozenset({"F501", "F502", "F503"})


def still_so(files: Files, chain: Chain, findings: list[Finding], now: int, all_versions: bool) -> list[Finding]:
    """Return the findings that still hold. Without an error, nothing is read."""
    errors = [finding for finding in findings if finding.severity is Severity.ERROR]
    if not errors:
        return findings
    later = _look_again(files, chain)
    if later.oldest > chain.oldest:
        findings = [remainder for finding in findings if (remainder := _kept(finding, chain, later.oldest)) is not None]
    if all_versions and any(finding.code in _HELD for finding in findings):
        findings = _still_held(files, later, findings, now)
    return findings


def _look_again(files: Files, chain: Chain) -> Chain:
    """Return the chain as it is now. Return the given chain if no version was added."""
    existing, width = list_versions(files.store)
    if not existing or existing[-1] <= chain.latest:
        return chain
    return open_chain(files, existing, width, None)[0]


def _kept(finding: Finding, chain: Chain, oldest: int) -> Finding | None:
    """Return the finding for the versions that an expire has left, or None if there are none."""
    if not finding.versions or finding.severity is not Severity.ERROR:
        return finding
    if finding.code == "F101":
        return finding if finding.versions[-1][1] >= oldest else None
    versions = without(finding.versions, chain.existing, ((0, oldest - 1),))
    return replace(finding, versions=versions) if versions else None


def _still_held(files: Files, later: Chain, findings: list[Finding], now: int) -> list[Finding]:
    """Return the findings without those about transactions and exports that have ended."""
    holdings = held_files(files, later, now)
    live = {holder.who for holding in holdings for holder in holding.holders}
    live |= {who for holding in holdings for finding in holding.findings for who in finding.held_by}
    return [finding for finding in findings if finding.code not in _HELD or not live.isdisjoint(finding.held_by)]


# The check of the versions in quarantine as if they were history: an undo restores only sound ones.


def plan_whole_undo(head: Snapshot, progress: Progress = SILENT) -> tuple[UndoPlan, list[Finding]]:
    """Plan an undo of the versions in quarantine from the first one that is sound with all later ones.

    Also return the findings about the versions before it, the newest first. All versions in quarantine are read.
    """
    plan = plan_undo(head)
    if not plan.versions:
        return plan, []
    errors = _check(head.store, plan.versions, progress)
    return plan_undo(head, max([plan.oldest, *(_last(error, plan.versions) + 1 for error in errors)])), errors


def _check(store: Store, versions: range, progress: Progress) -> list[Finding]:
    """Return the damage of these versions, without acknowledged findings."""
    files = Files(store, lambda: False, progress, patience=1)
    with failures_pass():
        progress.phase("reading the quarantine")
        chain, _ = open_chain(files, *list_versions(store), read_hint(files, OLDEST))
        chain.oldest = versions.start
        gaps = list(check_gaps(store, chain))
        examined = new_examined(files, chain, FULL)
        there = [version for version in chain.existing if version in versions]
        LocalEngine().examine(examined, there, None, tuple)
        compare_with_log(examined, all_versions=True)
        findings = [*gaps, *Verdict(examined, there).findings(objects=False)]
        findings = recognised(findings, chain.reference, chain.latest, chain.oldest)
    hit = [finding for finding in findings if finding.is_damage and _last(finding, versions) >= versions.start]
    return sorted(hit, key=lambda finding: -_last(finding, versions))


def _last(finding: Finding, versions: range) -> int:
    """Return the last of the versions that a finding affects; -1 if it affects none."""
    return max((min(last, versions[-1]) for first, last in finding.versions if first <= versions[-1]), default=-1)


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
