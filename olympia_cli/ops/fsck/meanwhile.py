"""Remove findings that an expire, a commit or an abort has resolved while fsck was reading."""

from __future__ import annotations

from dataclasses import replace

from olympia_cli.ops.fsck.chain import Chain, list_versions
from olympia_cli.ops.fsck.findings import Finding, Severity
from olympia_cli.ops.fsck.hints import open_chain
from olympia_cli.ops.fsck.holders import held_files
from olympia_cli.ops.fsck.versions import without
from olympia_cli.ops.walk.files import Files

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
