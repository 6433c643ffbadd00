"""The tree of one version, taken apart: what is sound in it, and the ranges of keys that are not."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field

from olympia_cli.errors import Damaged
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.ops.repair.files import Files, Place, ReadNode
from olympia_cli.tree.edit import max_keys, min_keys
from olympia_cli.tree.load import MAX_DEPTH, bounds


@dataclass(slots=True)
class Hole:
    """A range of keys, from `start` up to `end` (None is no end), whose node cannot be relied on.

    `rows` are the keys that can still be read there, with the paths of their definitions as far as known.
    """

    start: str
    end: str | None
    path: str
    reason: str
    rows: dict[str, str | None] = field(default_factory=dict)

    def __contains__(self, key: str) -> bool:
        return key >= self.start and (self.end is None or key < self.end)


@dataclass(slots=True)
class Taken:
    """What a tree holds. `problems` are flaws of its shape that hide nothing: building it anew mends them."""

    entries: dict[str, str] = field(default_factory=dict)
    holes: list[Hole] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    illegal: list[str] = field(default_factory=list)
    """Keys that no object of this catalog can have."""

    @property
    def whole(self) -> bool:
        return not (self.holes or self.problems or self.illegal)


def take_apart(files: Files, top: ReadNode, codec: KeyCodec, order: int) -> Taken:
    """Go through a tree from its top, a level at a time, and keep what is consistent with the way that leads to it."""
    return _TakeApart(files, codec, order).run(top)


@dataclass(frozen=True, slots=True)
class _Place:
    """A child pointer that waits to be followed: the range that it is for, and the nodes that lead to it."""

    path: str
    low: str | None
    high: str | None
    above: frozenset[str]


class _TakeApart:
    def __init__(self, files: Files, codec: KeyCodec, order: int) -> None:
        self._files = files
        self._codec = codec
        self._most = max_keys(order)
        self._fewest = min_keys(order)
        self._taken = Taken()
        self._seen: set[str] = set()

    def run(self, top: ReadNode) -> Taken:
        level = self._take(top, _Place(top.path, None, None, frozenset()), is_root=True)
        leaves: set[int] = set()
        depth = 1
        if top.node is not None and top.node.is_leaf:
            leaves.add(depth)
        while level:
            depth += 1
            below: list[_Place] = []
            for place, read in zip(level, self._files.nodes([place.path for place in level]), strict=True):
                if read.node is not None and read.node.is_leaf:
                    leaves.add(depth)
                below += self._take(read, place)
            level = below
        if len(leaves) > 1:
            self._taken.problems.append("its leaves are not all on one level")
        self._taken.entries = dict(sorted(self._taken.entries.items()))
        self._taken.holes.sort(key=lambda hole: hole.start)
        return self._taken

    def _take(self, read: ReadNode, place: _Place, is_root: bool = False) -> list[_Place]:
        """Take what the node holds; the children to follow."""
        node, taken = read.node, self._taken
        if read.path in place.above or len(place.above) > MAX_DEPTH:
            self._hole(place, read, "it leads back to a node above it")
            return []
        if node is None:
            self._hole(place, read, read.reason)
            return []
        if read.path in self._seen:
            self._hole(place, read, "another node points to it too")
            return []
        outside = node.keys and (
            (place.low is not None and node.keys[0] <= place.low)
            or (place.high is not None and node.keys[-1] >= place.high)
        )
        if outside:
            self._hole(place, read, "its keys lie outside the range that its parent gives it")
            return []
        if not node.keys and not is_root:
            self._hole(place, read, "it has no keys")
            return []
        self._seen.add(read.path)
        if len(node.keys) > self._most:
            taken.problems.append(f"{read.path} has {len(node.keys):,} keys, and the order allows {self._most:,}")
        if (len(node.keys) < self._fewest and not is_root) or (not node.keys and node.children):
            taken.problems.append(f"{read.path} has {len(node.keys):,} keys, and {max(self._fewest, 1):,} are needed")
        for key, value in zip(node.keys, node.values, strict=True):
            self._entry(key, value, read.path)
        above = place.above | {read.path}
        return [
            _Place(child, *bounds(node, at, place.low, place.high), above)
            for at, child in enumerate(node.children)
            if isinstance(child, str)
        ]

    def _entry(self, key: str, value: str | None, path: str) -> None:
        try:
            self._codec.decode(key, path)
        except Damaged:
            self._taken.illegal.append(key)
            return
        # NULL is how other programs delete a key
        if value is not None:
            self._taken.entries[key] = value

    def _hole(self, place: _Place, read: ReadNode, reason: str) -> None:
        hole = Hole("" if place.low is None else place.low + "\0", place.high, read.path, reason)
        hole.rows = dict(self._below(hole, read, place.above))
        self._taken.holes.append(hole)

    def _below(self, hole: Hole, read: ReadNode, above: frozenset[str]) -> Iterator[tuple[str, str | None]]:
        """All keys of the range that can be read in a node and below it, the more trustworthy rows last."""
        seen = set(above)
        level = [read]
        found: list[list[tuple[str, str | None]]] = []
        while level:
            rows: list[tuple[str, str | None]] = []
            children: list[str] = []
            for one in level:
                if one.path in seen:
                    continue
                seen.add(one.path)
                rows += one.rows if one.node is None else zip(one.node.keys, one.node.values, strict=True)
                children += (
                    one.children
                    if one.node is None
                    else [child for child in one.node.children if isinstance(child, str)]
                )
            found.append(rows)
            level = self._files.nodes([child for child in children if child not in seen])
        for rows in found:
            for key, value in rows:
                if key in hole and self._legal(key):
                    yield key, value

    def _legal(self, key: str) -> bool:
        try:
            self._codec.decode(key, "")
        except Damaged:
            return False
        return True


def read_range(files: Files, root: Node, start: str, end: str | None) -> dict[str, str] | None:
    """The keys of a range in a version's tree, or None when any node on the way to them is not whole.

    Versions share most nodes, so where a way has failed is remembered and not gone again.
    """
    found: dict[str, str] = {}
    level: list[tuple[Node, _Way | None]] = [(root, None)]
    for _ in range(MAX_DEPTH):
        below: list[_Way] = []
        for node, way in level:
            low, high = (None, None) if way is None else way.place[1:3]
            first, last = bisect_left(node.keys, start), _before(node, end)
            for key, value in zip(node.keys[first:last], node.values[first:last], strict=True):
                if value is not None:
                    found[key] = value
            for at in range(bisect_right(node.keys, start), last + 1) if node.children else ():
                child = node.children[at]
                if isinstance(child, str):
                    below.append(_Way((child, *bounds(node, at, low, high), start, end), way))
        if not below:
            return found
        # one bad node is enough, and those that are known cost nothing
        for way in below:
            if way.place in files.failed or way.place[0] in files.bad:
                way.fail(files)
                return None
        level = []
        for way, read in zip(below, files.nodes([way.place[0] for way in below]), strict=True):
            if read.node is None or not read.node.keys:
                way.fail(files)
                return None
            keys, (_, low, high, _, _) = read.node.keys, way.place
            if (low is not None and keys[0] <= low) or (high is not None and keys[-1] >= high):
                way.fail(files)
                return None
            level.append((read.node, way))
    return None


@dataclass(frozen=True, slots=True)
class _Way:
    """A node on the way to a range, and the way to it."""

    place: Place
    above: _Way | None

    def fail(self, files: Files) -> None:
        """Remember that the range cannot be read by this way."""
        way: _Way | None = self
        while way is not None:
            files.failed.add(way.place)
            way = way.above


def _before(node: Node, end: str | None) -> int:
    """How many keys of a node lie before the end."""
    return len(node.keys) if end is None else bisect_left(node.keys, end)
