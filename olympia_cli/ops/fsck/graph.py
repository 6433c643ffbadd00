"""The nodes of all versions as one graph. Each node is stored once, even if trees share it."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from olympia_cli.errors import OlympiaError
from olympia_cli.format.codec import decode_node
from olympia_cli.format.node import Node
from olympia_cli.ops.walk import AT_ONCE, Files, Flaw, NodeFacts, NodeRules, Place, TreeReader, descend
from olympia_cli.tree.load import MAX_DEPTH

if TYPE_CHECKING:
    from olympia_cli.ops.fsck.definitions import Definitions, Named

# Numbers for digests, in a tenth of the memory of a dictionary.
#
# A dictionary holds two objects per entry. Here digests are stored in one array, and their numbers in a hash table with
# linear probing.

_FIRST_SLOTS = 1024


class Numbering:
    """Consecutive numbers from 0 for digests of one width."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._digests = bytearray()
        self._slots = array("I", bytes(4 * _FIRST_SLOTS))
        """The number plus 1 in each used slot, 0 in a free one. At least half of the slots are free."""
        self._mask = _FIRST_SLOTS - 1
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, digest: bytes) -> bool:
        return bool(self._slots[self._slot(digest)])

    def get(self, digest: bytes) -> int | None:
        entry = self._slots[self._slot(digest)]
        return entry - 1 if entry else None

    def add(self, digest: bytes) -> int:
        """Return the number of a digest. A new digest gets the next number."""
        slot = self._slot(digest)
        if entry := self._slots[slot]:
            return entry - 1
        self._digests += digest
        self._count += 1
        self._slots[slot] = self._count
        if 2 * self._count > self._mask:
            self._grow()
        return self._count - 1

    def add_all(self, digests: Sequence[bytes]) -> array[int]:
        """Like `add`, for many digests."""
        while 2 * (self._count + len(digests)) > self._mask:
            self._grow()
        slots, own_digests, width, mask, count = self._slots, self._digests, self._width, self._mask, self._count
        numbers = array("I")
        for digest in digests:
            slot = hash(digest) & mask
            while entry := slots[slot]:
                if own_digests.startswith(digest, (entry - 1) * width):
                    break
                slot = (slot + 1) & mask
            else:
                own_digests += digest
                slots[slot] = entry = count = count + 1
            numbers.append(entry - 1)
        self._count = count
        return numbers

    def _slot(self, digest: bytes) -> int:
        slots, digests, width, mask = self._slots, self._digests, self._width, self._mask
        slot = hash(digest) & mask
        while entry := slots[slot]:
            if digests.startswith(digest, (entry - 1) * width):
                break
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        digests, width = self._digests, self._width
        self._mask = mask = 2 * self._mask + 1
        self._slots = slots = array("I", bytes(4 * (mask + 1)))
        for number in range(self._count):
            slot = hash(bytes(digests[number * width : (number + 1) * width])) & mask
            while slots[slot]:
                slot = (slot + 1) & mask
            slots[slot] = number + 1


# The nodes of all versions as one graph. Each node is stored once, even if trees share it.
#
# A node is stored as a number, with the numbers of its children, namespaces and definitions.

NOWHERE = 0xFFFFFFFF
"""The number of a child that cannot be followed."""

_NONE: array[int] = array("I")


@dataclass(frozen=True, slots=True)
class Mark:
    """A flaw of the file at `path`, which damages every version that reaches the node numbered `node`."""

    node: int
    path: str
    flaw: Flaw


class Graph:
    """Nodes by number, and their flaws. The graph holds all nodes found, or only those on the way to a flaw."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.paths: list[str] = []
        self.children: list[array[int]] = []
        self.namespaces: dict[str, int] = {}
        self.has: list[array[int]] = []
        """The namespaces whose keys are in a node."""
        self.needs: list[array[int]] = []
        """The namespaces of the tables and views whose keys are in a node."""
        self.names: list[array[int]] = []
        """The definitions that a node names."""
        self.level = bytearray()
        """The level at which a node was first found; 0 if unknown."""
        self.unreadable: set[int] = set()
        self.doubtful: set[int] = set()
        """Nodes that only damaged nodes name. A missing one is no finding, as its path may be wrong."""
        self.cut: list[tuple[int, int]] = []
        """Pointers that form cycles, as holder and child. They are not followed, but damage spreads along them."""
        self.marks: list[Mark] = []
        self.read_count = self.without_digest = 0

    def __contains__(self, path: str) -> bool:
        return path in self.numbers

    def number(self, path: str, level: int = 0) -> tuple[int, bool]:
        """Return the number of the node at a path, and whether it is new."""
        number = self.numbers.get(path)
        if number is not None:
            return number, False
        number = self.numbers[path] = len(self.paths)
        self.paths.append(path)
        for column in (self.children, self.has, self.needs, self.names):
            column.append(_NONE)
        self.level.append(min(level, 255))
        return number, True

    def namespace_numbers(self, names: Sequence[str]) -> array[int]:
        numbers = self.namespaces
        return array("I", (numbers.setdefault(name, len(numbers)) for name in names)) if names else _NONE

    def naming(self, definitions: Collection[int]) -> dict[int, list[int]]:
        """Return the nodes that name each of these definitions."""
        numbers = set(definitions)
        naming: dict[int, list[int]] = {}
        for node, names in enumerate(self.names) if numbers else ():
            for number in numbers.intersection(names):
                naming.setdefault(number, []).append(node)
        return naming

    def mark(self, node: int, path: str, code: str, reason: str) -> None:
        self.marks.append(Mark(node, path, Flaw(code, reason)))


def read_node(files: Files, path: str, java: bool) -> Node | None:
    """Read a node again, to name the objects that damage affects. Return None if it cannot be read."""
    data = files.read(path)
    if isinstance(data, Exception):
        return None
    try:
        return decode_node(data, path, java).node
    except OlympiaError:
        return None


# Build the graph from roots downwards, and read each node once.
#
# All rules of a tree relate a node to its children, given the first key, the last key and the height of each subtree.
# A leaf is reduced to these three values at once, and an inner node as soon as its children are.

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
