"""The engine of this process: build the graph from roots downwards, and read each file once. Files are read in parallel
if the store can, and not kept in memory.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice

from olympia_cli.format.node import Node
from olympia_cli.ops.fsck.chain import ROOTS_AT_ONCE, ChainRoot, list_versions
from olympia_cli.ops.fsck.definitions import READS_AT_ONCE, Definitions, Named
from olympia_cli.ops.fsck.findings import DataChecks, DataFinding, WithData, finding
from olympia_cli.ops.fsck.graph import NOWHERE, Graph, Mark
from olympia_cli.ops.fsck.listing import Listing, Sorting, look_for, read_quarantine
from olympia_cli.ops.fsck.roots import RootChecks
from olympia_cli.ops.fsck.verdict import DATA, FULL, STRUCTURE, Examined, FindHolders, IsWanted
from olympia_cli.ops.walk.files import Files, Place
from olympia_cli.ops.walk.nodes import NodeFacts, NodeRules
from olympia_cli.ops.walk.reach import AT_ONCE, HERE, TreeReader, descend
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
        named: Named | None = None,
        mapper: TreeReader = HERE,
    ) -> None:
        self.graph = graph
        self._mapper = mapper
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
        at_once = self._mapper.at_once or (AT_ONCE if self._definitions is None else NODES_AT_ONCE)
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
        for place, facts in self._mapper.nodes(self._files, self._rules, new_places):
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


# The engine of this process. Files are read in parallel if the store can, and not kept in memory.


class LocalEngine:
    """The engine for one run: it keeps the state of the graph. `data` checks the data of tables; `mapper` examines
    nodes.
    """

    roots_at_once: int | None = ROOTS_AT_ONCE
    """The number of roots whose trees are followed together; all roots if None."""

    def __init__(self, data: DataChecks | None = None, mapper: TreeReader = HERE) -> None:
        self._data = data
        self._mapper = mapper
        self._growth: Growth | None = None

    def examine(
        self, into: Examined, versions: Sequence[int], is_wanted: IsWanted | None, holders: FindHolders
    ) -> list[int]:
        chosen: list[int] = []
        self._look_at_data(into, self._look_at_roots(into, versions, is_wanted, chosen))
        beside = holders()
        _exhaust(self._grow(into, ((holder.path, holder.root.node) for holder in beside)))
        for holder in beside:
            into.holders.setdefault(into.graph.numbers[holder.path], []).append(holder)
        return chosen

    def examine_more(self, examined: Examined, versions: Sequence[int]) -> None:
        _exhaust(self.follow(examined, examined.reader.roots(versions)))

    def follow(self, into: Examined, roots: Iterable[ChainRoot]) -> Iterator[WithData]:
        """Follow the files that these roots reach, and earlier roots did not."""
        roots = iter(roots)
        for first in roots:
            more = islice(roots, None if self.roots_at_once is None else self.roots_at_once - 1)
            yield from self._grow(into, self._tops(into, chain([first], more)))

    def _tops(self, into: Examined, roots: Iterator[ChainRoot]) -> Iterator[tuple[str, Node | bytes]]:
        """Yield the roots of trees. A bounded number of roots is in memory."""
        checks = RootChecks(into.reader, into.notes, actions=into.depth >= FULL)
        while batch := list(islice(roots, ROOTS_AT_ONCE)):
            yield from checks.follow(batch)
            into.roots |= {root.version: into.graph.numbers[root.path] for root in batch}

    def _grow(self, into: Examined, tops: Iterable[tuple[str, Node | bytes]]) -> Iterator[WithData]:
        """Follow trees from their roots. Yield tables and views after reading their definitions."""
        definitions = into.definitions
        for _ in self._growth_of(into).add(tops):
            if definitions is not None and definitions.waiting >= READS_AT_ONCE:
                yield from definitions.read()
        if definitions is not None:
            yield from definitions.read()

    def _growth_of(self, into: Examined) -> Growth:
        if self._growth is None or self._growth.graph is not into.graph:
            self._growth = Growth(into.graph, into.files, into.rules, into.definitions, into.named, self._mapper)
        return self._growth

    def _look_at_roots(
        self, into: Examined, versions: Sequence[int], is_wanted: IsWanted | None, chosen: list[int]
    ) -> Iterator[WithData]:
        progress, follow_all = into.files.progress, is_wanted is None and into.depth >= STRUCTURE
        progress.phase("reading versions" if follow_all else "reading roots", None if follow_all else len(versions))
        roots = self._noted(into, versions)
        last: ChainRoot | None = None
        if follow_all:
            yield from self.follow(into, roots)
        for root in roots:
            if is_wanted is not None and is_wanted(root):
                last = root
        if is_wanted is None:
            chosen += versions
        elif last is not None:
            chosen.append(last.version)
            if into.depth >= STRUCTURE:
                progress.phase("reading nodes")
                yield from self.follow(into, [last])

    def _noted(self, into: Examined, versions: Sequence[int]) -> Iterator[ChainRoot]:
        """Yield the roots of versions, each checked by itself and against its predecessor."""
        checks = RootChecks(into.reader, into.notes, actions=into.depth >= FULL)
        for root in into.reader.roots(versions):
            into.files.progress.advance()
            checks.note(root)
            yield root

    def _look_at_data(self, into: Examined, tables: Iterator[WithData]) -> None:
        if into.depth >= DATA and self._data is None:
            nobody = finding("F604", "", "this run cannot check table data")
            into.data_findings.append(DataFinding(nobody))
        elif into.depth >= DATA and self._data is not None:
            into.data_findings += self._data.check(tables, into.files.progress)
            into.data_files = self._data.data_files
        # the check of data may stop early; the other tables are still read
        _exhaust(tables)

    # The listing

    def list_files(self, examined: Examined, saved: frozenset[str]) -> Listing:
        chain, files, definitions = examined.chain, examined.files, examined.definitions
        assert definitions is not None
        files.progress.phase("listing files")
        graph, listed = examined.graph, bytearray(len(definitions))

        def reached(path: str) -> bool:
            number = definitions.number(path)
            if number is not None and number < len(listed):
                listed[number] = 1
            return number is not None or path in graph or path in chain.catalogs

        listing = Listing(Sorting(saved, chain.oldest, chain.width), reached, read_quarantine(files, chain.reference))
        for file in files.store.list(temporary=True):
            files.progress.advance()
            listing.take(file.path, file.size)
        if definitions.skipped and not files.out_of_time:
            gone = {number for number in range(len(listed)) if definitions.unread[number] and not listed[number]}
            look_for(files, examined.graph, definitions, gone, chain.java)
        if listing.orphans:
            self._follow_late(examined)
        return listing

    def _follow_late(self, examined: Examined) -> None:
        """Follow versions that were committed in the meantime: apparent orphans may belong to them."""
        existing, _ = list_versions(examined.files.store)
        strays = {stray.version for stray in examined.chain.strays}
        late = [version for version in existing if version > examined.chain.latest and version not in strays]
        if late:
            before = len(examined.notes.findings)
            _exhaust(self.follow(examined, examined.reader.roots(late)))
            del examined.notes.findings[before:]


def _exhaust(objects: Iterable[WithData]) -> None:
    for _ in objects:
        pass
