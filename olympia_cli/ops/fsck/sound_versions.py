"""The search for sound versions: a version that is copied, the newest sound one for a repair, and those that may leave
quarantine.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from olympia_cli.catalog.retained import purged_before
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.format.paths import OLDEST, WIDTH
from olympia_cli.names import Kind
from olympia_cli.ops.fsck.actions import disproved, disproved_catalogs
from olympia_cli.ops.fsck.definitions import BadDefinition
from olympia_cli.ops.fsck.findings import FULL, Finding, Severity, inside
from olympia_cli.ops.fsck.impact import Radius
from olympia_cli.ops.fsck.known_damage import recognised
from olympia_cli.ops.fsck.roots import ROOTS_AT_ONCE, CatalogFile, Chain
from olympia_cli.ops.fsck.trees import Engine, LocalEngine, Trees, exhaust
from olympia_cli.ops.fsck.verdict import Examined, Verdict
from olympia_cli.ops.fsck.versions import check_gaps, list_versions, open_chain, read_hint
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk import Files, Flaw, failures_pass
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from olympia_cli.ops.expire import UndoPlan

_DISPROVED = "has no digest, and contradicts the log"

Disproof = tuple[Kind, str, Flaw]
"""A readable definition that contradicts the log: its kind, its path, and the flaw."""


def examine_version(
    files: Files, chain: Chain, version: int, engine: Engine, findings: Sequence[Finding] = ()
) -> tuple[Trees, Verdict]:
    """Read and judge all files of a version. The chain supplies the reference definition and the logs; `findings` are
    part of the verdict.
    """
    with files, engine:
        trees = engine.trees(files, chain, FULL)
        files.progress.phase("reading versions")
        trees.add([version])
    compare_with_log(trees)
    return trees, Verdict(Examined(trees, tuple(findings)), [version])


def errors_of(verdict: Verdict) -> list[Finding]:
    """Return the errors of a verdict, the most important first. Empty if the version is sound."""
    bare = verdict.bare_findings
    findings = verdict.with_hints(bare, verdict.last_sound(bare))
    return [finding for finding in findings if finding.severity is Severity.ERROR]


class LatestVersion:
    """The verdict about the latest version with all its files, and on demand about older ones."""

    def __init__(self, files: Files, versions: Sequence[int]) -> None:
        """`versions` are all versions with a root."""
        self.chain, _ = open_chain(files, list(versions), WIDTH, read_hint(files, OLDEST))
        chain = self.chain
        self._trees = LocalEngine().trees(files, chain, FULL)
        files.progress.phase("reading roots", len(chain.kept_versions))
        batches = self._trees.check_roots(chain.kept_versions)
        latest = [root for batch in batches for root in batch if root.version == chain.latest]
        files.progress.phase("reading nodes")
        exhaust(self._trees.follow([latest]))
        self.disproofs = compare_with_log(self._trees)
        self._verdict = Verdict(Examined(self._trees), [chain.latest])

    def errors(self) -> list[Finding]:
        """Return the errors of the latest version."""
        return [
            error
            for error in self._verdict.bare_findings
            if error.severity is Severity.ERROR and inside(self.chain.latest, error.versions)
        ]

    def last_sound(self, oldest: int) -> int | None:
        """Return the newest version without an error, not older than `oldest`."""
        self.chain.oldest = oldest
        self._verdict = look_back(Examined(self._trees), self._verdict, None)
        return self._verdict.last_sound(self._verdict.bare_findings)


def look_for_named(trees: Trees) -> None:
    """Find missing definitions in a listing, if definitions were not read."""
    if trees.named is not None:
        trees.named.look_for(trees.files, trees.graph)


def look_back(examined: Examined, verdict: Verdict, most: int | None) -> Verdict:
    """Follow older versions step by step until one is sound, at most `most` of them. The latest is already followed,
    and the roots of all are checked.
    """
    trees = examined.trees
    chain = trees.chain
    older = [version for version in reversed(chain.kept_versions) if version < chain.latest][:most]
    at, step = 0, 8
    while verdict.last_sound(verdict.bare_findings) is None and at < len(older):
        if trees.files.out_of_time:
            break
        trees.add(sorted(older[at : at + step]), checked=True)
        compare_with_log(trees)
        look_for_named(trees)
        at += step
        step = max(ROOTS_AT_ONCE, at)
        verdict = Verdict(examined, sorted([chain.latest, *older[:at]]))
    return verdict


def compare_with_log(trees: Trees, all_versions: bool = False) -> list[Disproof]:
    """Compare definitions without a digest with the log, as they may be truncated or replaced. Return those that
    contradict it.
    """
    definitions, chain, reader = trees.definitions, trees.chain, trees.chain_reader
    if definitions is None or chain.java or trees.files.out_of_time:
        return []
    disproofs: list[Disproof] = []
    if any(catalog.definition is not None and not catalog.verified for catalog in chain.catalogs.values()):
        for path in list(disproved_catalogs(reader, chain.kept_versions)):
            flaw = Flaw("F307", f"the catalog definition {_DISPROVED}")
            chain.catalogs[path] = CatalogFile(None, flaw)
            if path in trees.notes.catalogs:
                trees.notes.bad_catalogs[path] = trees.notes.catalogs[path]
            disproofs.append((Kind.CATALOG, path, flaw))
    unverified = {number: named for number, named in definitions.unverified.items() if number not in definitions.bad}
    if unverified and trees.keys is not None:
        first = _first_versions(trees, set(unverified)) if all_versions else {}
        for number in disproved(reader, _logged_versions(chain), unverified, first, trees.keys):
            path, kind, _ = unverified[number]
            definitions.bad[number] = BadDefinition(path, Flaw("F304", f"it {_DISPROVED}"))
            disproofs.append((kind, path, definitions.bad[number].flaw))
    return disproofs


def _logged_versions(chain: Chain) -> list[int]:
    """Return the versions with usable logs. Versions in quarantine were history, and their logs are complete until the
    purge.
    """
    purged = chain.oldest if chain.reference is None else min(purged_before(chain.reference), chain.oldest)
    return [version for version in chain.existing if version >= purged]


def _first_versions(trees: Trees, numbers: set[int]) -> dict[int, int]:
    """Return the first version that names each of these definitions."""
    naming = trees.graph.naming(numbers)
    radius = Radius(trees.graph, trees.versions, {}, {node for nodes in naming.values() for node in nodes})
    reached = {number: radius.versions(nodes) for number, nodes in naming.items()}
    return {number: versions[0][0] for number, versions in reached.items() if versions}


# The check of the versions in quarantine as if they were history: an undo restores only sound ones.


def plan_whole_undo(head: Snapshot, progress: Progress = SILENT) -> tuple[UndoPlan, list[Finding]]:
    """Plan an undo of the versions in quarantine from the first one that is sound with all later ones.

    Also return the findings about the versions before it, the newest first. All versions in quarantine are read.
    """
    from olympia_cli.ops.expire import plan_undo

    plan = plan_undo(head)
    if not plan.versions:
        return plan, []
    errors = _damage(head.store, plan.versions, progress)
    return plan_undo(head, max([plan.oldest, *(_last(error, plan.versions) + 1 for error in errors)])), errors


def _damage(store: Store, versions: range, progress: Progress) -> list[Finding]:
    """Return the damage of these versions, without acknowledged findings."""
    files = Files(store, progress, patience=1)
    with failures_pass():
        progress.phase("reading the quarantine")
        chain, _ = open_chain(files, *list_versions(store), read_hint(files, OLDEST))
        chain.oldest = versions.start
        gaps = list(check_gaps(store, chain))
        trees = LocalEngine().trees(files, chain, FULL)
        there = [version for version in chain.existing if version in versions]
        trees.add(there)
        compare_with_log(trees, all_versions=True)
        findings = [*gaps, *Verdict(Examined(trees), there).bare_findings]
        findings = recognised(findings, chain.reference, chain.latest, chain.oldest)
    hit = [finding for finding in findings if finding.is_damage and _last(finding, versions) >= versions.start]
    return sorted(hit, key=lambda finding: -_last(finding, versions))


def _last(finding: Finding, versions: range) -> int:
    """Return the last of the versions that a finding affects; -1 if it affects none."""
    return max((min(last, versions[-1]) for first, last in finding.versions if first <= versions[-1]), default=-1)
