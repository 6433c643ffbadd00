"""The node files of versions, each listed once. A partition is a range of keys, over all requested versions.

Versions share nodes through copy-on-write, and splits and merges move nodes between subtrees. A node belongs to the
part whose range holds the node's first key, which is the same in every version. So no two parts yield the same node,
although both may read a node that crosses their border.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged, PathMissing, StoreError
from olympia_cli.format.codec import CREATED_AT_MILLIS, NodeFile, decode_node
from olympia_cli.format.node import Node
from olympia_cli.format.paths import JAVA_WIDTH, check_pointer
from olympia_cli.ops.executor import divide
from olympia_cli.ops.walk import descend, path_digest
from olympia_cli.spark.objects import PARTITIONS, Subtree, groups, upper_pieces
from olympia_cli.spark.options import KeyRange
from olympia_cli.spark.versions import VersionPart, snapshots
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.load import bounds

COLUMNS = {
    "path": "string",
    "kind": "string",
    "version": "long",
    "created_at": "timestamp",
    "keys": "int",
    "children": "int",
    "bytes": "long",
    "verified": "boolean",
}
AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class NodePart:
    """The nodes below `pointers` whose first key lies in the range, and the versions whose roots this part yields."""

    width: int
    key_range: KeyRange
    pointers: tuple[str, ...]
    roots: Sequence[int]
    pinned: str | None = None
    """Path of the root that an export keeps of an expired version."""


def plan_nodes(latest: Snapshot, root: str, first: int, partitions: int | None) -> list[NodePart]:
    """Return the parts for the versions from `first` to that of `latest`, whose root lies at `root`.

    Each root is read here once; only the distinct child pointers are kept.
    """
    width = latest.file.width
    ranges = _ranges(latest, partitions or PARTITIONS)
    if first == latest.version:
        pointers = _pointers([latest])
    else:
        pointers = _pointers(snapshots(latest.store, VersionPart(width, range(first, latest.version + 1))))
    parts = [
        NodePart(
            width,
            key_range,
            tuple(path for path, (low, high) in pointers.items() if key_range.touches(low, high)),
            (),
        )
        for key_range in ranges
    ]
    if root != latest.file.path:
        return [replace(parts[0], roots=(latest.version,), pinned=root), *parts[1:]]
    for at, versions in enumerate(divide(range(first, latest.version + 1), len(parts))):
        parts[at] = replace(parts[at], roots=versions)
    return parts


def _ranges(latest: Snapshot, number: int) -> list[KeyRange]:
    """Divide all keys into ranges, cut between runs of the latest version's subtrees."""
    runs = groups(upper_pieces(latest, [KeyRange()], number), number)
    cuts = [run[0].low for run in runs[1:] if isinstance(run[0], Subtree)]
    ordered = sorted(cut for cut in cuts if cut is not None)
    return [KeyRange(start, end) for start, end in zip(["", *ordered], [*ordered, None], strict=True)]


def _pointers(versions: Iterator[Snapshot] | Sequence[Snapshot]) -> dict[str, tuple[str | None, str | None]]:
    """Return the distinct children of the roots, each with its widest key bounds."""
    pointers: dict[str, tuple[str | None, str | None]] = {}
    for snapshot in versions:
        node = snapshot.root.node
        for at, child in enumerate(node.children):
            if isinstance(child, str):
                low, high = bounds(node, at, None, None)
                if child in pointers:
                    known_low, known_high = pointers[child]
                    low = None if low is None or known_low is None else min(low, known_low)
                    high = None if high is None or known_high is None else max(high, known_high)
                pointers[check_pointer(child, snapshot.file.path)] = (low, high)
    return pointers


def read_nodes(store: Store, part: NodePart) -> Iterator[dict[str, Any]]:
    """Yield a row per node of a part. Raise Damaged if a node is missing or malformed."""
    java = part.width == JAVA_WIDTH
    yield from _read_roots(store, part, java)
    digests: set[bytes] = set()
    rows: list[dict[str, Any]] = []

    def look(subtrees: Sequence[Subtree]) -> Iterator[tuple[Subtree, bytes | StoreError]]:
        return zip(subtrees, (data for _, data in store.read_many([top.path for top in subtrees])), strict=True)

    def visit(subtree: Subtree, data: bytes | StoreError) -> list[Subtree]:
        if isinstance(data, PathMissing):
            raise Damaged("F201", subtree.path, "a node of the tree is missing")
        if isinstance(data, Exception):
            raise data
        file = decode_node(data, subtree.path, java)
        if (file.node.keys[0] if file.node.keys else "") in part.key_range:
            rows.append(_row(subtree.path, "node", None, file, len(data)))
        return _below(file.node, subtree, part.key_range, digests)

    tops = [Subtree(path, None, None, 1) for path in _new(part.pointers, digests)]
    for _ in descend(tops, look, visit, at_once=AT_ONCE):
        yield from rows
        rows.clear()


def _read_roots(store: Store, part: NodePart, java: bool) -> Iterator[dict[str, Any]]:
    if part.pinned is not None:
        data = store.read(part.pinned)
        yield _row(part.pinned, "root", part.roots[0], decode_node(data, part.pinned, java), len(data))
        return
    for snapshot in snapshots(store, VersionPart(part.width, part.roots)):
        data, path = snapshot.file.data, snapshot.file.path
        yield _row(path, "root", snapshot.version, decode_node(data, path, java), len(data))


def _below(node: Node, above: Subtree, key_range: KeyRange, digests: set[bytes]) -> list[Subtree]:
    subtrees = []
    for at, child in enumerate(node.children):
        low, high = bounds(node, at, above.low, above.high)
        # a child at the border of our range may lead to a node whose first key is in it
        if isinstance(child, str) and key_range.touches(low, high):
            subtrees += [Subtree(path, low, high, above.depth + 1) for path in _new([child], digests)]
    return subtrees


def _new(paths: Sequence[str], digests: set[bytes]) -> list[str]:
    new = []
    for path in paths:
        digest = path_digest(check_pointer(path, path))
        if digest not in digests:
            digests.add(digest)
            new.append(path)
    return new


def _row(path: str, kind: str, version: int | None, file: NodeFile, size: int) -> dict[str, Any]:
    created = file.system.get(CREATED_AT_MILLIS, "")
    return {
        "path": path,
        "kind": kind,
        "version": version,
        "created_at": int(created) if created.isascii() and created.isdigit() and len(created) <= 18 else None,
        "keys": len(file.node.keys),
        "children": len(file.node.children),
        "bytes": size,
        "verified": file.verified,
    }
