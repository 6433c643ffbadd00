"""The trees of versions as facts: each file is read once, and not kept in memory."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Protocol

from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.ops.fsck.chain import ROOTS_AT_ONCE, Chain, ChainReader, ChainRoot, list_versions
from olympia_cli.ops.fsck.definitions import Definitions, Named, Verified
from olympia_cli.ops.fsck.findings import WithData
from olympia_cli.ops.fsck.graph import NOWHERE, Graph, Mark
from olympia_cli.ops.fsck.holders import Holder
from olympia_cli.ops.fsck.report import DATA, FULL, STRUCTURE
from olympia_cli.ops.fsck.roots import RootChecks, RootNotes
from olympia_cli.ops.walk import AT_ONCE, Files, NodeFacts, NodeRules, Place, TreeReader, descend
from olympia_cli.tree.load import MAX_DEPTH

# Build the graph from roots downwards, and read each node once.
#
# All rules of a tree relate a node to its children, given the first key, the last key and the height of each subtree.
# So leaves are reduced to these three values at once, and inner nodes as soon as their children are.

NODES_AT_ONCE = 64
"""The number of nodes per batch if definitions are read too: each node names about a hundred, which wait in memory."""

NO_HEIGHT = 255
"""The height of a node whose children all have unknown heights."""


@dataclass(slots=True)
class _Open:
    """An inner node with children that are not reduced yet."""

    keys: tuple[str, ...]
    missing: int


class Growth:
    """A graph that grows by roots and by the files that earlier roots did not reach."""

    def __init__(
        self,
        graph: Graph,
        files: Files,
        rules: NodeRules,
        definitions: Definitions | None,
        named: Named | None,
        reader: TreeReader,
    ) -> None:
        self.graph = graph
        self._reader = reader
        self._files = files
        self._rules = rules
        self._definitions = definitions
        self._named = named
        self._first: list[str | None] = []
        self._last: list[str | None] = []
        self._height = bytearray()
        self._open: dict[int, _Open] = {}
        self._waiters: dict[int, list[int]] = {}
        self._ready: list[int] = []

    def add(self, roots: Iterable[tuple[str, Node | bytes]]) -> Iterator[None]:
        """Follow roots. Yield after each batch of nodes, so that the caller can read the definitions that they name.

        A root that cannot be decoded is given as its bytes, from which pointers are salvaged.
        """
        tops: list[Place] = []
        for path, node in roots:
            number, new = self._number(path, 1)
            if new or not self._taken(number):
                tops += self._visit(Place(path, 1), self._rules.look_at_root(path, node))
        at_once = self._reader.at_once or (AT_ONCE if self._definitions is None else NODES_AT_ONCE)
        for _ in descend(tops, self._look, self._visit, at_once=at_once):
            self._settle()
            yield
        self._settle()
        if not self._files.out_of_time:
            self._break_cycles()

    def _look(self, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        if self._files.out_of_time:
            return
        # a root that is also inside a tree may have been visited already
        new_places = [place for place in places if not self._taken(self.graph.numbers[place.path])]
        for place, facts in self._reader.nodes(self._files, self._rules, new_places):
            self.graph.read_count += 1
            yield place, facts

    # One node

    def _number(self, path: str, level: int) -> tuple[int, bool]:
        number, new = self.graph.number(path, level)
        if new:
            self._first.append(None)
            self._last.append(None)
            self._height.append(0)
        return number, new

    def _taken(self, number: int) -> bool:
        return bool(self._height[number]) or number in self._open or number in self.graph.unreadable

    def _child(self, place: Place, below: list[Place], doubtful: bool = False) -> int:
        number, new = self._number(*place)
        if new:
            below.append(place)
            if doubtful:
                self.graph.doubtful.add(number)
        elif not doubtful:
            self.graph.doubtful.discard(number)
        return number

    def _visit(self, place: Place, facts: NodeFacts) -> list[Place]:
        """Add the facts of a node to the graph. Return its new children."""
        graph = self.graph
        below: list[Place] = []
        number, _ = self._number(*place)
        graph.marks += [Mark(number, path, flaw) for path, flaw in facts.marks]
        graph.without_digest += not facts.verified
        if self._definitions is not None and facts.names:
            graph.names[number] = self._definitions.note(facts, place.level)
        if self._named is not None:
            self._named.note(facts)
        if not facts.readable:
            graph.unreadable.add(number)
            child_places = [Place(path, place.level + 1) for path in facts.children if path is not None]
            graph.children[number] = array("I", (self._child(child, below, doubtful=True) for child in child_places))
            self._finished(number)
            return below
        graph.has[number], graph.needs[number] = (
            graph.namespace_numbers(facts.has),
            graph.namespace_numbers(facts.needs),
        )
        keys = facts.keys
        self._first[number] = keys[0] if keys else None
        self._last[number] = keys[-1] if keys else None
        if facts.is_leaf:
            self._height[number] = 1
            self._finished(number)
            return below
        children = graph.children[number] = self._children(facts.children, place.level + 1, below)
        height, unreadable = self._height, graph.unreadable
        missing = [at for at in set(children) if at != NOWHERE and not height[at] and at not in unreadable]
        for at in missing:
            self._waiters.setdefault(at, []).append(number)
        self._open[number] = _Open(keys, len(missing))
        if not missing:
            self._ready.append(number)
        return below

    def _children(self, paths: Sequence[str | None], level: int, below: list[Place]) -> array[int]:
        """Return the numbers of children. Versions of a node share most children, so most are known."""
        numbers = {} if self.graph.doubtful else self.graph.numbers
        children = array("I")
        for path in paths:
            if path is None:
                children.append(NOWHERE)
            else:
                number = numbers.get(path)
                children.append(self._child(Place(path, level), below) if number is None else number)
        return children

    # Edges

    def _finished(self, number: int) -> None:
        """Mark a node as reduced. Its parents may be next."""
        for parent in self._waiters.pop(number, ()):
            waiting = self._open.get(parent)
            if waiting is not None:
                waiting.missing -= 1
                if not waiting.missing:
                    self._ready.append(parent)

    def _settle(self) -> None:
        while self._ready:
            self._close(self._ready.pop())

    def _close(self, number: int) -> None:
        """Check the edges to the children of an inner node, and reduce the node. All its children are already
        reduced.
        """
        closing = self._open.pop(number, None)
        if closing is None:
            return
        graph, keys = self.graph, closing.keys
        children = graph.children[number]
        heights = [self._height[child] if child != NOWHERE else 0 for child in children]
        usual = max(sorted(set(heights) - {0, NO_HEIGHT}), key=heights.count, default=0)
        first, last = self._first[number], self._last[number]
        for at, child in enumerate(children):
            if child == NOWHERE or not heights[at]:
                continue
            if heights[at] not in (usual, NO_HEIGHT) and not self._rules.java:
                more = f"{heights[at]} levels, and its siblings {usual}"
                graph.mark(number, graph.paths[child], "F210", f"the tree below it has {more}")
            low = keys[at - 1] if at else None
            high = keys[at] if at < len(keys) else None
            child_first, child_last = self._first[child], self._last[child]
            if child_first is None or child_last is None:
                continue
            below = low is not None and child_first <= low
            if below or (high is not None and child_last >= high):
                end = child_first if below else child_last
                culprit = graph.paths[self._holder(child, end, 0 if below else -1)]
                graph.mark(number, culprit, "F209", "it has keys outside the range that its place in the tree gives it")
                continue
            if at == 0:
                first = child_first
            if at == len(keys):
                last = child_last
        self._first[number], self._last[number] = first, last
        self._height[number] = min(usual + 1, NO_HEIGHT) if usual else NO_HEIGHT
        if usual + 1 == MAX_DEPTH + 1:
            graph.mark(number, graph.paths[number], "F210", f"the tree below it is deeper than {MAX_DEPTH} levels")
        self._finished(number)

    def _holder(self, number: int, key: str, side: int) -> int:
        """Return the node with the first or last key of a subtree."""
        ends = self._last if side else self._first
        while self.graph.children[number]:
            child = self.graph.children[number][side]
            if child == NOWHERE or ends[child] != key:
                break
            number = child
        return number

    # Cycles

    def _break_cycles(self) -> None:
        """Cut pointers that form cycles. Inner nodes that are still open at the end wait for themselves."""
        graph = self.graph
        while self._open:
            holder, node = self._pointer_back()
            reason = f"it is below itself: {graph.paths[holder]} points back to it"
            graph.mark(node, graph.paths[node], "F213", reason)
            graph.mark(holder, graph.paths[node], "F213", reason)
            graph.cut.append((holder, node))
            children = graph.children[holder]
            graph.children[holder] = array("I", (NOWHERE if child == node else child for child in children))
            self._waiters[node].remove(holder)
            self._open[holder].missing -= 1
            if not self._open[holder].missing:
                self._ready.append(holder)
            self._settle()

    def _pointer_back(self) -> tuple[int, int]:
        """Return a pointer of a cycle: follow open nodes from any open node until one repeats.

        The cycle is cut before the node with the first path in sorted order, so the result does not depend on the
        start.
        """
        node = min(self._open)
        way: dict[int, int] = {}
        while node not in way:
            way[node] = next(child for child in self.graph.children[node] if child in self._open)
            node = way[node]
        circle = [node]
        while way[circle[-1]] != node:
            circle.append(way[circle[-1]])
        first = min(range(len(circle)), key=lambda at: self.graph.paths[circle[at]])
        return circle[first - 1], circle[first]


# The trees of versions, transactions and exports.


class FileReader(TreeReader, Protocol):
    """A reader of nodes and of the definitions that they name."""

    @property
    def roots_at_once(self) -> int | None:
        """The number of roots whose trees are followed together; all roots if None."""
        ...

    def read_definitions(self, trees: Trees, *, last: bool) -> Iterator[WithData]:
        """Read the definitions that wait, if they are many. Read all of them after the `last` batch of nodes.

        At level `data`, yield tables and views with metadata.
        """
        ...


class Trees:
    """The trees that were followed so far. They grow by roots; only this class and its reader add to them.

    `definitions` is None if definitions are not read; `named` is None if they are not looked up in a listing.
    """

    def __init__(
        self, reader: FileReader, files: Files, chain: Chain, depth: int, verified: Verified | None = None
    ) -> None:
        """The chain's sizes determine the rules for keys and nodes."""
        sizes = chain.sizes
        self.files = files
        self.chain = chain
        self.depth = depth
        self.keys = KeyCodec.of(sizes, java=chain.java) if sizes is not None else None
        self.definitions = Definitions(files, self.keys, verified, depth >= DATA) if depth >= FULL else None
        self.named = Named() if depth == STRUCTURE and not chain.java else None
        names = self.definitions is not None or self.named is not None
        self.rules = NodeRules(self.keys, sizes.order if sizes is not None else None, chain.java, names)
        self.graph = Graph()
        self.notes = RootNotes()
        self.roots: dict[int, int] = {}
        """The number of the root of each version that was followed."""
        self.holders: dict[int, list[Holder]] = {}
        """The holders whose trees begin at each node."""
        self.chain_reader = ChainReader(files, chain)
        self._reader = reader
        self._growth = Growth(self.graph, files, self.rules, self.definitions, self.named, reader)

    @property
    def versions(self) -> dict[int, int]:
        """The version of each root in the graph."""
        return {number: version for version, number in self.roots.items()}

    def check_roots(self, versions: Sequence[int]) -> Iterator[ChainRoot]:
        """Yield the roots of versions, each checked by itself and against its predecessor."""
        checks = RootChecks(self.chain_reader, self.notes, actions=self.depth >= FULL)
        for root in self.chain_reader.roots(versions):
            self.files.progress.advance()
            checks.note(root)
            yield root

    def follow(self, roots: Iterable[ChainRoot]) -> Iterator[WithData]:
        """Follow the files that these roots reach, and earlier roots did not. A bounded number of roots is in
        memory.
        """
        roots, at_once = iter(roots), self._reader.roots_at_once
        for first in roots:
            more = islice(roots, None if at_once is None else at_once - 1)
            yield from self._grow(self._tops(chain([first], more)))

    def _tops(self, roots: Iterator[ChainRoot]) -> Iterator[tuple[str, Node | bytes]]:
        checks = RootChecks(self.chain_reader, self.notes, actions=self.depth >= FULL)
        while batch := list(islice(roots, ROOTS_AT_ONCE)):
            yield from checks.follow(batch)
            self.roots |= {root.version: self.graph.numbers[root.path] for root in batch}

    def _grow(self, tops: Iterable[tuple[str, Node | bytes]]) -> Iterator[WithData]:
        for _ in self._growth.add(tops):
            yield from self._reader.read_definitions(self, last=False)
        yield from self._reader.read_definitions(self, last=True)

    def add(self, versions: Sequence[int], *, checked: bool = False) -> None:
        """Follow versions. Their roots may be `checked` already."""
        exhaust(self.follow(self.chain_reader.roots(versions) if checked else self.check_roots(versions)))

    def add_holders(self, holders: Sequence[Holder]) -> None:
        """Follow the trees of transactions and exports."""
        exhaust(self._grow((holder.path, holder.root.node) for holder in holders))
        for holder in holders:
            self.holders.setdefault(self.graph.numbers[holder.path], []).append(holder)

    def add_late(self) -> None:
        """Follow versions that were committed in the meantime: apparent orphans may belong to them."""
        existing, _ = list_versions(self.files.store)
        strays = {stray.version for stray in self.chain.strays}
        late = [version for version in existing if version > self.chain.latest and version not in strays]
        if late:
            before = len(self.notes.findings)
            self.add(late, checked=True)
            del self.notes.findings[before:]


def exhaust(objects: Iterable[object]) -> None:
    for _ in objects:
        pass
