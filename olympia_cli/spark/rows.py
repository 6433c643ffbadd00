"""The rows of the data source, and their partitions: objects, versions, actions, nodes and files."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice, pairwise, product
from typing import Any, NamedTuple

from olympia_cli.catalog.replay import rollback_target
from olympia_cli.catalog.snapshot import DefinitionReader, Snapshot, read_object
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import Damaged, PathMissing, StoreError
from olympia_cli.format.actions import changes, commit_info
from olympia_cli.format.codec import CREATED_AT_MILLIS, NodeFile, decode_node
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.format.paths import JAVA_WIDTH, FileKind, check_pointer, file_kind, parse_root_path, root_path
from olympia_cli.format.pb.actions_pb2 import CommitInfoDef
from olympia_cli.names import ObjectName
from olympia_cli.ops.executor import divide
from olympia_cli.ops.fsck import describe_object_name
from olympia_cli.ops.inspect import describe_action, describe_object
from olympia_cli.ops.walk import descend, path_digest
from olympia_cli.spark.options import Conditions, KeyRange, key_ranges
from olympia_cli.spark.pins import gone
from olympia_cli.storage.protocol import ALL, Between, Store
from olympia_cli.tree.load import NodeReader, bounds, check_depth, check_range
from olympia_cli.tree.search import depth, scan_subtree

# The objects of a version. A partition is a run of subtrees, and its task scans only these.

OBJECT_COLUMNS = {
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


# The versions of a catalog and their actions. A partition is a range of versions; each version is one root.

VERSION_COLUMNS = {
    "version": "long",
    "created_at": "timestamp",
    "previous_version": "long",
    "rollback_from": "long",
    "rollback_to": "long",
    "transaction_id": "string",
    "by": "string",
    "message": "string",
    "program": "string",
    "program_version": "string",
    "actions": "int",
    "root": "string",
    "catalog_definition": "string",
    "bytes": "long",
}
ACTION_COLUMNS = {
    "version": "long",
    "created_at": "timestamp",
    "position": "int",
    "type": "string",
    "object": "string",
    "namespace": "string",
    "name": "string",
    "id": "string",
    "detail": "string",
    "transaction_id": "string",
    "by": "string",
    "message": "string",
}
FEWEST = 64
"""A task gets at least this many versions, unless the caller sets the number of parts."""


@dataclass(frozen=True, slots=True)
class VersionPart:
    """Versions, oldest first."""

    width: int
    versions: Sequence[int]


def plan_versions(first: int, last: int, width: int, partitions: int | None) -> list[VersionPart]:
    """Divide the versions from `first` to `last`, both included, into parts of about equal size."""
    versions = range(first, last + 1)
    most = partitions or min(PARTITIONS, -(-len(versions) // FEWEST))
    return [VersionPart(width, part) for part in divide(versions, most)]


def read_versions(store: Store, part: VersionPart) -> Iterator[dict[str, Any]]:
    """Yield a row per version."""
    for snapshot in snapshots(store, part):
        actions, root = snapshot.actions(), snapshot.root
        info = commit_info(actions)
        yield {
            **_common(snapshot, info),
            "previous_version": root.previous_root and parse_root_path(root.previous_root),
            "rollback_from": root.rollback_from_root and parse_root_path(root.rollback_from_root),
            "rollback_to": rollback_target(actions),
            "program": info.program if info is not None else None,
            "program_version": info.program_version if info is not None else None,
            "actions": len(changes(actions)),
            "root": snapshot.file.path,
            "catalog_definition": root.catalog_def,
            "bytes": len(snapshot.file.data),
        }


def read_actions(store: Store, part: VersionPart, conditions: Conditions) -> Iterator[dict[str, Any]]:
    """Yield a row per action in log order, with the author and message of its commit."""
    for snapshot in snapshots(store, part):
        actions = snapshot.actions()
        common = _common(snapshot, commit_info(actions))
        for position, action in enumerate(changes(actions)):
            row = {**common, "position": position, **describe_action(action), "id": action.id or None}
            if all(conditions.accept(column, row[column]) for column in ("type", "object", "namespace", "name")):
                row["detail"] = json.dumps(row["detail"], ensure_ascii=False)
                yield row


def snapshots(store: Store, part: VersionPart) -> Iterator[Snapshot]:
    """Yield the versions of a part; a bounded number of roots is read ahead."""
    near: Snapshot | None = None
    paths = (root_path(version, part.width) for version in part.versions)
    for version, (path, data) in zip(part.versions, store.read_many(paths), strict=True):
        if isinstance(data, PathMissing):
            raise gone(store, version, path)
        if isinstance(data, Exception):
            raise data
        near = Snapshot(store, RootFile.of(version, part.width, data), near)
        yield near


def _common(snapshot: Snapshot, info: CommitInfoDef | None) -> dict[str, Any]:
    return {
        "version": snapshot.version,
        "created_at": snapshot.created_at_millis,
        "transaction_id": info.transaction_id if info is not None else None,
        "by": info.by if info is not None else None,
        "message": info.message if info is not None else None,
    }


# The node files of versions, each listed once. A partition is a range of keys, over all requested versions.
#
# Versions share nodes through copy-on-write, and splits and merges move nodes between subtrees. A node belongs to the
# part whose range holds the node's first key, which is the same in every version. So no two parts yield the same node,
# although both may read a node that crosses their border.

NODE_COLUMNS = {
    "path": "string",
    "kind": "string",
    "version": "long",
    "created_at": "timestamp",
    "keys": "int",
    "children": "int",
    "bytes": "long",
    "verified": "boolean",
}
NODES_AT_ONCE = 256


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
    ranges = _node_ranges(latest, partitions or PARTITIONS)
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


def _node_ranges(latest: Snapshot, number: int) -> list[KeyRange]:
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
            rows.append(_node_row(subtree.path, "node", None, file, len(data)))
        return _below(file.node, subtree, part.key_range, digests)

    tops = [Subtree(path, None, None, 1) for path in _new(part.pointers, digests)]
    for _ in descend(tops, look, visit, at_once=NODES_AT_ONCE):
        yield from rows
        rows.clear()


def _read_roots(store: Store, part: NodePart, java: bool) -> Iterator[dict[str, Any]]:
    if part.pinned is not None:
        data = store.read(part.pinned)
        yield _node_row(part.pinned, "root", part.roots[0], decode_node(data, part.pinned, java), len(data))
        return
    for snapshot in snapshots(store, VersionPart(part.width, part.roots)):
        data, path = snapshot.file.data, snapshot.file.path
        yield _node_row(path, "root", snapshot.version, decode_node(data, path, java), len(data))


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


def _node_row(path: str, kind: str, version: int | None, file: NodeFile, size: int) -> dict[str, Any]:
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


# The files below a catalog's prefix, as a listing shows them. A partition is a set of ranges of names.
#
# The listing does not say whether a version reaches a file: that takes a walk through all trees, and a join.

FILE_COLUMNS = {"path": "string", "kind": "string", "bytes": "long", "modified_at": "timestamp"}

_HEX = "0123456789abcdef"
_FOLDERS = {
    "vn/": (FileKind.ROOT, FileKind.HINT),
    "node/": (FileKind.NODE,),
    "def/catalog/": (FileKind.DEFINITION,),
    "def/ns/": (FileKind.DEFINITION,),
    "def/table/": (FileKind.DEFINITION,),
    "def/view/": (FileKind.DEFINITION,),
    "def/dtxn/": (FileKind.TRANSACTION,),
    "dtxn/": (FileKind.TRANSACTION,),
    "ops/": (FileKind.OPERATION,),
    "data/": (FileKind.DATA,),
}
_DIGITS = {"vn/": "01", **dict.fromkeys(("node/", "def/ns/", "def/table/", "def/view/"), _HEX)}
"""The first characters of names in large folders, about equally frequent: hex digits of a UUID, or the low bits of a
version."""
_LARGEST, _SHARES = "def/table/", 8
"""The folder with most files of a large catalog, and how many times one listing may read it."""
_FEW = 64
"""Up to this many parts, the first digit of names divides folders finely enough."""


class FileRange(NamedTuple):
    """Files whose paths begin with a prefix, and lie between two paths."""

    prefix: str
    between: Between = ALL


@dataclass(frozen=True, slots=True)
class FilePart:
    ranges: tuple[FileRange, ...]


def plan_files(uri: str, conditions: Conditions, partitions: int | None, cores: int = 1) -> list[FilePart]:
    """Divide the files that the conditions accept into parts; each file is in exactly one part.

    A bucket lists in the order of names, so a range costs only the files in it. All names are cut where folders begin,
    and large folders by the first digits of names. Files that the format does not define lie between two cuts like all
    others, so no task pages through the whole bucket.

    A local folder is read as a whole for every range, but most of the time goes into inspecting its files one by one.
    So `cores` tasks share the largest folder there.
    """
    strange = any(conditions.accept("kind", kind.value) for kind in (FileKind.UNKNOWN, FileKind.TEMPORARY))
    folders = [
        folder for folder, holds in _FOLDERS.items() if any(conditions.accept("kind", kind.value) for kind in holds)
    ]
    prefixes = [""] if strange else folders
    number = partitions or PARTITIONS
    if uri.startswith(("s3://", "gs://")):
        cuts = _cuts(1 if number <= _FEW else 2)
    else:
        shares = min(number, cores, _SHARES)
        cuts = {f"{_LARGEST}{_HEX[at * len(_HEX) // shares]}" for at in range(1, shares)}
    ranges = [part for prefix in prefixes for part in _file_ranges(prefix, cuts)]
    most = min(number, len(ranges))
    return [FilePart(tuple(ranges[at::most])) for at in range(most)]


def _cuts(digits: int) -> set[str]:
    """Return the paths where folders begin and, in large folders, the names with each of the first digits."""
    cuts = {folder for folder in _FOLDERS if folder not in _DIGITS}
    for folder, letters in _DIGITS.items():
        # four bits distinguish as many names as one hexadecimal digit
        begins = product(letters, repeat=digits if letters is _HEX else 4 * digits)
        cuts.update(folder + "".join(begin) for begin in begins)
    return cuts


def _file_ranges(prefix: str, cuts: set[str]) -> Iterator[FileRange]:
    """Divide the files below a prefix at the cuts."""
    inside = sorted(cut for cut in cuts if cut.startswith(prefix) and cut != prefix)
    for after, until in pairwise([prefix, *inside, None]):
        yield FileRange(prefix, (after or "", until))


def read_files(store: Store, part: FilePart, conditions: Conditions) -> Iterator[dict[str, Any]]:
    """Yield a row per file of a part, including writes in progress."""
    for prefix, between in part.ranges:
        for file in store.list(prefix, temporary=True, between=between):
            kind = file_kind(file.path).value
            if conditions.accept("kind", kind):
                yield {"path": file.path, "kind": kind, "bytes": file.size, "modified_at": file.modified_at_millis}
