"""What older versions and the log say of what cannot be read in the latest one.

Nodes are copied on write, so an older version often has whole what the latest one has damaged; and every version says
in its actions what it changed, with the definitions. Both together give what stood there: an older version's keys, and
the actions since done again on them. That is exact, unless a version in between does not say what it did.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from olympia_cli.catalog.replay import PUTS, moved, replay, rollback_target, tells_all, touched
from olympia_cli.errors import InvalidName
from olympia_cli.format.action_types import DROPS, EXPIRES, READS, RENAMES
from olympia_cli.format.actions import Action
from olympia_cli.format.definitions import definition_id
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.names import Kind, NamespaceName, ObjectName
from olympia_cli.ops.repair.files import RepairFiles
from olympia_cli.ops.repair.nodes import ReadRoot
from olympia_cli.ops.repair.tree import Hole, read_range

T = ActionType
Value = str | bytes
"""The path of a definition, or a definition to be written."""

_SILENT = READS | EXPIRES | {T.COMMIT_INFO, T.CATALOG_COMPACT, T.CATALOG_ALTER, T.CATALOG_EXPORT, T.CATALOG_CREATE}
_HITS_KEYS = (PUTS | DROPS | RENAMES) - {T.NAMESPACE_RENAME}
"""What changes the keys that it names, and no others."""


@dataclass(slots=True)
class HoleContent:
    """What stood in a hole. `as_of` is the version that the keys come from, None when no version has them.

    `exact` says that nothing was changed since that is not known.
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
        """Move what is in a namespace; what comes from outside of the hole is not known here."""
        for kind in (Kind.TABLE, Kind.VIEW):
            try:
                before, after = self.codec.prefix(kind, old), self.codec.prefix(kind, new)
            except InvalidName:
                continue
            for key in [key for key in self.entries if key.startswith(before)]:
                self._put(after + key[len(before) :], self.entries.pop(key))
            start, end = self.hole.start, self.hole.end
            meets = after + "\U0010ffff" >= start and (end is None or after < end)
            # all of them were in the hole only if the whole of the old namespace was
            inside = before >= start and (end is None or before + "\U0010ffff" < end)
            if meets and not inside:
                self.exact = False


@dataclass(frozen=True, slots=True)
class FormerDefinition:
    """A definition that was found again: its bytes or path, the version that has it, and whether it is the newest."""

    value: Value
    version: int
    exact: bool


class History:
    """The versions that lead to the latest one, newest first. A rollback leads on to the version it went back to."""

    def __init__(self, files: RepairFiles, versions: Sequence[int], codec: KeyCodec) -> None:
        self._files = files
        self._versions = sorted(versions)
        self._exists = set(versions)
        self._head, self._oldest = max(versions), min(versions)
        self._codec = codec

    def back(self) -> Iterator[ReadRoot | None]:
        """None stands for versions that are missing."""
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
        """What stood in each hole. They lie apart, in order, and so does what comes back."""
        filled = [HoleContent(hole, self._codec) for hole in holes]
        since: list[tuple[list[HoleContent], tuple[Action, ...] | None]] = []
        waiting = filled
        for root in self.back():
            rest = [content for content in waiting if not self._read(root, content)]
            if not rest:
                break
            # a version that helps nobody, as most do, costs no list of its own
            waiting = rest if len(rest) < len(waiting) else waiting
            since.append((waiting, None if root is None else _told(root.actions)))
        for content in filled:
            content.exact = content.as_of is not None
        for rest, actions in reversed(since):
            self._do_all(actions, rest)
        return filled

    def replayed(self, base: int | None = None) -> tuple[HoleContent, bool] | None:
        """What the latest version holds by a version before it and the log since: by `base`, or by the oldest version
        from which the log is whole. Tell, too, whether all of that version stands in its root, so that no other node
        can have taken the place of one of its own."""
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

    def _read(self, root: ReadRoot | None, filled: HoleContent) -> bool:
        """Take a hole's keys from a version, if it has them whole."""
        if root is None or root.root is None:
            return False
        entries = read_range(self._files, root.root.node, filled.hole.start, filled.hole.end)
        if entries is None:
            return False
        filled.as_of, filled.entries = root.version, dict(entries)
        return True

    def _do_all(self, actions: tuple[Action, ...] | None, filled: Sequence[HoleContent]) -> None:
        """Do a version's actions again on the keys of holes, each on those that it can mean something to."""
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
                # a rollback is not done again: the way back leads to the version that it went back to
                if not replay(action, filled[at]) and action.type != T.CATALOG_ROLLBACK:
                    filled[at].exact = False

    # Definitions

    def definitions(self, names: Mapping[str, ObjectName]) -> dict[str, FormerDefinition]:
        """For keys whose definitions cannot be read: what the log or older versions have of them."""
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
    """Objects whose definitions are sought, by what they were called before the actions that are read backwards.

    The first definition that an action carries is the newest that the object had.
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
        # before this it was another object
        self.names.pop(name, None)

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        self.put(new, definition)
        for name in list(self.names):
            former = moved(name, new, old)
            if former != name:
                self.names.setdefault(former, []).extend(self.names.pop(name))


def _told(actions: tuple[Action, ...] | None) -> tuple[Action, ...] | None:
    """The actions where they say all that a version changed; None where they do not."""
    return actions if actions and tells_all(actions) else None
