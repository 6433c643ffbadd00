"""The history of objects: follow one by its id through renames, and derive the actions between two versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from olympia_cli.catalog.replay import moved, replay, rollback_target, tells_all
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import Damaged, PathMissing, VersionNotFound
from olympia_cli.format.actions import Action
from olympia_cli.format.definitions import definition_id
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.names import Kind, ObjectName

# Follow an object by its id through renames.

Names = Mapping[str, ObjectName | None]
"""Names of objects by id. None means that the object does not exist."""


def living_name(id: str, name: ObjectName, version: int, base: Snapshot, staged: Sequence[Action]) -> ObjectName | None:
    """Return the current name of an object in `base` with the staged actions, given its name in an older version."""
    return living_names({id: name}, version, base, staged)[id]


def living_names(names: Mapping[str, ObjectName], version: int, base: Snapshot, staged: Sequence[Action]) -> Names:
    """Like `living_name`, for many objects by id. The versions since are read once for all of them.

    The action logs show the renames. If a log is incomplete, all definitions of the objects' kinds are searched. That
    applies to versions of other programs, repairs, unreadable versions, and rollbacks to before `version`.
    """
    unknown = False
    followed = Followed(names)
    known = {version: followed.names}
    for snapshot in _since(version, base):
        if snapshot is None:
            unknown = True
            continue
        actions = snapshot.actions()
        target = rollback_target(actions)
        if unknown or not tells_all(actions) or (target is not None and target not in known):
            followed, unknown = Followed(_search(names, snapshot)), False
        elif target is not None:
            followed = Followed(known[target])
        else:
            followed.follow(actions)
        known[snapshot.version] = followed.names
    return followed.follow(staged)


class Followed:
    """The current names of some objects while actions are replayed. Returned mappings never change."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self._at = {name: id for id, name in names.items() if name is not None}

    def follow(self, actions: Iterable[Action]) -> Names:
        """Replay the actions. Return the names after them."""
        before = dict(self._at)
        for action in actions:
            replay(action, self)
        if self._at != before:
            self.names = dict.fromkeys(self.names) | {id: name for name, id in self._at.items()}
        return self.names

    def put(self, name: ObjectName, definition: bytes) -> None:
        id = definition_id(name.kind, definition)
        if id in self.names:
            self._at[name] = id

    def drop(self, name: ObjectName) -> None:
        self._at.pop(name, None)

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        self._at = {moved(name, old, new): id for name, id in self._at.items()}


def _since(version: int, base: Snapshot) -> Iterable[Snapshot | None]:
    """Yield the versions after `version` up to the base, with None for a version that cannot be read."""
    store, width = base.store, base.file.width
    versions = range(version + 1, base.version + 1)
    for number, (path, data) in zip(
        versions, store.read_many(root_path(number, width) for number in versions), strict=True
    ):
        if isinstance(data, PathMissing):
            raise VersionNotFound(f"version {number} is gone: {path} is missing", hint="")
        if isinstance(data, Exception) and not isinstance(data, Damaged):
            raise data
        try:
            if isinstance(data, Damaged):
                raise data
            snapshot = Snapshot(store, RootFile.of(number, width, data), base)
            snapshot.actions()
        except Damaged:
            if number == base.version:
                raise
            yield None
            continue
        yield snapshot


def _search(names: Mapping[str, ObjectName], snapshot: Snapshot) -> Names:
    found: dict[str, ObjectName | None] = dict.fromkeys(names)
    for kind in {name.kind for name in names.values()}:
        found.update((one.id, one.name) for one in snapshot.objects(kind) if one.id in names)
    return found


# Derive the actions between two versions from their trees, for versions without an action log.

T = ActionType
TYPES = {
    Kind.NAMESPACE: (T.NAMESPACE_CREATE, T.NAMESPACE_ALTER, T.NAMESPACE_DROP, T.NAMESPACE_RENAME),
    Kind.TABLE: (T.TABLE_CREATE, T.TABLE_ALTER, T.TABLE_DROP, T.TABLE_RENAME),
    Kind.VIEW: (T.VIEW_CREATE, T.VIEW_REPLACE, T.VIEW_DROP, T.VIEW_RENAME),
}
"""The action types for create, alter, drop and rename of each kind of object."""


def tree_changes(old: Snapshot, new: Snapshot) -> Iterator[Action]:
    """Yield the creates, alters and drops that lead from one version to the other.

    The actions have no definitions. A rename appears as a drop and a create.
    """
    if old.root.catalog_def != new.root.catalog_def:
        yield Action(T.CATALOG_ALTER)
    # only a rebase over a version without an action log asks for it
    from olympia_cli.tree.diff import diff

    for change in diff(old.reader, old.root.node, new.reader, new.root.node):
        name = new.keys.decode(change.key, new.file.path)
        created, altered, dropped, _ = TYPES[name.kind]
        if change.old is None:
            yield Action(created, name)
        else:
            yield Action(dropped if change.new is None else altered, name)
