"""The nodes of all versions as one graph: each node is read once, however many trees share it.

Every rule of a tree is about a node and its children once each node is summed up by the first and last key of its
subtree and its height. So leaves are summed up and let go as they come, inner nodes when all of their children are,
and what is kept of a node is a number, its summary and the numbers of what it names.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from olympia_cli.errors import OlympiaError
from olympia_cli.format.node import Node
from olympia_cli.format.node_file import decode_node
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import TableName
from olympia_cli.ops.fsck.definitions import Definitions
from olympia_cli.ops.walk.facts import NodeFacts, NodeRules
from olympia_cli.ops.walk.files import AT_ONCE, Files, Flaw
from olympia_cli.tree.load import MAX_DEPTH

NOWHERE = 0xFFFFFFFF
"""In place of a child's number where there is no child that could be followed."""

NO_HEIGHT = 255
"""The height of a node that none of its children tells."""

_NONE: array[int] = array("I")


@dataclass(frozen=True, slots=True)
class Mark:
    """Something is wrong: with the file at `path`, in every version that reaches the node numbered `node`."""

    node: int
    path: str
    flaw: Flaw


@dataclass(slots=True)
class _Open:
    """An inner node whose children are not all summed up."""

    keys: tuple[str, ...]
    missing: int


class Graph:
    """All nodes that were met, by number, and what is wrong with them."""

    def __init__(self, files: Files, rules: NodeRules, definitions: Definitions | None) -> None:
        self._files = files
        self._rules = rules
        self._definitions = definitions
        self.numbers: dict[str, int] = {}
        self.paths: list[str] = []
        self.children: list[array[int]] = []
        self.first: list[str | None] = []
        self.last: list[str | None] = []
        self.height = bytearray()
        self.namespaces: dict[str, int] = {}
        self.has: list[array[int]] = []
        """The namespaces whose keys are in a node."""
        self.needs: list[array[int]] = []
        """The namespaces of the tables and views whose keys are in a node."""
        self.names: list[array[int]] = []
        """The definitions that a node names."""
        self.unreadable: set[int] = set()
        self.doubtful: set[int] = set()
        """Nodes that only damaged nodes name: that one is missing says nothing, its name may be what is damaged."""
        self.cut: list[tuple[int, int]] = []
        """Pointers back, as holder and child: they are not followed any more, but damage reaches through them."""
        self.marks: list[Mark] = []
        self.read_count = self.without_digest = 0
        self._open: dict[int, _Open] = {}
        self._waiters: dict[int, list[int]] = {}
        self._ready: list[int] = []

    def __contains__(self, path: str) -> bool:
        return path in self.numbers

    def mark(self, node: int, path: str, code: str, reason: str) -> None:
        self.marks.append(Mark(node, path, Flaw(code, reason)))

    def add(self, roots: Iterable[tuple[str, Node | bytes]]) -> Iterator[tuple[TableName, TableDef]]:
        """Follow roots to all that no root before them reached. Tables come out as their definitions are read.

        Of a root that cannot be decoded its bytes are given; what it still leads to is not lost.
        """
        waiting: list[str] = []
        for path, node in roots:
            number, new = self.number(path)
            if not new and self._taken(number):
                continue
            self.take(self._rules.look_at_root(path, node), waiting)
        while waiting and not self._files.out_of_time:
            wanted, waiting = waiting[-AT_ONCE:], waiting[:-AT_ONCE]
            # a root that stands inside a tree too may have had its turn already
            wanted = [path for path in wanted if not self._taken(self.numbers[path])]
            for path, data in self._files.read_many(wanted):
                self.read_count += 1
                self.take(self._rules.look(path, data), waiting)
                self._files.progress.advance()
            self._settle()
            if self._definitions is not None and self._definitions.full:
                yield from self._definitions.read()
        self._settle()
        if self._definitions is not None:
            yield from self._definitions.read()
        if not self._files.out_of_time:
            self._break_cycles()

    # One node

    def number(self, path: str) -> tuple[int, bool]:
        """The number of the node at a path, and whether it is new."""
        number = self.numbers.get(path)
        if number is not None:
            return number, False
        number = self.numbers[path] = len(self.paths)
        self.paths.append(path)
        for column in (self.children, self.has, self.needs, self.names):
            column.append(_NONE)
        self.first.append(None)
        self.last.append(None)
        self.height.append(0)
        return number, True

    def _taken(self, number: int) -> bool:
        return bool(self.height[number]) or number in self._open or number in self.unreadable

    def _child(self, path: str, waiting: list[str], doubtful: bool = False) -> int:
        number, new = self.number(path)
        if new:
            waiting.append(path)
            if doubtful:
                self.doubtful.add(number)
        elif not doubtful:
            self.doubtful.discard(number)
        return number

    def take(self, facts: NodeFacts, waiting: list[str]) -> None:
        """Take in what a node says by itself; what it leads to and is new is put to what is waiting."""
        number, _ = self.number(facts.path)
        self.marks += [Mark(number, path, flaw) for path, flaw in facts.marks]
        self.without_digest += not facts.verified
        if self._definitions is not None and facts.names:
            note, doubtful = self._definitions.note, not facts.readable
            self.names[number] = array("I", (note(path, kind, key, doubtful) for path, kind, key in facts.names))
        if not facts.readable:
            self.unreadable.add(number)
            known = [path for path in facts.children if path is not None]
            self.children[number] = array("I", (self._child(path, waiting, doubtful=True) for path in known))
            self._finished(number)
            return
        self.has[number], self.needs[number] = self._namespaces(facts.has), self._namespaces(facts.needs)
        keys = facts.keys
        self.first[number] = keys[0] if keys else None
        self.last[number] = keys[-1] if keys else None
        if facts.is_leaf:
            self.height[number] = 1
            self._finished(number)
            return
        children = array("I", (NOWHERE if child is None else self._child(child, waiting) for child in facts.children))
        self.children[number] = children
        missing = 0
        for at in set(children):
            if at != NOWHERE and not self._done(at):
                self._waiters.setdefault(at, []).append(number)
                missing += 1
        self._open[number] = _Open(keys, missing)
        if not missing:
            self._ready.append(number)

    def _namespaces(self, names: Sequence[str]) -> array[int]:
        known = self.namespaces
        return array("I", (known.setdefault(name, len(known)) for name in names)) if names else _NONE

    def _done(self, number: int) -> bool:
        return bool(self.height[number]) or number in self.unreadable

    # Edges

    def _finished(self, number: int) -> None:
        """A node is summed up; its parents may be next."""
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
        """All children of an inner node are summed up: check each edge, then sum up the node itself."""
        found = self._open.pop(number, None)
        if found is None:
            return
        keys, children = found.keys, self.children[number]
        heights = [self.height[child] if child != NOWHERE else 0 for child in children]
        usual = max(sorted(set(heights) - {0, NO_HEIGHT}), key=heights.count, default=0)
        first, last = self.first[number], self.last[number]
        for at, child in enumerate(children):
            if child == NOWHERE or not heights[at]:
                continue
            if heights[at] not in (usual, NO_HEIGHT) and not self._rules.java:
                more = f"{heights[at]} levels, and its siblings {usual}"
                self.mark(number, self.paths[child], "F210", f"the tree below it has {more}")
            low = keys[at - 1] if at else None
            high = keys[at] if at < len(keys) else None
            child_first, child_last = self.first[child], self.last[child]
            if child_first is None or child_last is None:
                continue
            below = low is not None and child_first <= low
            if below or (high is not None and child_last >= high):
                culprit = self.paths[self._holder(child, child_first if below else child_last, 0 if below else -1)]
                self.mark(number, culprit, "F209", "it has keys outside the range that its place in the tree gives it")
                continue
            if at == 0:
                first = child_first
            if at == len(keys):
                last = child_last
        self.first[number], self.last[number] = first, last
        self.height[number] = min(usual + 1, NO_HEIGHT) if usual else NO_HEIGHT
        if usual + 1 == MAX_DEPTH + 1:
            self.mark(number, self.paths[number], "F210", f"the tree below it is deeper than {MAX_DEPTH} levels")
        self._finished(number)

    def _holder(self, number: int, key: str, side: int) -> int:
        """The node that has the first or last key of a subtree."""
        ends = self.last if side else self.first
        while self.children[number]:
            child = self.children[number][side]
            if child == NOWHERE or ends[child] != key:
                break
            number = child
        return number

    # Cycles

    def _break_cycles(self) -> None:
        """Inner nodes that are still open wait for themselves, or for one that does: cut the pointers that go back."""
        while self._open:
            holder, node = self._pointer_back()
            reason = f"it is below itself: {self.paths[holder]} points back to it"
            self.mark(node, self.paths[node], "F213", reason)
            self.mark(holder, self.paths[node], "F213", reason)
            self.cut.append((holder, node))
            self.children[holder] = array("I", (NOWHERE if one == node else one for one in self.children[holder]))
            self._waiters[node].remove(holder)
            self._open[holder].missing -= 1
            if not self._open[holder].missing:
                self._ready.append(holder)
            self._settle()

    def _pointer_back(self) -> tuple[int, int]:
        """Go down from any open node through open nodes until one is met again: around it goes a circle, which is cut
        before the node whose name comes first, wherever the way began."""
        node = min(self._open)
        way: dict[int, int] = {}
        while node not in way:
            way[node] = next(child for child in self.children[node] if child in self._open)
            node = way[node]
        circle = [node]
        while way[circle[-1]] != node:
            circle.append(way[circle[-1]])
        first = min(range(len(circle)), key=lambda at: self.paths[circle[at]])
        return circle[first - 1], circle[first]


def read_node(files: Files, path: str, java: bool) -> Node | None:
    """A node that is read once more, to name what damage hits; None when it cannot be."""
    data = files.read(path)
    if isinstance(data, Exception):
        return None
    try:
        return decode_node(data, path, java).node
    except OlympiaError:
        return None
