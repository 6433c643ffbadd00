"""The shape of a version's tree of node files: what each level holds, and the top of the tree for a drawing.

Every node is read once, level by level in parallel. Of a node only counts are kept, and what the drawing shows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import Damaged, OlympiaError, PathMissing, StorageDenied, StorageFailed
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node, Sizes
from olympia_cli.format.node_file import decode_node, decode_root
from olympia_cli.format.paths import check_pointer
from olympia_cli.ops.look.dump_node import catalog_sizes
from olympia_cli.ops.look.node_target import NodeBytes
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.load import bounds, check_depth, check_range

BATCH = 65_536
"""Nodes of a level that wait to be read at once; a wider level is gone through in parts, with what is below each."""


@dataclass(slots=True)
class TreeNode:
    """A node of the drawing. `reason` says why it could not be read."""

    path: str
    level: int
    keys: int = 0
    size: int = 0
    fill: float | None = None
    first: str | None = None
    last: str | None = None
    reason: str = ""
    children: list[TreeNode] = field(default_factory=list)
    left_out: int = 0
    is_leaf: bool = True

    def describe(self) -> dict[str, Any]:
        shown: dict[str, Any] = {
            "path": self.path,
            "keys": self.keys,
            "bytes": self.size,
            "fill": _rounded(self.fill),
            "first": self.first,
            "last": self.last,
            "children": [child.describe() for child in self.children],
        }
        if self.left_out:
            shown["children_left_out"] = self.left_out
        if self.reason:
            shown["damaged"] = self.reason
        return shown


@dataclass(slots=True)
class Level:
    level: int
    nodes: int = 0
    damaged: int = 0
    keys: int = 0
    size: int = 0
    fewest: int | None = None
    most: int = 0

    def add(self, node: TreeNode) -> None:
        self.nodes += 1
        self.size += node.size
        if node.reason:
            self.damaged += 1
            return
        self.keys += node.keys
        self.fewest = node.keys if self.fewest is None else min(self.fewest, node.keys)
        self.most = max(self.most, node.keys)


@dataclass(slots=True)
class Shape:
    """The whole of it. Fill is the share of the keys that the order allows; None when the order is not known."""

    version: int
    root: TreeNode
    order: int | None
    levels: list[Level] = field(default_factory=list)
    damaged: list[TreeNode] = field(default_factory=list)
    failure: OlympiaError | None = None
    """What the store said where it failed; the nodes may be sound."""

    @property
    def nodes(self) -> int:
        return sum(level.nodes for level in self.levels)

    @property
    def keys(self) -> int:
        return sum(level.keys for level in self.levels)

    @property
    def size(self) -> int:
        return sum(level.size for level in self.levels)

    @property
    def damaged_count(self) -> int:
        return sum(level.damaged for level in self.levels)

    def fills(self, level: Level) -> tuple[float | None, float | None, float | None]:
        """The least, the average and the most."""
        sound = level.nodes - level.damaged
        if self.order is None or not sound:
            return None, None, None
        most = self.order - 1
        return (level.fewest or 0) / most, level.keys / sound / most, level.most / most

    def describe(self) -> dict[str, Any]:
        levels = []
        for level in self.levels:
            least, average, most = self.fills(level)
            levels.append(
                {
                    "level": level.level,
                    "nodes": level.nodes,
                    "keys": level.keys,
                    "bytes": level.size,
                    "fill": _rounded(average),
                    "fill_min": _rounded(least),
                    "fill_max": _rounded(most),
                    "damaged": level.damaged,
                }
            )
        return {
            "version": self.version,
            "order": self.order,
            "depth": len(self.levels),
            "nodes": self.nodes,
            "keys": self.keys,
            "bytes": self.size,
            "damaged": self.damaged_count,
            "levels": levels,
            "root": self.root.describe(),
        }


def tree_shape(
    store: Store,
    file: RootFile,
    *,
    depth: int | None,
    max_children: int | None,
    seen: Callable[[TreeNode], None] = lambda node: None,
) -> Shape:
    """The shape of a version, drawn `depth` levels deep and `max_children` wide; None is without a bound.

    `seen` is called with every node as it is read: level by level, from left to right.
    """
    sizes = catalog_sizes(store, NodeBytes(file.path, file.data, file.java))
    return _Surveyor(store, file, sizes, depth, max_children, seen).survey()


@dataclass(frozen=True, slots=True)
class _Pointer:
    path: str
    holder: str
    low: str | None
    high: str | None
    drawn: TreeNode | None


class _Surveyor:
    def __init__(
        self,
        store: Store,
        file: RootFile,
        sizes: Sizes | None,
        depth: int | None,
        max_children: int | None,
        seen: Callable[[TreeNode], None],
    ) -> None:
        self._store = store
        self._file = file
        self._most = sizes.order - 1 if sizes is not None else None
        self._codec: KeyCodec | None = None
        if sizes is not None:
            self._codec = KeyCodec(sizes.namespace, sizes.table, sizes.view, java=file.java)
        self._depth = depth
        self._max_children = max_children
        self._seen = seen
        self._waiting: list[list[_Pointer]] = []
        self._shape = Shape(file.version, TreeNode(file.path, 1), sizes.order if sizes is not None else None)

    def survey(self) -> Shape:
        root = self._shape.root
        root.size = len(self._file.data)
        top: Node | None = None
        try:
            top = decode_root(self._file.data, self._file.path, self._file.java).node
        except OlympiaError as error:
            root.reason = _reason(error)
        self._take(root, top, _Pointer(root.path, "", None, None, root))
        while level := next((at for at in range(len(self._waiting), 0, -1) if self._waiting[at - 1]), 0):
            waiting = self._waiting[level - 1]
            batch, self._waiting[level - 1] = waiting[:BATCH], waiting[BATCH:]
            self._read(batch, level + 1)
        return self._shape

    def _read(self, batch: list[_Pointer], level: int) -> None:
        """Read the nodes that pointers of the level above lead to."""
        refused: dict[int, Damaged] = {}
        for at, pointer in enumerate(batch):
            try:
                check_pointer(pointer.path, pointer.holder)
                check_depth(level - 1, pointer.path)
            except Damaged as error:
                refused[at] = error
        paths = (pointer.path for at, pointer in enumerate(batch) if at not in refused)
        results = iter(self._store.read_many(paths))
        for at, pointer in enumerate(batch):
            data = refused[at] if at in refused else next(results)[1]
            shown = pointer.drawn or TreeNode(pointer.path, level)
            node = self._decode(pointer, shown, data)
            self._take(shown, node, pointer)

    def _decode(self, pointer: _Pointer, shown: TreeNode, data: bytes | OlympiaError) -> Node | None:
        """The node, or None with the reason noted."""
        try:
            if isinstance(data, OlympiaError):
                raise data
            shown.size = len(data)
            node = decode_node(data, pointer.path, self._file.java).node
            check_range(node, pointer.path, pointer.low, pointer.high)
            return node
        except PathMissing:
            shown.reason = "it is missing"
        except (StorageFailed, StorageDenied) as error:
            shown.reason = error.message
            self._shape.failure = self._shape.failure or error
        except OlympiaError as error:
            shown.reason = _reason(error)
        return None

    def _take(self, shown: TreeNode, node: Node | None, pointer: _Pointer) -> None:
        """Count a node, and queue its children."""
        if node is not None:
            shown.keys = len(node.keys)
            shown.is_leaf = node.is_leaf
            shown.fill = shown.keys / self._most if self._most else None
            if node.keys:
                shown.first, shown.last = self._name(node.keys[0]), self._name(node.keys[-1])
        while len(self._shape.levels) < shown.level:
            self._shape.levels.append(Level(len(self._shape.levels) + 1))
        self._shape.levels[shown.level - 1].add(shown)
        if shown.reason and len(self._shape.damaged) < 100:
            self._shape.damaged.append(shown)
        self._seen(shown)
        if node is not None and node.children:
            self._queue(shown, node, pointer)

    def _queue(self, shown: TreeNode, node: Node, pointer: _Pointer) -> None:
        while len(self._waiting) < shown.level:
            self._waiting.append([])
        drawn = pointer.drawn is not None and (self._depth is None or shown.level < self._depth)
        for at, child in enumerate(node.children):
            if not isinstance(child, str):
                continue  # the Java SDK leaves single pointers NULL
            place: TreeNode | None = None
            if drawn and (self._max_children is None or len(shown.children) < self._max_children):
                place = TreeNode(child, shown.level + 1)
                shown.children.append(place)
            else:
                shown.left_out += 1
            low, high = bounds(node, at, pointer.low, pointer.high)
            self._waiting[shown.level - 1].append(_Pointer(child, shown.path, low, high, place))

    def _name(self, key: str) -> str:
        if self._codec is not None:
            try:
                name = self._codec.decode(key, self._file.path)
                return f"{name.kind.word} {name}"
            except Damaged:
                pass
        return " ".join(key.encode("utf-8", "replace").decode().split())


def _reason(error: OlympiaError) -> str:
    return error.reason if isinstance(error, Damaged) else error.message


def _rounded(fill: float | None) -> float | None:
    return None if fill is None else round(fill, 4)
