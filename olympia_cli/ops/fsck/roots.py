"""Checks of roots in the order of versions: the chain, the catalog definitions and the logs.

Ranges of versions can be checked on different machines, and their notes added up.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from olympia_cli.format.node import EMPTY, Node
from olympia_cli.format.node_rows import DIGEST_KEY, LOST
from olympia_cli.ops.fsck.actions import read_actions
from olympia_cli.ops.fsck.chain import ChainReader, ChainRoot, check_catalog, check_root, check_times
from olympia_cli.ops.fsck.findings import Finding, finding, merge
from olympia_cli.ops.walk.flaws import Flaw


@dataclass(slots=True)
class RootNotes:
    """The results about roots: unreadable ones, flaws of their catalog definitions, and counts."""

    findings: list[Finding] = field(default_factory=list)
    unreadable: set[int] = field(default_factory=set)
    bad_catalogs: dict[str, list[int]] = field(default_factory=dict)
    catalogs: dict[str, list[int]] = field(default_factory=dict)
    """Catalog definitions without a digest."""
    newest: ChainRoot | None = None
    """The last readable root, without its bytes and its tree."""
    read_count: int = 0
    readable: int = 0
    without_digest: int = 0
    actions: int = 0

    def add(self, other: RootNotes) -> None:
        """Add the notes about later versions."""
        self.findings += other.findings
        self.unreadable |= other.unreadable
        for mine, theirs in ((self.bad_catalogs, other.bad_catalogs), (self.catalogs, other.catalogs)):
            for path, versions in theirs.items():
                mine.setdefault(path, []).extend(versions)
        self.newest = other.newest or self.newest
        self.read_count += other.read_count
        self.readable += other.readable
        self.without_digest += other.without_digest
        self.actions += other.actions


class RootChecks:
    """Checks roots in the order of their versions."""

    def __init__(self, reader: ChainReader, notes: RootNotes, *, actions: bool) -> None:
        """`actions` is true if logs are checked."""
        self._reader = reader
        self._actions = actions
        self.notes = notes
        self.before: ChainRoot | None = None
        """The last readable root."""

    def note(self, root: ChainRoot) -> None:
        """Check a root by itself, and against its predecessor."""
        notes = self.notes
        notes.read_count += 1
        for found in check_root(self._reader.chain, root):
            before = notes.findings[-1] if notes.findings else found
            if found.code == before.code == LOST and before.versions[-1][1] == root.version - 1:
                # a promotion may leave thousands of them in a row
                versions = merge([*before.versions, *found.versions])
                notes.findings[-1] = replace(before, message=_lost(*versions[0]), versions=versions)
            else:
                notes.findings.append(found)
        notes.findings += check_times(root, self.before)
        if root.root is not None:
            notes.readable += 1
            self.before = root
            notes.newest = replace(root, data=None, root=replace(root.root, node=EMPTY))
            if root.data is not None and DIGEST_KEY not in root.data:
                notes.without_digest += 1

    def follow(self, batch: Sequence[ChainRoot]) -> list[tuple[str, Node | bytes]]:
        """Check the files that roots name. Return the top nodes of their trees, or the bytes of damaged roots."""
        self.check_catalogs(batch)
        tops: list[tuple[str, Node | bytes]] = []
        for root in batch:
            if root.root is None:
                self.notes.unreadable.add(root.version)
                tops.append((root.path, root.data or b""))
                continue
            tops.append((root.path, root.root.node))
            if self._actions and root.data is not None and not self._reader.chain.java:
                self._check_actions(root.data, root.path, root.version)
        return tops

    def check_catalogs(self, batch: Sequence[ChainRoot]) -> None:
        notes = self.notes
        for root in batch:
            if root.root is None:
                continue
            catalog = self._reader.catalog(root.root.catalog_def)
            if catalog.flaw is not None and catalog.flaw.code == "F212":
                here = [(root.version, root.version)]
                notes.findings.append(finding("F212", root.path, catalog.flaw.reason, versions=here))
            elif catalog.flaw is not None:
                notes.bad_catalogs.setdefault(root.root.catalog_def, []).append(root.version)
            elif not catalog.verified:
                notes.catalogs.setdefault(root.root.catalog_def, []).append(root.version)
            notes.findings += check_catalog(self._reader.chain, root, catalog)

    def _check_actions(self, data: bytes, path: str, version: int) -> None:
        actions = read_actions(data, path)
        if isinstance(actions, Flaw):
            message = f"the log of version {version}: {actions.reason}"
            self.notes.findings.append(finding("F401", path, message, versions=[(version, version)]))
        else:
            self.notes.actions += len(actions)


def _lost(first: int, last: int) -> str:
    return f"the roots of versions {first} to {last} are lost, and files keep their names"
