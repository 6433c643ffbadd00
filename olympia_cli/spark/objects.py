"""The objects of a version. A partition is a run of subtrees, and its task scans only these."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from olympia_cli.catalog.snapshot import DefinitionReader, Snapshot, read_object
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.format.paths import check_pointer
from olympia_cli.names import ObjectName
from olympia_cli.ops.fsck import describe_object_name
from olympia_cli.ops.inspect import describe_object
from olympia_cli.spark.options import Conditions, KeyRange, key_ranges
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.load import NodeReader, bounds, check_depth, check_range
from olympia_cli.tree.search import depth, scan_subtree

COLUMNS = {
    "type": "string",
    "namespace": "string",
    "name": "string",
    "id": "string",
    "definition": "string",
    "format": "string",
    "metadata_location": "string",
    "previous_metadata_location": "string",
    "properties": "map",
    "version": "long",
}
IN_DEFINITIONS = frozenset({"id", "format", "metadata_location", "previous_metadata_location", "properties"})
"""Columns that need the definition file of each object; the others are in the tree."""

PARTITIONS = 16
AT_ONCE = 1024


@dataclass(frozen=True, slots=True)
class Entry:
    """A key in a node above the subtrees, and its value."""

    key: str
    value: str


@dataclass(frozen=True, slots=True)
class Subtree:
    """A child pointer of a node on level `depth`, and the keys that bound it."""

    path: str
    low: str | None
    high: str | None
    depth: int


Piece = Entry | Subtree


@dataclass(frozen=True, slots=True)
class ObjectPart:
    """Pieces of the tree in key order, and the requested key ranges."""

    version: int
    keys: KeyCodec
    ranges: tuple[KeyRange, ...]
    pieces: tuple[Piece, ...]


def plan_objects(snapshot: Snapshot, conditions: Conditions, partitions: int | None) -> list[ObjectPart]:
    """Return at most `partitions` parts with about equal numbers of subtrees. Only the nodes above the subtrees are
    read."""
    ranges = key_ranges(conditions, snapshot.keys)
    parts = groups(upper_pieces(snapshot, ranges, partitions or PARTITIONS), partitions or PARTITIONS)
    return [ObjectPart(snapshot.version, snapshot.keys, ranges, tuple(part)) for part in parts]


def upper_pieces(snapshot: Snapshot, ranges: Sequence[KeyRange], number: int) -> list[Piece]:
    """Return the tree's upper keys and the subtrees between them, at least `number` subtrees if the tree has that many.

    Descend level by level, but never read a leaf: leaves are the tasks' work.
    """
    pieces = _pieces(snapshot.root.node, None, None, 1, ranges)
    levels = depth(snapshot.reader, snapshot.root.node)
    for level in range(2, levels):
        subtrees = [piece for piece in pieces if isinstance(piece, Subtree)]
        if len(subtrees) >= number:
            break
        nodes = snapshot.reader.nodes([subtree.path for subtree in subtrees])
        below: list[Piece] = []
        for piece in pieces:
            if isinstance(piece, Entry):
                below.append(piece)
                continue
            node = next(nodes)
            check_depth(level, piece.path)
            check_range(node, piece.path, piece.low, piece.high)
            below += _pieces(node, piece.low, piece.high, level, ranges)
        pieces = below
    return pieces


def _pieces(node: Node, low: str | None, high: str | None, level: int, ranges: Sequence[KeyRange]) -> list[Piece]:
    pieces: list[Piece] = []
    for at in range(len(node.keys) + 1):
        if node.children:
            child, between = node.children[at], bounds(node, at, low, high)
            # the Java SDK leaves single pointers out; such a child is an empty node
            if isinstance(child, str) and any(key_range.touches(*between) for key_range in ranges):
                pieces.append(Subtree(child, *between, level))
        if at < len(node.keys):
            key, value = node.keys[at], node.values[at]
            if value is not None and any(key in key_range for key_range in ranges):
                pieces.append(Entry(key, value))
    return pieces


def groups(pieces: Sequence[Piece], most: int) -> list[list[Piece]]:
    """Divide the pieces into at most `most` runs. Each run but the first begins with a subtree. Their numbers of
    subtrees differ by at most one."""
    subtrees = sum(isinstance(piece, Subtree) for piece in pieces)
    runs: list[list[Piece]] = [[] for _ in range(max(1, min(most, subtrees)))] if pieces else []
    count, at = 0, 0
    for piece in pieces:
        if isinstance(piece, Subtree):
            at = count * len(runs) // subtrees
            count += 1
        runs[at].append(piece)
    return runs


def read_objects(
    store: Store, part: ObjectPart, conditions: Conditions, columns: Collection[str]
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a part. Definitions are read only if a column needs them, and only for accepted objects."""
    entries = _accepted(store, part, conditions)
    if not IN_DEFINITIONS & set(columns):
        for name, path in entries:
            yield {**describe_object_name(name), "definition": path, "version": part.version}
        return
    definitions = DefinitionReader(store)
    while batch := list(islice(entries, AT_ONCE)):
        paths = [check_pointer(path, path) for _, path in batch]
        for (name, path), data in zip(batch, definitions.read(paths), strict=True):
            found = read_object(name, path, data)
            # exact: jobs open tables at these locations
            yield {**describe_object(found, part.version, exact=True), **describe_object_name(name)}


def scan_part(store: Store, part: ObjectPart) -> Iterator[tuple[str, str]]:
    """Yield the keys and values of a part, in order."""
    reader = NodeReader(store, java=part.keys.java)
    for piece in part.pieces:
        if isinstance(piece, Entry):
            yield piece.key, piece.value
            continue
        for key_range in part.ranges:
            if key_range.touches(piece.low, piece.high):
                yield from scan_subtree(
                    reader, piece.path, key_range.start, key_range.end, piece.low, piece.high, piece.depth
                )


def _accepted(store: Store, part: ObjectPart, conditions: Conditions) -> Iterator[tuple[ObjectName, str]]:
    accept: Callable[[str, Any], bool] = conditions.accept
    for key, path in scan_part(store, part):
        name = part.keys.decode(key, f"version {part.version}")
        if (
            accept("namespace", name.namespace)
            and accept("name", name.name or name.namespace)
            and accept("definition", path)
        ):
            yield name, path
