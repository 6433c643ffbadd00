"""Findings that no longer count: known damage of older versions, and damage that was resolved during the check."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from olympia_cli.catalog.properties import ACKNOWLEDGED
from olympia_cli.catalog.retained import KnownDamage, kept_aside_before, purged_before, read_acknowledged
from olympia_cli.format.pb.actions_pb2 import ActionType, RepairDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.ops.fsck.findings import (
    REPAIR,
    Finding,
    Severity,
    merge,
    without,
)
from olympia_cli.ops.fsck.roots import Chain, ChainReader, read_actions
from olympia_cli.ops.fsck.versions import list_versions, open_chain
from olympia_cli.ops.walk import Files, Flaw

if TYPE_CHECKING:
    from olympia_cli.catalog.catalog import Catalog

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
    findings: Sequence[Finding], definition: CatalogDef | None, latest: int, oldest: int | None
) -> list[Finding]:
    """Return the findings, with the acknowledged ones marked. All findings about a former catalog, which a promotion
    keeps aside, are marked too.
    """
    if not findings:
        return []
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


def answered(findings: Sequence[Finding], reader: ChainReader) -> list[Finding]:
    """Return the findings, with older damage that a repair answers turned into warnings.

    The answering repair is the version directly after the affected versions. It names the files that it answers.
    """
    chain = reader.chain
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
    for root in reader.ahead([version]) if version in reader.chain.existing else ():
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
    from olympia_cli.ops.fsck.holders import held_files

    holdings = held_files(files, later, now)
    live = {holder.pin.who for holding in holdings for holder in holding.holders}
    live |= {who for holding in holdings for finding in holding.findings for who in finding.held_by}
    return [finding for finding in findings if finding.code not in _HELD or not live.isdisjoint(finding.held_by)]
