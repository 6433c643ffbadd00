"""The tree of a version, split into sound parts and holes, and what older versions and the log tell of the holes."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from olympia_cli.catalog.replay import PUTS, moved, replay, rollback_target, tells_all, touched
from olympia_cli.errors import InvalidName
from olympia_cli.format.actions import DROPS, EXPIRES, READS, RENAMES, Action
from olympia_cli.format.definitions import definition_id
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.names import Kind, NamespaceName, ObjectName
from olympia_cli.ops.repair.files import RangePlace, ReadNode, ReadRoot, RepairFiles
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


# Recover what the latest version has lost, from older versions and the log.
#
# Nodes are copied on write, so an older version often has a sound copy of a damaged node. Every version's actions
# record its changes with the definitions. So the content is an older version's keys, with the later actions applied to
# them. This is exact, unless a version between them has no readable log.


T = ActionType
Value = str | bytes
"""The path of a definition, or a definition to write."""

_SILENT = READS | EXPIRES | {T.COMMIT_INFO, T.CATALOG_COMPACT, T.CATALOG_ALTER, T.CATALOG_EXPORT, T.CATALOG_CREATE}
_HITS_KEYS = (PUTS | DROPS | RENAMES) - {T.NAMESPACE_RENAME}
"""Actions that change only the keys that they name."""


@dataclass(slots=True)
class HoleContent:
    """The former content of a hole. `as_of` is the version of the keys, or None if no version has them.

    `exact` means that all later changes are known.
    """

    hole: Hole
    codec: KeyCodec
    as_of: int | None = None
    entries: dict[str, Value] = field(default_factory=dict)
    exact: bool = True

    def put(self, name: ObjectName, definition: bytes) -> None:
        self._put(self.codec.key(name), definition)

    def drop(self, name: ObjectName) -> None:
        self.entries.pop(self.codec.key(name), None)

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        if isinstance(old, NamespaceName):
            self._move_inside(old.namespace, new.namespace)
        value = self.entries.pop(self.codec.key(old), definition)
        self._put(self.codec.key(new), value)

    def _put(self, key: str, value: Value) -> None:
        if key and key in self.hole:
            if value:
                self.entries[key] = value
            else:
                self.exact = False

    def _move_inside(self, old: str, new: str) -> None:
        """Move the objects of a namespace. Objects that come from outside the hole are unknown here."""
        for kind in (Kind.TABLE, Kind.VIEW):
            try:
                before, after = self.codec.prefix(kind, old), self.codec.prefix(kind, new)
            except InvalidName:
                continue
            for key in [key for key in self.entries if key.startswith(before)]:
                self._put(after + key[len(before) :], self.entries.pop(key))
            start, end = self.hole.start, self.hole.end
            meets = after + "\U0010ffff" >= start and (end is None or after < end)
            # the result is exact only if the hole had all keys of the old namespace
            inside = before >= start and (end is None or before + "\U0010ffff" < end)
            if meets and not inside:
                self.exact = False


@dataclass(frozen=True, slots=True)
class FormerDefinition:
    """A recovered definition: its bytes or path, its version, and whether it is the newest one."""

    value: Value
    version: int
    exact: bool


class Ancestry:
    """The versions that lead to the latest one, newest first. A rollback leads to its target."""

    def __init__(self, files: RepairFiles, versions: Sequence[int], codec: KeyCodec) -> None:
        self._files = files
        self._versions = sorted(versions)
        self._exists = set(versions)
        self._head, self._oldest = max(versions), min(versions)
        self._codec = codec

    def back(self) -> Iterator[ReadRoot | None]:
        """Yield the roots, newest first, and None for a gap."""
        version = self._head
        while version >= self._oldest:
            if version not in self._exists:
                yield None
                version = self._versions[bisect_right(self._versions, version) - 1]
                continue
            root = self._files.root(version)
            yield root
            target = rollback_target(root.actions or ())
            version = target if target is not None and target < version else version - 1

    def fill(self, holes: Sequence[Hole]) -> list[HoleContent]:
        """Return the content of each hole, in the order of the holes. Holes must be sorted, and must not overlap."""
        filled = [HoleContent(hole, self._codec) for hole in holes]
        since: list[tuple[list[HoleContent], tuple[Action, ...] | None]] = []
        waiting = filled
        for root in self.back():
            rest = [content for content in waiting if not self._read(root, content)]
            if not rest:
                break
            # most versions fill no hole, and reuse the list
            waiting = rest if len(rest) < len(waiting) else waiting
            since.append((waiting, None if root is None else _told(root.actions)))
        for content in filled:
            content.exact = content.as_of is not None
        for rest, actions in reversed(since):
            self._do_all(actions, rest)
        return filled

    def replayed(self, base: int | None = None) -> tuple[HoleContent, bool] | None:
        """Return the content of the latest version by an older version and the log since, and whether it is certain.

        The older version is `base`, or the oldest one from which on the log is complete. The result is certain if that
        version has no nodes below its root: such nodes could be misplaced.
        """
        whole, told = HoleContent(Hole("", None, "", ""), self._codec), []
        for root in self.back():
            if root is None:
                break
            told.append(root)
            if root.version == base or _told(root.actions) is None:
                break
        if base is not None and told[-1].version != base:
            return None
        while len(told) > 1 and not self._read(told[-1], whole):
            told.pop()
        first = told.pop()
        if not told or (base is not None and first.version != base):
            return None
        for root in reversed(told):
            self._do_all(_told(root.actions), [whole])
        return (whole, first.root is not None and not first.root.node.children) if whole.exact else None

    def after(self, version: int, entries: Mapping[str, Value]) -> dict[str, Value] | None:
        """Return the latest content by that of an older version and the log since; None if the log is incomplete."""
        whole = HoleContent(Hole("", None, "", ""), self._codec, version, dict(entries))
        for later in range(version + 1, self._head + 1):
            actions = _told(self._files.root(later).actions) if later in self._exists else None
            if actions is None or rollback_target(actions) is not None:
                return None
            self._do_all(actions, [whole])
        return whole.entries if whole.exact else None

    def _read(self, root: ReadRoot | None, filled: HoleContent) -> bool:
        """Take the keys of a hole from a version. Return False if they cannot be read there."""
        if root is None or root.root is None:
            return False
        entries = read_range(self._files, root.root.node, filled.hole.start, filled.hole.end)
        if entries is None:
            return False
        filled.as_of, filled.entries = root.version, dict(entries)
        return True

    def _do_all(self, actions: tuple[Action, ...] | None, filled: Sequence[HoleContent]) -> None:
        """Apply a version's actions to the holes that they may concern."""
        if actions is None:
            for content in filled:
                content.exact = False
            return
        starts = [content.hole.start for content in filled]
        for action in actions:
            if action.type in _SILENT:
                continue
            if action.name is None or action.type not in _HITS_KEYS:
                hit = set(range(len(filled)))
            else:
                hit = {bisect_right(starts, self._codec.key(name)) - 1 for name in touched(action)} - {-1}
            for at in sorted(hit):
                # a rollback is skipped: `back` already continues at its target
                if not replay(action, filled[at]) and action.type != T.CATALOG_ROLLBACK:
                    filled[at].exact = False

    # Definitions

    def definitions(self, names: Mapping[str, ObjectName]) -> dict[str, FormerDefinition]:
        """Return the newest definitions of keys whose own cannot be read, from the log or older versions."""
        sought = _Sought(names)
        for root in self.back():
            if not sought.names:
                break
            actions = None if root is None else _told(root.actions)
            if actions is None:
                sought.exact = False
            if root is None:
                continue
            if not sought.exact and root.root is not None:
                self._look_up(root, root.root.node, sought)
            sought.version = root.version
            for action in reversed(actions or ()):
                replay(action, sought)
        return sought.former

    def _look_up(self, root: ReadRoot, node: Node, sought: _Sought) -> None:
        for name in list(sought.names):
            key = self._codec.key(name)
            there = read_range(self._files, node, key, key + "\0")
            path = (there or {}).get(key)
            if path is None:
                continue
            [(_, _, flaw)] = self._files.ids([(name.kind, path)])
            if flaw is None:
                for latest_key in sought.names.pop(name):
                    sought.former[latest_key] = FormerDefinition(path, root.version, False)


class _Sought:
    """The objects to find definitions for, by their names at the present point of reading actions backwards.

    The first definition found in an action is the object's newest.
    """

    def __init__(self, names: Mapping[str, ObjectName]) -> None:
        self.names: dict[ObjectName, list[str]] = {}
        for key, name in names.items():
            self.names.setdefault(name, []).append(key)
        self.former: dict[str, FormerDefinition] = {}
        self.version = 0
        self.exact = True

    def put(self, name: ObjectName, definition: bytes) -> None:
        if definition and name in self.names:
            keys = self.names.pop(name)
            if definition_id(name.kind, definition):
                self.former.update({key: FormerDefinition(definition, self.version, self.exact) for key in keys})

    def drop(self, name: ObjectName) -> None:
        # earlier actions concern another object of this name
        self.names.pop(name, None)

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        self.put(new, definition)
        for name in list(self.names):
            former = moved(name, new, old)
            if former != name:
                self.names.setdefault(former, []).extend(self.names.pop(name))


def _told(actions: tuple[Action, ...] | None) -> tuple[Action, ...] | None:
    """Return the actions if they record all changes of a version, else None."""
    return actions if actions and tells_all(actions) else None
