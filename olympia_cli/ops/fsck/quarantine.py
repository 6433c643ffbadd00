"""The check of the versions in quarantine as if they were history: an undo restores only sound ones."""

from __future__ import annotations

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.format.paths import OLDEST
from olympia_cli.ops.expire import UndoPlan, plan_undo
from olympia_cli.ops.fsck.chain import list_versions
from olympia_cli.ops.fsck.engine import LocalEngine
from olympia_cli.ops.fsck.findings import (
    Finding,
)
from olympia_cli.ops.fsck.known_damage import recognised
from olympia_cli.ops.fsck.report import FULL
from olympia_cli.ops.fsck.roots import check_gaps, open_chain, read_hint
from olympia_cli.ops.fsck.sound_versions import compare_with_log
from olympia_cli.ops.fsck.verdict import Examined, Verdict
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk import Files, failures_pass
from olympia_cli.storage.protocol import Store


def plan_whole_undo(head: Snapshot, progress: Progress = SILENT) -> tuple[UndoPlan, list[Finding]]:
    """Plan an undo of the versions in quarantine from the first one that is sound with all later ones.

    Also return the findings about the versions before it, the newest first. All versions in quarantine are read.
    """
    plan = plan_undo(head)
    if not plan.versions:
        return plan, []
    errors = _damage(head.store, plan.versions, progress)
    return plan_undo(head, max([plan.oldest, *(_last(error, plan.versions) + 1 for error in errors)])), errors


def _damage(store: Store, versions: range, progress: Progress) -> list[Finding]:
    """Return the damage of these versions, without acknowledged findings."""
    files = Files(store, lambda: False, progress, patience=1)
    with failures_pass():
        progress.phase("reading the quarantine")
        chain, _ = open_chain(files, *list_versions(store), read_hint(files, OLDEST))
        chain.oldest = versions.start
        gaps = list(check_gaps(store, chain))
        trees = LocalEngine().trees(files, chain, FULL)
        there = [version for version in chain.existing if version in versions]
        trees.add(there)
        compare_with_log(trees, all_versions=True)
        findings = [*gaps, *Verdict(Examined(trees), there).findings(objects=False)]
        findings = recognised(findings, chain.reference, chain.latest, chain.oldest)
    hit = [finding for finding in findings if finding.is_damage and _last(finding, versions) >= versions.start]
    return sorted(hit, key=lambda finding: -_last(finding, versions))


def _last(finding: Finding, versions: range) -> int:
    """Return the last of the versions that a finding affects; -1 if it affects none."""
    return max((min(last, versions[-1]) for first, last in finding.versions if first <= versions[-1]), default=-1)
