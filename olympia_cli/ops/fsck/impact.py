"""The versions and objects that damage affects."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence, Set
from dataclasses import dataclass

from olympia_cli.catalog.replay import moved, replay
from olympia_cli.format.actions import Action
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.names import NamespaceName, ObjectName
from olympia_cli.ops.fsck.definitions import NO_ID, Definitions
from olympia_cli.ops.fsck.findings import Ranges, inside, merge
from olympia_cli.ops.fsck.graph import NOWHERE, Graph, read_node
from olympia_cli.ops.fsck.roots import read_actions
from olympia_cli.ops.walk import Files, Flaw, descend, remains_of_node
from olympia_cli.tree.load import bounds

# Checks of whole versions, and the versions that damage affects. This module reads no files.


class Spans:
    """The spans of versions for which a condition holds, per key."""

    def __init__(self) -> None:
        self._since: dict[int, int] = {}
        self.over: dict[int, list[tuple[int, int]]] = {}
        """The spans of each key, as positions. The end of a span is exclusive."""

    def hold(self, keys: Set[int], holding: Set[int], at: int) -> None:
        """Record at which of these keys the condition holds at this position. It holds for few."""
        for key in (self._since.keys() & keys) - holding:
            self._end(key, at)
        for key in holding:
            self._since.setdefault(key, at)

    def _end(self, key: int, at: int) -> None:
        since = self._since.pop(key)
        if since < at:
            self.over.setdefault(key, []).append((since, at))

    def close(self, end: int) -> None:
        """End the open spans."""
        for key in list(self._since):
            self._end(key, end)


class VersionChecks:
    """Goes from version to version, and counts the occurrences of each node and each id.

    A node's content is counted once, when its first parent in the version is. So only nodes that differ between
    neighbours are visited.
    """

    def __init__(self, graph: Graph, definitions: Definitions | None, catalog_id: str) -> None:
        self._graph = graph
        self._definitions = definitions
        self._parents = array("I", bytes(4 * len(graph.paths)))
        self._has = array("I", bytes(4 * len(graph.namespaces)))
        self._needs = array("I", bytes(4 * len(graph.namespaces)))
        catalog = definitions.id_number(catalog_id) if definitions is not None and catalog_id else NO_ID
        self._ids = array("I", bytes(4 * (definitions.ids if definitions is not None else 1)))
        if catalog:
            self._ids[catalog] = 1
        self._touched: tuple[set[int], set[int], set[int]] = (set(), set(), set())
        self.twice, self.homeless, self.same_id = Spans(), Spans(), Spans()

    def run(self, roots: Sequence[int]) -> None:
        """Process versions in order, given by the numbers of their roots."""
        before: int | None = None
        for at, root in enumerate(roots):
            self._change(root, 1)
            if before is not None:
                self._change(before, -1)
            before = root
            nodes, namespaces, ids = self._touched
            parents, counts, needs, has = self._parents, self._ids, self._needs, self._has
            self.twice.hold(nodes, {node for node in nodes if parents[node] > 1}, at)
            self.homeless.hold(
                namespaces, {namespace for namespace in namespaces if needs[namespace] and not has[namespace]}, at
            )
            self.same_id.hold(ids, {id for id in ids if counts[id] > 1}, at)
            self._touched = (set(), set(), set())
        for spans in (self.twice, self.homeless, self.same_id):
            spans.close(len(roots))

    def _change(self, root: int, by: int) -> None:
        """Add or remove a parent of a node, and count the content that appears or disappears."""
        parents, children, touched = self._parents, self._graph.children, self._touched[0]
        waiting = [root]
        while waiting:
            node = waiting.pop()
            count = parents[node]
            parents[node] = count + by
            if count > 1 or count + by > 1:
                touched.add(node)
            if count + by == 0 or count == 0:
                self._count(node, by)
                # pointers of a damaged node may form a cycle
                if node not in self._graph.unreadable:
                    waiting.extend(child for child in children[node] if child != NOWHERE)

    def _count(self, node: int, by: int) -> None:
        graph = self._graph
        _, namespaces, ids = self._touched
        for namespace in graph.has[node]:
            self._has[namespace] += by
            namespaces.add(namespace)
        for namespace in graph.needs[node]:
            self._needs[namespace] += by
            namespaces.add(namespace)
        if self._definitions is not None:
            id_of, counts = self._definitions.id_of, self._ids
            for definition in graph.names[node]:
                id = id_of[definition]
                if id != NO_ID:
                    count = counts[id]
                    counts[id] = count + by
                    if count > 1 or count + by > 1:
                        ids.add(id)


class Radius:
    """The versions and holders that reach damaged nodes, found by one walk upwards along the edges."""

    def __init__(
        self, graph: Graph, roots: dict[int, int], holders: dict[int, list[str]], bad: Collection[int]
    ) -> None:
        """`roots` maps roots to versions, `holders` maps nodes to transactions and exports that begin there."""
        self._ranges: dict[int, Ranges] = {}
        self._holder_names: dict[int, frozenset[str]] = {}
        nodes = set(bad)
        parents: dict[int, list[int]] = {}
        # upwards from the damaged nodes, one pass per level: trees are flat, and sound nodes cost no memory
        level = set(nodes)
        while level:
            above: set[int] = set()
            for parent, children in enumerate(graph.children):
                if children and not level.isdisjoint(children):
                    for child in level.intersection(children):
                        parents.setdefault(child, []).append(parent)
                    above.add(parent)
            for parent, child in graph.cut:
                if child in level:
                    parents.setdefault(child, []).append(parent)
                    above.add(parent)
            level = above - nodes
            nodes |= level
        for node in _parents_first(nodes, parents):
            above_it = [span for parent in parents.get(node, ()) for span in self._ranges.get(parent, ())]
            if node in roots:
                above_it.append((roots[node], roots[node]))
            self._ranges[node] = merge(above_it)
            names = {name for parent in parents.get(node, ()) for name in self._holder_names.get(parent, ())}
            self._holder_names[node] = frozenset(names.union(holders.get(node, ())))

    def versions(self, nodes: Iterable[int]) -> Ranges:
        return merge(span for node in nodes for span in self._ranges.get(node, ()))

    def holders(self, nodes: Iterable[int]) -> list[str]:
        return sorted({name for node in nodes for name in self._holder_names.get(node, ())})


def _parents_first(nodes: set[int], parents: dict[int, list[int]]) -> Iterator[int]:
    """Yield nodes so that parents come before their children.

    The nodes of a cycle have no such order. They come repeatedly, so that facts about one reach all.
    """
    missing = {node: len(parents.get(node, ())) for node in nodes}
    children: dict[int, list[int]] = {}
    for child, above in parents.items():
        for parent in above:
            children.setdefault(parent, []).append(child)
    ready = [node for node, count in missing.items() if not count]
    while ready:
        node = ready.pop()
        del missing[node]
        yield node
        for child in children.get(node, ()):
            missing[child] -= 1
            if not missing[child]:
                ready.append(child)
    rest = sorted(missing)
    for _ in range(min(len(rest), 8) + 1 if rest else 0):
        yield from rest


# The objects that damage affects. Only this module reads files a second time, and only after a finding.

MOST_NODES = 2000
"""The largest number of nodes to read for the objects of one damaged file."""

MOST_IN_ALL = 20_000
"""The largest number of nodes to read for all findings: if everything is damaged, more names help no reader."""

MOST_HOLDERS = 16
MOST_NAMING = 64
TRIES = 12


@dataclass(frozen=True, slots=True)
class Hit:
    """Objects sorted by key, and a remark about the source of their names."""

    objects: tuple[ObjectName, ...] = ()
    remark: str = ""


class ObjectNames:
    """Finds the names of objects from the files that hold their keys."""

    def __init__(
        self, files: Files, graph: Graph, keys: KeyCodec | None, java: bool, root_path: Callable[[int], str]
    ) -> None:
        self._files = files
        self._graph = graph
        self._keys = keys
        self._java = java
        self._root_path = root_path
        self._nodes: dict[str, Node | None] = {}
        self._budget = MOST_IN_ALL

    def of_node(self, path: str, versions: Ranges, candidates: Sequence[int]) -> Hit:
        """Return the objects in a node, and those below it if it is damaged.

        Keys that the file has lost may be in an older or newer version: `candidates` are existing versions.
        """
        data = self._files.read(path)
        node = self._node(path)
        if node is not None:
            return Hit(self._named(node.keys))
        keys_left: set[str] = set()
        complete = False
        if isinstance(data, bytes):
            remains = remains_of_node(data, self._keys)
            complete = remains.complete
            keys_left.update(key for key, _ in remains.entries)
            for child in remains.children:
                keys_left.update(key for keys in self._below(child) for key in keys or ())
        if complete:
            return Hit(self._named(sorted(keys_left)))
        low, high = self._bounds(path)
        for version in _nearest(versions, candidates):
            root = self._root_path(version)
            keys = self._in_range(root, low, high) if root != path else None
            if keys is None:
                continue
            objects = set(self._named(keys_left.union(keys)))
            first = versions[0][0] if versions else version
            if version < first <= version + TRIES:
                objects = self._logged(objects, range(version + 1, first + 1), low, high)
                return Hit(self._ordered(objects), f"the objects are those of v{version} and of the log since")
            return Hit(self._ordered(objects), f"the objects are those of v{version}")
        remark = f"the keys between {self._shown(low)} and {self._shown(high)}" if low or high else ""
        return Hit(self._named(sorted(keys_left)), remark)

    def _logged(self, objects: set[ObjectName], versions: range, low: str | None, high: str | None) -> set[ObjectName]:
        """Return the objects of a range of keys after the given versions, as far as their logs can be read."""
        for version in versions:
            path = self._root_path(version)
            data = self._files.read(path)
            actions = read_actions(data, path) if isinstance(data, bytes) else ()
            objects = follow_names(objects, () if isinstance(actions, Flaw) else actions)
        return {name for name in objects if _between(self._key(name), low, high)}

    def _key(self, name: ObjectName) -> str:
        return self._keys.key(name) if self._keys is not None else ""

    def _ordered(self, objects: Iterable[ObjectName]) -> tuple[ObjectName, ...]:
        return tuple(sorted(objects, key=self._key))

    def of_definition(self, path: str, holders: Iterable[int], most: int = MOST_HOLDERS) -> Hit:
        """Return the objects whose definition is at a path, from the nodes that name it."""
        named = {key for _, key, value in self.entries(holders, most) if value == path}
        return Hit(self._named(sorted(named)))

    def entries(self, nodes: Iterable[int], most: int = MOST_NAMING) -> Iterator[tuple[int, str, str]]:
        """Yield node number, key and definition path for the readable entries of the first of these nodes, sorted by
        path.
        """
        for number in sorted(nodes, key=self._graph.paths.__getitem__)[:most]:
            path = self._graph.paths[number]
            node = self._node(path)
            if node is not None:
                entries: Iterable[tuple[str, str | None]] = zip(node.keys, node.values, strict=True)
            else:
                data = self._files.read(path)
                entries = remains_of_node(data, self._keys).entries if isinstance(data, bytes) else ()
            for key, value in entries:
                if value is not None:
                    yield number, key, value

    def reached(self, root: int) -> list[int]:
        """Return the nodes of the tree below a node, from the graph alone."""
        children = self._graph.children
        nodes = {NOWHERE, root}

        def visit(_: int, below: Iterable[int]) -> set[int]:
            new = set(below) - nodes
            nodes.update(new)
            return new

        levels = descend(nodes - {NOWHERE}, lambda level: ((at, children[at]) for at in level), visit, at_once=None)
        return sorted(number for level in levels for number in level)

    def name(self, key: str) -> ObjectName | None:
        return self._keys.name(key) if self._keys is not None else None

    def _named(self, keys: Iterable[str]) -> tuple[ObjectName, ...]:
        return tuple(name for key in keys if (name := self.name(key)) is not None)

    def _shown(self, key: str | None) -> str:
        name = None if key is None else self.name(key)
        if name is not None:
            return f"{name.kind.word} {name}"
        return "the beginning or end" if key is None else ascii(key.strip()[:60])

    def _node(self, path: str) -> Node | None:
        if path not in self._nodes:
            if self._budget <= 0:
                return None
            self._budget -= 1
            while len(self._nodes) >= 256:
                self._nodes.pop(next(iter(self._nodes)))
            self._nodes[path] = read_node(self._files, path, self._java)
        return self._nodes[path]

    def _below(self, top: str, low: str | None = None, high: str | None = None) -> Iterator[list[str] | None]:
        """Yield the keys of a tree between two keys, node by node. Yield None for an unreadable node, and for nodes
        beyond the limit.
        """
        known_paths = {top}
        nodes: list[Node | None] = []

        def look(paths: Sequence[str]) -> Iterator[tuple[str, Node | None]]:
            return ((path, self._node(path) if len(known_paths) <= MOST_NODES else None) for path in paths)

        def visit(_: str, node: Node | None) -> Iterator[str]:
            nodes.append(node)
            if node is None:
                return
            for at, child in enumerate(node.children):
                after, before = bounds(node, at, None, None)
                apart = (high and after and after >= high) or (low and before and before <= low)
                if not apart and isinstance(child, str) and child not in known_paths:
                    known_paths.add(child)
                    yield child

        for _ in descend([top], look, visit, at_once=1):
            node = nodes.pop()
            yield None if node is None else [key for key in node.keys if _between(key, low, high)]

    def _bounds(self, path: str) -> tuple[str | None, str | None]:
        """Return the keys on both sides of the pointers to a node, from all levels up to the root."""
        graph = self._graph
        low: str | None = None
        high: str | None = None
        climbed: set[int] = set()
        number = graph.numbers.get(path)
        while number is not None and number not in climbed and (low is None or high is None):
            climbed.add(number)
            above = (at for at, children in enumerate(graph.children) if number in children)
            parent = min(above, key=graph.paths.__getitem__, default=None)
            node = self._node(graph.paths[parent]) if parent is not None else None
            if node is None or graph.paths[number] not in node.children:
                break
            at = node.children.index(graph.paths[number])
            if low is None and at:
                low = node.keys[at - 1]
            if high is None and at < len(node.keys):
                high = node.keys[at]
            number = parent
        return low, high

    def _in_range(self, root: str, low: str | None, high: str | None) -> list[str] | None:
        """Return the keys of a version between two keys, or None if not all of them can be read."""
        in_range: list[str] = []
        for keys in self._below(root, low, high):
            if keys is None:
                return None
            in_range += keys
        return in_range


def _between(key: str, low: str | None, high: str | None) -> bool:
    return (low is None or key > low) and (high is None or key < high)


def _nearest(versions: Ranges, candidates: Sequence[int]) -> list[int]:
    """Return versions without the damage, the most useful first: the one before it, newer ones, then older and older
    ones.
    """
    free = [version for version in candidates if not inside(version, versions)]
    if not free:
        return []
    last = versions[-1][1] if versions else -1
    newer = [version for version in free if version > last][-2:]
    older = [version for version in free if version <= last]
    steps = [older[-(1 << at)] for at in range(TRIES) if 1 << at <= len(older)]
    return [*steps[:1], *reversed(newer), *steps[1:]]


def follow_names(names: set[ObjectName], actions: Iterable[Action]) -> set[ObjectName]:
    """Return the names after the actions, as far as they can be followed."""
    followed = _VersionNames(names)
    for action in actions:
        replay(action, followed)
    return followed.names


@dataclass(slots=True)
class _VersionNames:
    """A part of a version's names. A dropped or renamed namespace takes its known names along."""

    names: set[ObjectName]

    def put(self, name: ObjectName, definition: bytes) -> None:
        self.names.add(name)

    def drop(self, name: ObjectName) -> None:
        self.names.discard(name)
        if isinstance(name, NamespaceName):
            self.names = {other for other in self.names if other.namespace != name.namespace}

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        self.names = {moved(name, old, new) for name in self.names} | {new}
