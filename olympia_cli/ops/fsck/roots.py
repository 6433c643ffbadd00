"""Roots one after the other: the chain that they make, their catalog definitions and their logs.

A run of versions can be looked at anywhere; what was found in several of them is put together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from olympia_cli.format.node import Node
from olympia_cli.format.node_file import DIGEST_KEY
from olympia_cli.ops.fsck.chain import ChainReader, ReadRoot, check_catalog, check_root, check_times
from olympia_cli.ops.fsck.findings import Finding, finding
from olympia_cli.ops.fsck.holders import check_actions


@dataclass(slots=True)
class RootsSeen:
    """What roots said: which are unreadable, what is wrong with their catalog definitions, and what was counted."""

    findings: list[Finding] = field(default_factory=list)
    unreadable: set[int] = field(default_factory=set)
    bad_catalogs: dict[str, list[int]] = field(default_factory=dict)
    catalogs: dict[str, list[int]] = field(default_factory=dict)
    """Catalog definitions without a digest."""
    read: int = 0
    readable: int = 0
    without_digest: int = 0
    actions: int = 0

    def add(self, other: RootsSeen) -> None:
        """Take in what was seen of later versions."""
        self.findings += other.findings
        self.unreadable |= other.unreadable
        for mine, theirs in ((self.bad_catalogs, other.bad_catalogs), (self.catalogs, other.catalogs)):
            for path, versions in theirs.items():
                mine.setdefault(path, []).extend(versions)
        self.read += other.read
        self.readable += other.readable
        self.without_digest += other.without_digest
        self.actions += other.actions


class RootChecks:
    """Looks at roots in the order of their versions."""

    def __init__(self, reader: ChainReader, seen: RootsSeen, *, actions: bool, before: ReadRoot | None = None) -> None:
        """`actions` says whether logs are looked at; `before` is the last readable root before the first one."""
        self._reader = reader
        self._actions = actions
        self.seen = seen
        self.before = before

    def note(self, root: ReadRoot) -> None:
        """A root by itself, and after the one before it."""
        seen = self.seen
        seen.read += 1
        seen.findings += check_root(self._reader.chain, root)
        seen.findings += check_times(root, self.before)
        if root.root is not None:
            seen.readable += 1
            self.before = root
            if root.data is not None and DIGEST_KEY not in root.data:
                seen.without_digest += 1

    def follow(self, batch: Sequence[ReadRoot]) -> list[tuple[str, Node | bytes]]:
        """Look at what roots themselves name; the tops of their trees, or the bytes of those that are damaged."""
        self.check_catalogs(batch)
        tops: list[tuple[str, Node | bytes]] = []
        for one in batch:
            if one.root is None:
                self.seen.unreadable.add(one.version)
                tops.append((one.path, one.data or b""))
                continue
            tops.append((one.path, one.root.node))
            if self._actions and one.data is not None and not self._reader.chain.java:
                self._check_actions(one.data, one.path, one.version)
        return tops

    def check_catalogs(self, batch: Sequence[ReadRoot]) -> None:
        seen = self.seen
        for one in batch:
            if one.root is None:
                continue
            catalog = self._reader.catalog(one.root.catalog_def)
            if catalog.flaw is not None and catalog.flaw.code == "F212":
                here = [(one.version, one.version)]
                seen.findings.append(finding("F212", one.path, catalog.flaw.reason, versions=here))
            elif catalog.flaw is not None:
                seen.bad_catalogs.setdefault(one.root.catalog_def, []).append(one.version)
            elif not catalog.verified:
                seen.catalogs.setdefault(one.root.catalog_def, []).append(one.version)
            seen.findings += check_catalog(self._reader.chain, one, catalog)

    def _check_actions(self, data: bytes, path: str, version: int) -> None:
        count, reason = check_actions(data, path)
        self.seen.actions += count
        if reason:
            message = f"the log of version {version}: {reason}"
            self.seen.findings.append(finding("F401", path, message, versions=[(version, version)]))
