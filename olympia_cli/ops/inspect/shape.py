"""The shape of a version's tree: the totals of each level, and the upper nodes for a drawing.

Every node is read once, level by level in parallel. Only counts and the drawn nodes are kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.snapshot import read_object
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import Damaged, OlympiaError, PathMissing, StorageDenied, StorageFailed, StoreError
from olympia_cli.format.keys import KeyCodec, utf16_units
from olympia_cli.format.paths import check_pointer
from olympia_cli.names import ObjectName
from olympia_cli.ops.inspect.describe import describe_known, describe_object
from olympia_cli.ops.inspect.node_dump import KeyTarget, NodeDump, PivotRow, dump_node
from olympia_cli.ops.inspect.node_target import NodeBytes, catalog_sizes, find_node
from olympia_cli.ops.walk import Flaw, NodeFacts, NodeRules, descend, flaw_of
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.load import MAX_DEPTH, bounds, check_depth, check_range

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
            return self.rules.look_at_root_file(pointer.path, data)
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


# The path from a root down to a key, through nodes that may be damaged.


@dataclass(frozen=True, slots=True)
class WayStep:
    """A node on the path: the row with the key or with the pointer to the next node, and the following row."""

    dump: NodeDump
    row: PivotRow | None
    behind: PivotRow | None
    is_key: bool

    def describe(self) -> dict[str, Any]:
        rows = [row for row in (self.row, self.behind) if row is not None]
        return {
            "path": self.dump.path,
            "kind": self.dump.kind,
            "bytes": self.dump.size,
            "keys": self.dump.keys,
            "taken": self.row.at if self.row is not None else None,
            "found": self.is_key,
            "pivot": [row.describe() for row in rows],
            "digest": self.dump.digest,
            "problems": [asdict(problem) for problem in self.dump.problems],
        }


@dataclass(slots=True)
class Way:
    """The nodes from the root to the place of the key."""

    version: int | None
    key: str
    name: ObjectName | None
    steps: list[WayStep] = field(default_factory=list)
    value: str | None = None
    definition: dict[str, Any] | None = None
    broken: list[tuple[str, str]] = field(default_factory=list)
    """Files that could not be read, each with the reason."""
    stopped: str = ""

    @property
    def is_there(self) -> bool:
        return bool(self.steps) and self.steps[-1].is_key and self.value is not None

    @property
    def damaged(self) -> list[tuple[str, str]]:
        """The problems on the path: a file and a reason each."""
        return [(step.dump.path, step.dump.summary()) for step in self.steps if step.dump.problems] + self.broken

    def describe(self) -> dict[str, Any]:
        return {
            "version": self.version,
            "key": self.key,
            **describe_known(self.name),
            "found": self.is_there,
            "value": self.value,
            "definition": self.definition,
            "nodes": [step.describe() for step in self.steps],
            "problems": [{"path": path, "message": reason} for path, reason in self.damaged],
        }


def follow_key(catalog: Catalog, target: str, key_target: KeyTarget) -> Way:
    """Return the path from a node, usually a root, to the key. If the target has several meanings, take the first that
    exists.
    """
    file = find_node(catalog, target)
    sizes = catalog_sizes(catalog.store, file)
    top = dump_node(file, sizes)
    if sizes is None and key_target.raw is None:
        raise Damaged(
            "", file.path, "the sizes of names are unknown, so names cannot be encoded", hint="pass the key itself"
        )
    codec = KeyCodec(0, 0, 0) if sizes is None else KeyCodec.of(sizes, java=file.java)
    ways = []
    for key, name in key_target.keys(codec):
        # restore the characters of the Java SDK's keys, so that they can be printed
        whole = key.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        way = _follow(catalog.store, top, whole, name)
        if way.is_there:
            _read_definition(catalog.store, way)
            return way
        ways.append(way)
    return ways[0]


def _follow(store: Store, top: NodeDump, key: str, name: ObjectName | None) -> Way:
    way = Way(top.version, key, name)
    dump = top
    while True:
        step = _step(dump, key)
        way.steps.append(step)
        if step.is_key:
            assert step.row is not None
            way.value = step.row.value
            way.name = way.name or step.row.name
            if "value" in step.row.lost:
                way.stopped = "the key is here, but its value cannot be read"
            return way
        if step.row is None:
            way.stopped = "no row of this node can be read"
            return way
        child = step.row.pnode
        if child is None:
            if "pnode" in step.row.lost:
                way.stopped = "the pointer to the next node cannot be read"
            return way
        if len(way.steps) > MAX_DEPTH or any(child == before.dump.path for before in way.steps):
            way.broken.append((dump.path, "its pointers lead in a circle"))
            return way
        try:
            data = store.read(check_pointer(child, dump.path))
        except PathMissing:
            way.broken.append((child, "a node of the tree is missing"))
            return way
        except Damaged as error:
            way.broken.append((error.path, error.reason))
            return way
        dump = dump_node(NodeBytes(child, data, top.java), top.sizes)


def _step(dump: NodeDump, key: str) -> WayStep:
    """Return the last row whose key is not greater than the key."""
    target = utf16_units(key) if dump.java else key
    nearest: PivotRow | None = None
    for row in dump.pivot:
        if row.key is None:
            if row.at == 0:
                nearest = row
            continue
        own = utf16_units(row.key) if dump.java else row.key
        if own == target:
            return WayStep(dump, row, None, True)
        if own < target:
            nearest = row
    behind = None
    if nearest is not None:
        behind = next((row for row in dump.pivot if row.at == nearest.at + 1), None)
    return WayStep(dump, nearest, behind, False)


def _read_definition(store: Store, way: Way) -> None:
    assert way.value is not None
    try:
        data = store.read(check_pointer(way.value, way.steps[-1].dump.path))
        if way.name is not None:
            way.definition = describe_object(read_object(way.name, way.value, data), way.version)
    except PathMissing:
        way.broken.append((way.value, "the definition is missing"))
    except Damaged as error:
        way.broken.append((error.path, error.reason))
