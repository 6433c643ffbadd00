"""The shape of a version's tree: the totals of each level, and the upper nodes for a drawing.

Every node is read once, level by level in parallel. Only counts and the drawn nodes are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import Damaged, OlympiaError, StorageDenied, StorageFailed, StoreError
from olympia_cli.format.keys import KeyCodec
from olympia_cli.ops.inspect.node_target import NodeBytes, catalog_sizes
from olympia_cli.ops.walk import Flaw, NodeFacts, NodeRules, descend, flaw_of
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.load import bounds, check_depth, check_range

BATCH = 65_536
"""The number of nodes of a level that are read together. A wider level is processed in parts, each with its
subtrees.
"""


@dataclass(slots=True)
class TreeNode:
    """A node of the drawing. `reason` describes its damage, `code` is fsck's code for that."""

    path: str
    level: int
    keys: int = 0
    size: int = 0
    fill: float | None = None
    first: str | None = None
    last: str | None = None
    reason: str = ""
    code: str = ""
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
class TreeLevel:
    """The totals of the nodes of a level."""

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
    """The shape of a tree. Fill is the number of keys divided by the largest number that the order allows. It is None
    if the order is unknown.
    """

    version: int
    root: TreeNode
    order: int | None
    levels: list[TreeLevel] = field(default_factory=list)
    damaged: list[TreeNode] = field(default_factory=list)
    failure: OlympiaError | None = None
    """The first error of the store. The nodes that could not be read may be sound."""

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

    def fill(self, keys: float) -> float | None:
        # a faulty writer may have stored an impossible order
        return None if self.order is None or self.order < 2 else keys / (self.order - 1)

    def fills(self, level: TreeLevel) -> tuple[float | None, float | None, float | None]:
        """Return the least, the average and the greatest fill of a level."""
        sound = level.nodes - level.damaged
        if not sound:
            return None, None, None
        return self.fill(level.fewest or 0), self.fill(level.keys / sound), self.fill(level.most)

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
    on_node: Callable[[TreeNode], None] = lambda node: None,
    batch: int = BATCH,
) -> Shape:
    """Return the shape of a version, with a drawing of `depth` levels and `max_children` children per node; None means
    no limit.

    `on_node` is called for every node after it is read: level by level, from left to right.
    """
    sizes = catalog_sizes(store, NodeBytes(file.path, file.data, file.java))
    shape = Shape(file.version, TreeNode(file.path, 1), sizes.order if sizes is not None else None)
    keys = KeyCodec.of(sizes, java=file.java) if sizes is not None else None
    rules = NodeRules(keys, shape.order, file.java, names=False)
    _Survey(store, rules, depth, max_children, on_node, shape, batch).go(file.data)
    return shape


@dataclass(frozen=True, slots=True)
class _Pointer:
    """A pointer to a node. `flaw` is a problem that the node with the pointer has found."""

    path: str
    low: str | None
    high: str | None
    level: int
    drawn: TreeNode | None
    flaw: Flaw | None = None


_Part = list[_Pointer]
"""Neighbouring pointers of one level."""


@dataclass(slots=True)
class _Survey:
    store: Store
    rules: NodeRules
    depth: int | None
    max_children: int | None
    on_node: Callable[[TreeNode], None]
    shape: Shape
    batch: int
    leaf_level: int | None = None

    def go(self, root: bytes) -> None:
        top = _Pointer(self.shape.root.path, None, None, 1, self.shape.root)
        for _ in descend(_parts(self._take(top, root), self.batch), self._look, self._visit, at_once=1):
            pass

    def _look(self, parts: Sequence[_Part]) -> Iterator[tuple[_Part, Iterator[bytes | StoreError]]]:
        return ((part, (data for _, data in self.store.read_many(pointer.path for pointer in part))) for part in parts)

    def _visit(self, part: _Part, files: Iterable[bytes | StoreError]) -> list[_Part]:
        nodes = zip(part, files, strict=True)
        return _parts([child for pointer, data in nodes for child in self._take(pointer, data)], self.batch)

    def _take(self, pointer: _Pointer, data: bytes | StoreError) -> list[_Pointer]:
        """Count a node, and return the pointers to its children."""
        shape, shown = self.shape, pointer.drawn or TreeNode(pointer.path, pointer.level)
        if isinstance(data, bytes):
            shown.size = len(data)
        elif isinstance(data, (StorageFailed, StorageDenied)):
            shape.failure = shape.failure or data
        facts = self._examine(pointer, data)
        misplaced = self._misplaced(pointer, facts)
        own = next((flaw for path, flaw in facts.marks if path == pointer.path), None)
        flaw = misplaced or own or pointer.flaw
        if flaw is not None:
            # the store's message is more precise than the flaw
            shown.reason = data.message if isinstance(data, (StorageFailed, StorageDenied)) else flaw.reason
            shown.code = flaw.code
        if facts.readable:
            shown.keys = len(facts.keys)
            shown.is_leaf = facts.is_leaf
            shown.fill = shape.fill(shown.keys)
            if facts.keys:
                shown.first, shown.last = self._name(facts.keys[0]), self._name(facts.keys[-1])
        while len(shape.levels) < shown.level:
            shape.levels.append(TreeLevel(len(shape.levels) + 1))
        shape.levels[shown.level - 1].add(shown)
        if shown.reason and len(shape.damaged) < 100:
            shape.damaged.append(shown)
        self.on_node(shown)
        # the pointers of a misplaced node may form a circle
        return [] if not facts.readable or misplaced is not None else self._children(pointer, shown, facts)

    def _examine(self, pointer: _Pointer, data: bytes | StoreError) -> NodeFacts:
        """Examine the node by itself, as fsck does."""
        if pointer.level == 1 and isinstance(data, bytes):
            return self.rules.look_at_root_file(pointer.path, data)[0]
        return self.rules.look(pointer.path, data)

    def _misplaced(self, pointer: _Pointer, facts: NodeFacts) -> Flaw | None:
        """Return why the node cannot stand in its place in the tree, or None if it can."""
        if not facts.readable:
            return None
        try:
            check_range(facts, pointer.path, pointer.low, pointer.high)
            check_depth(pointer.level - 1, pointer.path)
        except Damaged as error:
            return flaw_of(error)
        if facts.is_leaf and not self.rules.java:
            self.leaf_level = self.leaf_level or pointer.level
            if pointer.level != self.leaf_level:
                return Flaw("F210", f"it is a leaf on level {pointer.level}, and other leaves are on {self.leaf_level}")
        return None

    def _children(self, pointer: _Pointer, shown: TreeNode, facts: NodeFacts) -> list[_Pointer]:
        drawn = pointer.drawn is not None and (self.depth is None or shown.level < self.depth)
        flaws = dict(facts.marks)
        pointers = []
        for at, path in enumerate(facts.children):
            if path is None:
                continue  # a pointer that cannot be followed; the Java SDK writes NULL for some
            child: TreeNode | None = None
            if drawn and (self.max_children is None or len(shown.children) < self.max_children):
                child = TreeNode(path, shown.level + 1)
                shown.children.append(child)
            else:
                shown.left_out += 1
            low, high = bounds(facts, at, pointer.low, pointer.high)
            pointers.append(_Pointer(path, low, high, shown.level + 1, child, flaws.get(path)))
        return pointers

    def _name(self, key: str) -> str:
        keys = self.rules.keys
        if keys is not None and (name := keys.name(key)) is not None:
            return f"{name.kind.word} {name}"
        return " ".join(key.encode("utf-8", "replace").decode().split())


def _parts(level: _Part, batch: int) -> list[_Part]:
    """Split a level into parts. The first part comes last, because `descend` takes the last part first."""
    return [level[at : at + batch] for at in range(0, len(level), batch)][::-1]


def _rounded(fill: float | None) -> float | None:
    return None if fill is None else round(fill, 4)
