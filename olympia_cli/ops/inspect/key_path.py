"""The path from a root down to a key, through nodes that may be damaged."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.snapshot import read_object
from olympia_cli.errors import Damaged, PathMissing
from olympia_cli.format.keys import KeyCodec, utf16_units
from olympia_cli.format.paths import check_pointer
from olympia_cli.names import ObjectName
from olympia_cli.ops.inspect.describe import describe_known, describe_object
from olympia_cli.ops.inspect.node_dump import KeyTarget, NodeDump, PivotRow, dump_node
from olympia_cli.ops.inspect.node_target import NodeBytes, catalog_sizes, find_node
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.load import MAX_DEPTH


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
