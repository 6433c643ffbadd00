"""Following an object by its id, through renames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from olympia_cli.catalog.replay import moved, replay, rollback_target, tells_all
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import Damaged, PathMissing, VersionNotFound
from olympia_cli.format.actions import Action
from olympia_cli.format.definitions import definition_id
from olympia_cli.format.paths import root_path
from olympia_cli.names import ObjectName


def living_name(id: str, name: ObjectName, version: int, base: Snapshot, staged: Sequence[Action]) -> ObjectName | None:
    """The name under which an object lives in `base` and the staged actions, given its name in an older version.

    The actions since tell it. Where they do not (versions of another program, repairs, versions that cannot be read, a
    rollback to before), all definitions of its kind are looked through.
    """
    unknown = False
    names: dict[int, ObjectName | None] = {version: name}
    current: ObjectName | None = name
    for snapshot in _since(version, base):
        if snapshot is None:
            unknown = True
            continue
        actions = snapshot.actions()
        target = rollback_target(actions)
        if unknown or not tells_all(actions) or (target is not None and target not in names):
            current, unknown = _search(id, name, snapshot), False
        else:
            current = follow(id, current, actions) if target is None else names[target]
        names[snapshot.version] = current
    return follow(id, current, staged)


def follow(id: str, name: ObjectName | None, actions: Iterable[Action]) -> ObjectName | None:
    """The object's name after the actions; None while it does not exist."""
    followed = _Followed(id, name)
    for action in actions:
        replay(action, followed)
    return followed.name


@dataclass(slots=True)
class _Followed:
    """One of all objects, and what it is called."""

    id: str
    name: ObjectName | None

    def put(self, name: ObjectName, definition: bytes) -> None:
        if definition_id(name.kind, definition) == self.id:
            self.name = name

    def drop(self, name: ObjectName) -> None:
        if name == self.name:
            self.name = None

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        self.name = None if self.name is None else moved(self.name, old, new)


def _since(version: int, base: Snapshot) -> Iterable[Snapshot | None]:
    """The versions after one, up to the base; None stands for one that cannot be read."""
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
            snapshot = Snapshot(store, RootFile(number, width, data), base)
            snapshot.actions()
        except Damaged:
            if number == base.version:
                raise
            yield None
            continue
        yield snapshot


def _search(id: str, name: ObjectName, snapshot: Snapshot) -> ObjectName | None:
    return next((found.name for found in snapshot.objects(name.kind) if found.id == id), None)
