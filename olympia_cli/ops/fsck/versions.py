"""Checks of whole versions, and the versions that damage affects. This module reads no files."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence, Set

from olympia_cli.ops.fsck.definitions import NO_ID, Definitions
from olympia_cli.ops.fsck.findings import Ranges, merge, ranges
from olympia_cli.ops.fsck.graph import NOWHERE, Graph


class Spans:
    """The spans of versions for which a condition holds, per key."""

    def __init__(self) -> None:
        self._since: dict[int, int] = {}
        self._over: dict[int, list[tuple[int, int]]] = {}

    def hold(self, keys: Set[int], holding: Set[int], at: int) -> None:
        """Record at which of these keys the condition holds at this position. It holds for few."""
        for key in (self._since.keys() & keys) - holding:
            self._end(key, at)
        for key in holding:
            self._since.setdefault(key, at)

    def _end(self, key: int, at: int) -> None:
        since = self._since.pop(key)
        if since < at:
            self._over.setdefault(key, []).append((since, at))

    def all(self, end: int) -> Iterator[tuple[int, list[tuple[int, int]]]]:
        """Yield each key with its spans of positions. The end of a span is exclusive."""
        for key in list(self._since):
            self._end(key, end)
        yield from sorted(self._over.items())


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


def without(spans: Ranges, versions: Sequence[int], hit: Ranges) -> Ranges:
    """Return the versions of a list that are in `spans` and not in `hit`."""
    return ranges(version for version in versions if inside(version, spans) and not inside(version, hit))


def inside(version: int, spans: Ranges) -> bool:
    return any(first <= version <= last for first, last in spans)
