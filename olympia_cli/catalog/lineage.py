"""Following an object by its id, through renames."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import Damaged, PathMissing, VersionNotFound
from olympia_cli.format.action_types import CREATES, DROPS, RENAMES, RESTORES, renamed
from olympia_cli.format.actions import Action
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, RollbackDef
from olympia_cli.names import NamespaceName, ObjectName, TableName, ViewName


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
        targets = [
            action.parse_payload(RollbackDef).to_version
            for action in actions
            if action.type == ActionType.CATALOG_ROLLBACK
        ]
        silent = not actions or any(action.type == ActionType.CATALOG_REPAIR for action in actions)
        if silent or unknown or (targets and targets[-1] not in names):
            current, unknown = _search(id, name, snapshot), False
        elif targets:
            current = names[targets[-1]]
        else:
            current = follow(id, current, actions)
        names[snapshot.version] = current
    return follow(id, current, staged)


def follow(id: str, name: ObjectName | None, actions: Iterable[Action]) -> ObjectName | None:
    """The object's name after the actions; None while it does not exist."""
    for action in actions:
        if action.type in CREATES | RESTORES and action.id == id:
            name = action.name
        elif name is None:
            continue
        elif action.type in DROPS and action.name == name:
            name = None
        elif action.type in RENAMES:
            name = _renamed(name, action)
    return name


def _renamed(name: ObjectName, action: Action) -> ObjectName:
    new = renamed(action)
    if action.name == name:
        return new
    if isinstance(action.name, NamespaceName) and action.name.namespace == name.namespace:
        if isinstance(name, TableName):
            return TableName(new.namespace, name.name)
        if isinstance(name, ViewName):
            return ViewName(new.namespace, name.name)
    return name


def _since(version: int, base: Snapshot) -> Iterable[Snapshot | None]:
    """The versions after one, up to the base; None stands for one that cannot be read."""
    store, width = base.store, base.file.width
    versions = range(version + 1, base.version + 1)
    for number, (path, data) in zip(
        versions, store.read_many(root_path(number, width) for number in versions), strict=True
    ):
        if isinstance(data, PathMissing):
            raise VersionNotFound(f"version {number} is gone: {path} is missing", hint="")
        if isinstance(data, Exception):
            raise data
        try:
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
