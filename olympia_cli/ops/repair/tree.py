"""The tree of a version, split into sound parts and holes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.ops.repair.files import RangePlace, ReadNode, RepairFiles
from olympia_cli.ops.walk import descend
from olympia_cli.tree.load import MAX_DEPTH, bounds


@dataclass(slots=True)
class Hole:
    """A range of keys, from `start` up to `end`, whose node is not reliable. If `end` is None, the range has no end.

    `rows` are the keys that can still be read there, with the paths of their definitions if known.
    """

    start: str
    end: str | None
    path: str
    reason: str
    rows: dict[str, str | None] = field(default_factory=dict)

    def __contains__(self, key: str) -> bool:
        return key >= self.start and (self.end is None or key < self.end)


@dataclass(slots=True)
class TreeContent:
    """The content of a tree. Flaws that hide no keys are not holes, as a rebuild removes them."""

    entries: dict[str, str] = field(default_factory=dict)
    holes: list[Hole] = field(default_factory=list)
    illegal: list[str] = field(default_factory=list)
    """Keys that no object of this catalog can have."""


def take_apart(files: RepairFiles, top: ReadNode, codec: KeyCodec) -> TreeContent:
    """Walk a tree from its top, level by level, and keep the nodes that are consistent with the path to them.

    fsck describes the damage; this function only decides what is reliable.
    """
    return _TakeApart(files, codec).run(top)


@dataclass(frozen=True, slots=True)
class _RangePointer:
    """A child pointer to follow: its range of keys, and the nodes above."""

    path: str
    low: str | None
    high: str | None
    above: frozenset[str]


class _TakeApart:
    def __init__(self, files: RepairFiles, codec: KeyCodec) -> None:
        self._files = files
        self._codec = codec
        self._content = TreeContent()
        self._reached: set[str] = set()

    def run(self, top: ReadNode) -> TreeContent:
        content = self._content
        below = self._visit(_RangePointer(top.path, None, None, frozenset()), top)
        for _ in descend(below, self._look, self._visit, at_once=None):
            pass
        content.entries = dict(sorted(content.entries.items()))
        content.holes.sort(key=lambda hole: hole.start)
        return content

    def _look(self, pointers: Sequence[_RangePointer]) -> Iterator[tuple[_RangePointer, ReadNode]]:
        return zip(pointers, self._files.nodes([pointer.path for pointer in pointers]), strict=True)

    def _visit(self, pointer: _RangePointer, reading: ReadNode) -> list[_RangePointer]:
        """Take the content of a node, and return the children to follow."""
        node, is_root = reading.node, not pointer.above
        reason = self._flaw(pointer, reading, is_root)
        if reason or node is None:
            self._hole(pointer, reading, reason)
            return []
        self._reached.add(reading.path)
        for key, value in reading.entries:
            if self._codec.name(key) is None:
                self._content.illegal.append(key)
            # other programs delete a key by writing NULL
            elif value is not None:
                self._content.entries[key] = value
        above = pointer.above | {reading.path}
        return [
            _RangePointer(child, *bounds(node, at, pointer.low, pointer.high), above)
            for at, child in enumerate(node.children)
            if isinstance(child, str)
        ]

    def _flaw(self, pointer: _RangePointer, reading: ReadNode, is_root: bool) -> str:
        """Return why the node is not reliable at this place, or an empty string."""
        if reading.path in pointer.above or len(pointer.above) > MAX_DEPTH:
            return "it leads back to a node above it"
        if reading.flaw is not None or reading.node is None:
            return reading.flaw.reason if reading.flaw is not None else ""
        if reading.path in self._reached:
            return "another node points to it too"
        if not _fits(reading.node, pointer.low, pointer.high):
            return "its keys lie outside the range that its parent gives it"
        return "" if reading.node.keys or is_root else "it has no keys"

    def _hole(self, pointer: _RangePointer, reading: ReadNode, reason: str) -> None:
        hole = Hole("" if pointer.low is None else pointer.low + "\0", pointer.high, reading.path, reason)
        reached = set(pointer.above)

        def visit(path: str, reading: ReadNode) -> list[str]:
            """Collect all readable keys of the range. Nodes further down are more reliable, so their rows come last."""
            if path in reached:
                return []
            reached.add(path)
            hole.rows.update((key, value) for key, value in reading.entries if key in hole and self._codec.name(key))
            return [child for child in reading.pointers if child not in reached]

        self._files.follow(visit(reading.path, reading), visit)
        self._content.holes.append(hole)


def _fits(node: Node, low: str | None, high: str | None) -> bool:
    """Return whether all keys of a node are between the bounds."""
    keys = node.keys
    return not keys or ((low is None or keys[0] > low) and (high is None or keys[-1] < high))


def read_range(files: RepairFiles, root: Node, start: str, end: str | None) -> dict[str, str] | None:
    """Return the keys of a range in a version's tree, or None if a node on the way is damaged.

    Versions share most nodes, so failed paths are cached.
    """
    search = _RangeSearch(files, start, end)
    for _ in descend(search.visit(None, root), search.look, search.visit, at_once=None):
        if search.failed:
            return None
    return search.entries


@dataclass(frozen=True, slots=True)
class _Way:
    """A node on the way to a range, and the path to it."""

    place: RangePlace
    above: _Way | None
    depth: int


class _RangeSearch:
    def __init__(self, files: RepairFiles, start: str, end: str | None) -> None:
        self._files = files
        self._start = start
        self._end = end
        self.entries: dict[str, str] = {}
        self.failed = False

    def look(self, ways: Sequence[_Way]) -> Iterator[tuple[_Way, Node]]:
        files = self._files
        # one damaged node is enough, and cached ones cost nothing
        for way in ways:
            if way.place in files.failed or files.is_bad_node(way.place.path) or way.depth > MAX_DEPTH:
                return self._fail(way)
        for way, reading in zip(ways, files.nodes([way.place.path for way in ways]), strict=True):
            if reading.node is None or not reading.node.keys or not _fits(reading.node, way.place.low, way.place.high):
                return self._fail(way)
            yield way, reading.node

    def visit(self, way: _Way | None, node: Node) -> list[_Way]:
        low, high, depth = (None, None, 1) if way is None else (way.place.low, way.place.high, way.depth)
        start, end = self._start, self._end
        first, last = bisect_left(node.keys, start), len(node.keys) if end is None else bisect_left(node.keys, end)
        for key, value in zip(node.keys[first:last], node.values[first:last], strict=True):
            if value is not None:
                self.entries[key] = value
        return [
            _Way(RangePlace(child, *bounds(node, at, low, high), start, end), way, depth + 1)
            for at, child in list(enumerate(node.children))[bisect_right(node.keys, start) : last + 1]
            if isinstance(child, str)
        ]

    def _fail(self, way: _Way) -> None:
        """Cache that the range cannot be read along this path."""
        self.failed = True
        step: _Way | None = way
        while step is not None:
            self._files.failed.add(step.place)
            step = step.above
