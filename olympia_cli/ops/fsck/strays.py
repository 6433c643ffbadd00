"""Stray roots: copies of roots that were put under the name of a later version, and are not part of the history.

A root names its predecessor. A root that names another one was not committed under its name. It is a stray if it
follows a gap, or if it is a copy of an existing version. Its content is older than the versions before it, so a commit
on top of it would lose those.
"""

from __future__ import annotations

from collections.abc import Iterator

from olympia_cli.format.paths import parse_root_path
from olympia_cli.ops.fsck.chain import Chain, ChainReader, ChainRoot, said
from olympia_cli.ops.fsck.findings import REPAIR, Finding, finding


def leave_out_strays(reader: ChainReader) -> None:
    """Remove stray roots from the existing versions. Without strays, only the latest root is read."""
    chain = reader.chain
    while len(chain.existing) > 1 and not chain.java:
        *others, version = chain.existing
        [root] = reader.ahead([version])
        if not _is_stray(reader, root, others):
            return
        chain.existing = others
        chain.strays.insert(0, chain.ahead.pop(version))


def _is_stray(reader: ChainReader, root: ChainRoot, others: list[int]) -> bool:
    """Return whether a root is a stray. `others` are the versions before it. An unreadable root is damage, and not a
    stray.
    """
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
            f"it is not part of the history, which ends with version {chain.latest}"
        )
        yield finding("F104", root.path, reason, versions=[(root.version, root.version)], hint=REPAIR)
