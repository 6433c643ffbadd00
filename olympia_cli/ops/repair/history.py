"""What older versions and the log say of what cannot be read in the latest one.

Nodes are copied on write, so an older version often has whole what the latest one has damaged; and every version says
in its actions what it changed, with the definitions. Both together give what stood there: an older version's keys, and
the actions since done again on them. That is exact, unless a version in between does not say what it did.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any, cast

from google.protobuf.message import DecodeError

from olympia_cli.catalog.protection import keep_protection
from olympia_cli.catalog.redo import redo
from olympia_cli.errors import InvalidName, OlympiaError
from olympia_cli.format.action_types import ALTERS, CREATES, DROPS, EXPIRES, READS, RENAMES, RESTORES, renamed
from olympia_cli.format.actions import Action
from olympia_cli.format.definitions import CLASSES
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.pb.actions_pb2 import ActionType, RollbackDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName
from olympia_cli.ops.repair.files import Files, ReadRoot
from olympia_cli.ops.repair.tree import Hole, read_range

T = ActionType
Value = str | bytes
"""The path of a definition, or a definition to be written."""

_SILENT = READS | EXPIRES | {T.COMMIT_INFO, T.CATALOG_COMPACT, T.CATALOG_ALTER, T.CATALOG_EXPORT, T.CATALOG_CREATE}
_LEAVES_DEFINITION = CREATES | RESTORES | ALTERS
_HITS_KEYS = (_LEAVES_DEFINITION | DROPS | RENAMES) - {T.NAMESPACE_RENAME}
"""What changes the keys that it names, and no others."""


@dataclass(slots=True)
class Filled:
    """What stood in a hole. `as_of` is the version that the keys come from, None when no version has them.

    `exact` says that nothing was changed since that is not known.
    """

    hole: Hole
    as_of: int | None = None
    entries: dict[str, Value] = field(default_factory=dict)
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Found:
    """A definition that was found again: its bytes or path, the version that has it, and whether it is the newest."""

    value: Value
    version: int
    exact: bool


class History:
    """The versions that lead to the latest one, newest first. A rollback leads on to the version it went back to."""

    def __init__(self, files: Files, versions: Sequence[int], codec: KeyCodec) -> None:
        self._files = files
        self._exists = set(versions)
        self._head, self._oldest = max(versions), min(versions)
        self._codec = codec

    def back(self) -> Iterator[ReadRoot | None]:
        """None stands for a version that is missing."""
        version = self._head
        while version >= self._oldest:
            if version not in self._exists:
                yield None
                version -= 1
                continue
            root = self._files.root(version)
            yield root
            target = rollback_target(root.actions or ())
            version = target if target is not None and target < version else version - 1

    def fill(self, holes: Sequence[Hole]) -> list[Filled]:
        """What stood in each hole. They lie apart, in order, and so does what comes back."""
        filled = [Filled(hole) for hole in holes]
        since: list[tuple[list[Filled], tuple[Action, ...] | None]] = []
        waiting = filled
        for root in self.back():
            left = [one for one in waiting if not self._read(root, one)]
            if not left:
                break
            # a version that helps nobody, as most do, costs no list of its own
            waiting = left if len(left) < len(waiting) else waiting
            since.append((waiting, None if root is None else _told(root.actions)))
        for one in filled:
            one.exact = one.as_of is not None
        for left, actions in reversed(since):
            self._do_all(actions, left)
        return filled

    def _read(self, root: ReadRoot | None, filled: Filled) -> bool:
        """Take a hole's keys from a version, if it has them whole."""
        if root is None or root.root is None:
            return False
        found = read_range(self._files, root.root.node, filled.hole.start, filled.hole.end)
        if found is None:
            return False
        filled.as_of, filled.entries = root.version, dict(found)
        return True

    def _do_all(self, actions: tuple[Action, ...] | None, filled: Sequence[Filled]) -> None:
        """Do a version's actions again on the keys of holes, each on those that it can mean something to."""
        if actions is None:
            for one in filled:
                one.exact = False
            return
        starts = [one.hole.start for one in filled]
        for action in actions:
            if action.type in _SILENT:
                continue
            if action.name is None or action.type not in _HITS_KEYS:
                hit = set(range(len(filled)))
            else:
                names = [action.name, renamed(action)] if action.type in RENAMES else [action.name]
                hit = {bisect_right(starts, self._key(name)) - 1 for name in names} - {-1}
            for at in sorted(hit):
                self._do(action, filled[at])

    def _do(self, action: Action, filled: Filled) -> None:
        """Do an action again on the keys of a hole."""
        name = action.name
        if name is None:
            # a rollback is not done again: the way back leads to the version that it went back to
            filled.exact = filled.exact and action.type == T.CATALOG_ROLLBACK
            return
        if action.type == T.NAMESPACE_RENAME:
            self._move_namespace(name.namespace, renamed(action).namespace, filled)
            name_key = self._key(name)
            self._drop(name_key, filled)
            self._put(self._key(renamed(action)), action.definition, filled)
        elif action.type in RENAMES:
            value = filled.entries.get(self._key(name), action.definition)
            self._drop(self._key(name), filled)
            self._put(self._key(renamed(action)), value, filled)
        elif action.type in _LEAVES_DEFINITION:
            self._put(self._key(name), action.definition, filled)
        elif action.type in DROPS:
            self._drop(self._key(name), filled)
        else:
            filled.exact = False

    def _key(self, name: ObjectName) -> str:
        try:
            return self._codec.encode(name)
        except InvalidName:
            return ""

    def _drop(self, key: str, filled: Filled) -> None:
        if key in filled.hole:
            filled.entries.pop(key, None)

    def _put(self, key: str, value: Value, filled: Filled) -> None:
        if key and key in filled.hole:
            if value:
                filled.entries[key] = value
            else:
                filled.exact = False

    def _move_namespace(self, old: str, new: str, filled: Filled) -> None:
        """Move what is in a namespace; what comes from outside of the hole is not known here."""
        for kind in (Kind.TABLE, Kind.VIEW):
            try:
                before, after = self._codec.prefix(kind, old), self._codec.prefix(kind, new)
            except InvalidName:
                continue
            moving = {key: value for key, value in filled.entries.items() if key.startswith(before)}
            for key, value in moving.items():
                self._drop(key, filled)
                self._put(after + key[len(before) :], value, filled)
            meets = after + "\U0010ffff" >= filled.hole.start and (filled.hole.end is None or after < filled.hole.end)
            # all of them were in the hole only if the whole of the old namespace was
            inside = before >= filled.hole.start and (
                filled.hole.end is None or before + "\U0010ffff" < filled.hole.end
            )
            if meets and not inside:
                filled.exact = False

    # Definitions

    def definitions(self, wanted: Mapping[str, ObjectName], *, log_only: bool = False) -> dict[str, Found]:
        """For keys whose definitions cannot be read: what the log or older versions have of them.

        `log_only` asks the log alone.
        """
        found: dict[str, Found] = {}
        names: dict[ObjectName, list[str]] = {}
        for key, name in wanted.items():
            names.setdefault(name, []).append(key)
        exact = True
        for root in self.back():
            if not names:
                break
            actions = None if root is None else _told(root.actions)
            if actions is None:
                exact = False
            if not log_only and not exact and root is not None and root.root is not None:
                self._look_up(root, names, found)
            for action in reversed(actions or ()):
                self._match(action, root.version if root is not None else 0, exact, names, found)
        return found

    def _match(
        self,
        action: Action,
        version: int,
        exact: bool,
        names: dict[ObjectName, list[str]],
        found: dict[str, Found],
    ) -> None:
        if action.name is None or action.type in READS:
            return
        if action.type in RENAMES:
            new = renamed(action)
            if new in names:
                if action.definition:
                    self._note(names.pop(new), action, version, exact, found)
                else:
                    names.setdefault(action.name, []).extend(names.pop(new))
            if isinstance(new, NamespaceName):
                for inside in [one for one in names if one.namespace == new.namespace]:
                    former = _in_namespace(inside, action.name.namespace)
                    if former != inside:
                        names.setdefault(former, []).extend(names.pop(inside))
        elif action.type in _LEAVES_DEFINITION and action.name in names and action.definition:
            self._note(names.pop(action.name), action, version, exact, found)
        elif action.type in DROPS:
            # before this it was another object
            names.pop(action.name, None)

    def _note(self, keys: list[str], action: Action, version: int, exact: bool, found: dict[str, Found]) -> None:
        if is_definition(action.kind, action.definition):
            for key in keys:
                found[key] = Found(action.definition, version, exact)

    def _look_up(self, root: ReadRoot, names: dict[ObjectName, list[str]], found: dict[str, Found]) -> None:
        assert root.root is not None
        for name in list(names):
            key = self._key(name)
            there = read_range(self._files, root.root.node, key, key + "\0")
            path = (there or {}).get(key)
            if path is None or path in self._files.bad:
                continue
            [(_, _, reason)] = self._files.ids([(name.kind, path)])
            if not reason:
                for wanted in names.pop(name):
                    found[wanted] = Found(path, root.version, False)


def is_definition(kind: Kind, content: bytes) -> bool:
    """Whether the bytes are a definition that an object can have."""
    try:
        return bool(CLASSES[kind].FromString(content).id)
    except DecodeError:
        return False


def rollback_target(actions: Sequence[Action]) -> int | None:
    for action in actions:
        if action.type == T.CATALOG_ROLLBACK:
            return action.parse_payload(RollbackDef).to_version
    return None


def _told(actions: tuple[Action, ...] | None) -> tuple[Action, ...] | None:
    """The actions where they say all that a version changed; None where they do not."""
    if not actions or any(action.type == T.CATALOG_REPAIR for action in actions):
        return None
    return actions


def _in_namespace(name: ObjectName, namespace: str) -> ObjectName:
    if isinstance(name, TableName):
        return TableName(namespace, name.name)
    return ViewName(namespace, name.name) if isinstance(name, ViewName) else name


# The catalog's own definition


@dataclass(frozen=True, slots=True)
class FoundCatalog:
    """The catalog's definition: of which version it is, and whether all that changed it since is in it."""

    definition: CatalogDef
    version: int
    exact: bool
    path: str | None
    """Where it stands, when the latest version itself has it whole."""


def find_catalog(files: Files, versions: Sequence[int]) -> FoundCatalog | None:
    """The newest definition of the catalog that can be read, with what the log says was changed since."""
    since: list[tuple[int, tuple[Action, ...] | None]] = []
    exact = True
    for version in reversed(versions):
        root = files.root(version)
        found = _definition_of(files, root)
        if found is None and root.actions:
            found = _logged(root.actions)
            if found is not None:
                since.append((version, _after_logged(root.actions)))
        elif found is not None and version == max(versions):
            return FoundCatalog(found, version, True, root.catalog_def)
        if found is None:
            since.append((version, root.actions or None))
            continue
        for later, actions in reversed(since):
            if actions is None:
                exact = False
                continue
            found, whole = _catalog_after(files, found, later, actions)
            exact = exact and whole
        return FoundCatalog(found, version, exact, None)
    return None


def _definition_of(files: Files, root: ReadRoot) -> CatalogDef | None:
    if root.catalog_def is None:
        return None
    found = files.definition(Kind.CATALOG, root.catalog_def)
    if isinstance(found, str) or not isinstance(found, CatalogDef) or found.order < 3:
        return None
    if root.sizes is not None and root.sizes.order != found.order:
        return None
    return found


def _logged(actions: tuple[Action, ...]) -> CatalogDef | None:
    """The definition that a version's own actions carry: creating and altering the catalog leave it whole."""
    for action in reversed(actions):
        if action.type in (T.CATALOG_ALTER, T.CATALOG_CREATE) and is_definition(Kind.CATALOG, action.definition):
            return CatalogDef.FromString(action.definition)
    return None


def _after_logged(actions: tuple[Action, ...]) -> tuple[Action, ...]:
    last = max(at for at, action in enumerate(actions) if action.type in (T.CATALOG_ALTER, T.CATALOG_CREATE))
    return actions[last + 1 :]


def _catalog_after(
    files: Files, definition: CatalogDef, version: int, actions: tuple[Action, ...]
) -> tuple[CatalogDef, bool]:
    """The definition after a version's actions, and whether all of them could be done."""
    whole = True
    for action in actions:
        if action.type == T.CATALOG_ALTER and is_definition(Kind.CATALOG, action.definition):
            definition = CatalogDef.FromString(action.definition)
        elif action.type in EXPIRES or action.type == T.CATALOG_EXPORT:
            # what these do to the definition is said in one place, which asks for a draft
            draft = _CatalogDraft(definition, version - 1)
            try:
                redo(action, cast(Any, draft))
                definition = draft.catalog
            except OlympiaError:
                whole = False
        elif action.type == T.CATALOG_ROLLBACK:
            target = rollback_target([action])
            older = _definition_of(files, files.root(target)) if target is not None else None
            if older is None:
                whole = False
            else:
                definition = keep_protection(older, definition)
        elif action.type == T.CATALOG_REPAIR:
            whole = False
    return definition, whole


class _CatalogDraft:
    """As much of a draft as the catalog's own actions look at."""

    def __init__(self, definition: CatalogDef, version: int) -> None:
        self._definition = definition
        self.base = SimpleNamespace(version=version)

    @property
    def catalog(self) -> CatalogDef:
        copy = CatalogDef()
        copy.CopyFrom(self._definition)
        return copy

    def put_catalog(self, definition: CatalogDef) -> None:
        self._definition = definition
