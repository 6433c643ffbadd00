"""Roots at the end of history that are no part of it: copies that somebody put under the name of a later version.

A root names the version before it. One that names another cannot have been committed where it stands. Behind a gap,
or as the copy of a version that is there, it is a stray: what it holds is older than the versions before it, and
whoever took it for the latest would throw those away.
"""

from __future__ import annotations

from collections.abc import Iterator

from olympia_cli.format.paths import parse_root_path
from olympia_cli.ops.fsck.chain import Chain, ChainReader, ChainRoot, said
from olympia_cli.ops.fsck.findings import REPAIR, Finding, finding


def leave_out_strays(reader: ChainReader) -> None:
    """Take stray roots out of the versions that exist. For a catalog without any the latest root is read, no more."""
    chain = reader.chain
    while len(chain.existing) > 1 and not chain.java:
        *others, version = chain.existing
        [root] = reader.ahead([version])
        if not _is_stray(reader, root, others):
            return
        chain.existing = others
        chain.strays.insert(0, chain.ahead.pop(version))


def _is_stray(reader: ChainReader, root: ChainRoot, others: list[int]) -> bool:
    """`others` are the versions before it. A root that cannot be read is damage, and says nothing of where it was."""
    chain = reader.chain
    if root.root is None or root.root.previous_root == chain.path(root.version - 1):
        return False
    return others[-1] != root.version - 1 or _is_copy(reader, root, others)


def _is_copy(reader: ChainReader, root: ChainRoot, others: list[int]) -> bool:
    assert root.root is not None
    previous = root.root.previous_root
    before = -1 if previous is None else parse_root_path(previous)
    if before is None or before + 1 not in others:
        return False
    return reader.files.read(reader.chain.path(before + 1)) == root.data


def stray_findings(chain: Chain) -> Iterator[Finding]:
    for root in chain.strays:
        assert root.root is not None
        reason = (
            f"the root of version {root.version} names {said(root.root.previous_root)} as the one before it: "
            f"it is no part of history, which ends with version {chain.latest}"
        )
        yield finding("F104", root.path, reason, versions=[(root.version, root.version)], hint=REPAIR)
