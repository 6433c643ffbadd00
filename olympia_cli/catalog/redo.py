"""Doing an action on a draft: when it is first asked for, when it is rebased, and when a log is replayed.

An action says all that is needed to do it again on a newer version: which properties and fields it changes, and
their values in the definition that it carries.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar, cast

from olympia_cli.catalog.draft import Draft
from olympia_cli.catalog.snapshot import ObjectDefinition, Snapshot, expired_before, namespace_not_found
from olympia_cli.catalog.versions import read_root
from olympia_cli.errors import (
    InvalidOption,
    NamespaceExists,
    NamespaceNotEmpty,
    OlympiaError,
    TableExists,
    TableNotFound,
    Unsupported,
    VersionNotFound,
    ViewExists,
    ViewNotFound,
)
from olympia_cli.format.actions import Action, definition_bytes
from olympia_cli.format.pb.actions_pb2 import (
    ActionType,
    AlterDef,
    NamespaceSetPropertiesDef,
    NamespaceUnsetPropertiesDef,
    RenameDef,
    RestoreDef,
    RollbackDef,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef, NamespaceDef, TableDef, ViewDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName

T = ActionType
D = TypeVar("D", CatalogDef, NamespaceDef, TableDef, ViewDef)

READS = frozenset(
    {
        T.CATALOG_SNOW_NAMESPACES,
        T.NAMESPACE_EXISTS,
        T.NAMESPACE_DESCRIBE,
        T.NAMESPACE_SHOW_TABLES,
        T.NAMESPACE_SHOW_VIEWS,
        T.TABLE_EXISTS,
        T.TABLE_DESCRIBE,
        T.TABLE_SELECT,
        T.VIEW_EXISTS,
        T.VIEW_DESCRIBE,
    }
)
CREATES = frozenset({T.NAMESPACE_CREATE, T.TABLE_CREATE, T.VIEW_CREATE})
RESTORES = frozenset({T.NAMESPACE_RESTORE, T.TABLE_RESTORE, T.VIEW_RESTORE})
DROPS = frozenset({T.NAMESPACE_DROP, T.TABLE_DROP, T.VIEW_DROP})
RENAMES = frozenset({T.NAMESPACE_RENAME, T.TABLE_RENAME, T.VIEW_RENAME})
ALTERS = frozenset(
    {
        T.NAMESPACE_ALTER,
        T.NAMESPACE_ALTER_SET_PROPERTIES,
        T.NAMESPACE_ALTER_UNSET_PROPERTIES,
        T.TABLE_ALTER,
        T.TABLE_ALTER_ADD_COLUMNS,
        T.TABLE_ALTER_REMOVE_COLUMNS,
        T.TABLE_INSERT,
        T.TABLE_UPDATE,
        T.TABLE_DELETE,
        T.VIEW_ALTER,
        T.VIEW_REPLACE,
    }
)
EXPIRES = frozenset({T.CATALOG_EXPIRE_MARK, T.CATALOG_EXPIRE_UNDO, T.CATALOG_EXPIRE_PURGE})
_NO_CHANGE = READS | {T.COMMIT_INFO, T.CATALOG_CREATE}


def redo(action: Action, draft: Draft) -> Action:
    """Do the action on the draft; the action as it then reads, its definition being the one that it now leaves.

    Raises what a person would expect: not found, exists already, not empty.
    """
    if action.type in _NO_CHANGE:
        return action
    if action.type == T.CATALOG_ALTER:
        catalog = merge(draft.catalog, CatalogDef.FromString(action.definition), action)
        draft.put_catalog(catalog)
        return replace(action, definition=definition_bytes(catalog))
    if action.type == T.CATALOG_ROLLBACK:
        _roll_back(action, draft)
        return action
    if action.name is None:
        raise Unsupported(f"an action of type {action.type_name} cannot be done again")
    if action.type in CREATES or action.type in RESTORES:
        return _create(action, action.name, draft)
    if action.type in DROPS:
        return _drop(action, action.name, draft)
    if action.type in RENAMES:
        return _rename(action, action.name, draft)
    if action.type in ALTERS:
        return _alter(action, action.name, draft)
    raise Unsupported(f"an action of type {action.type_name} cannot be done again")


def merge(now: D, wanted: D, action: Action) -> D:
    """The definition as it is now, with what the action changes taken from the one that it carries."""
    if action.type in (T.NAMESPACE_ALTER_SET_PROPERTIES, T.NAMESPACE_ALTER_UNSET_PROPERTIES):
        if action.type == T.NAMESPACE_ALTER_SET_PROPERTIES:
            for key in action.parse_payload(NamespaceSetPropertiesDef).keys:
                now.properties[key] = wanted.properties[key]
        else:
            for key in action.parse_payload(NamespaceUnsetPropertiesDef).keys:
                now.properties.pop(key, None)
        return now
    change = action.parse_payload(AlterDef)
    if not (change.set_properties or change.unset_properties or change.fields):
        return wanted
    for key in change.set_properties:
        now.properties[key] = wanted.properties[key]
    for key in change.unset_properties:
        now.properties.pop(key, None)
    fields = [field for field in change.fields if field in now.DESCRIPTOR.fields_by_name]
    taken = type(now)()
    taken.CopyFrom(wanted)
    for field, _ in wanted.ListFields():
        if field.name not in fields:
            taken.ClearField(field.name)
    for name in fields:
        now.ClearField(name)
    now.MergeFrom(taken)
    return now


def renamed(action: Action) -> ObjectName:
    """The name that a rename gives its object."""
    new = action.parse_payload(RenameDef)
    if action.kind is Kind.NAMESPACE:
        return NamespaceName(new.new_namespace_name)
    if action.kind is Kind.TABLE:
        return TableName(new.new_namespace_name, new.new_name)
    return ViewName(new.new_namespace_name, new.new_name)


def _create(action: Action, name: ObjectName, draft: Draft) -> Action:
    if not isinstance(name, NamespaceName):
        _need_namespace(name.namespace, draft)
    definition = action.parse_definition()
    if definition is None:
        raise Unsupported(f"the action {action.type_name} of {name} carries no definition")
    present = draft.get(name)
    if action.type in RESTORES:
        _check_kept(action.parse_payload(RestoreDef).from_version, draft)
    if present is not None and (action.type in CREATES or present.id != definition.id):
        raise exists(name)
    draft.put(name, cast(ObjectDefinition, definition))
    return action


def _drop(action: Action, name: ObjectName, draft: Draft) -> Action:
    _need(name, draft)
    if isinstance(name, NamespaceName) and not draft.is_empty(name.namespace):
        raise NamespaceNotEmpty(f"the namespace {name} is not empty")
    draft.delete(name)
    return action


def _rename(action: Action, name: ObjectName, draft: Draft) -> Action:
    new = renamed(action)
    if new == name:
        raise InvalidOption(f"{name} has that name already", hint="choose another name")
    _need(name, draft)
    if isinstance(new, NamespaceName):
        if draft.find(new):
            raise exists(new)
        draft.move_namespace(name.namespace, new.namespace)
        return action
    _need_namespace(new.namespace, draft)
    if draft.find(new):
        raise exists(new)
    draft.move(name, new)
    return action


def _alter(action: Action, name: ObjectName, draft: Draft) -> Action:
    now = draft.get(name)
    if now is None:
        raise not_found(name, draft)
    wanted = action.parse_definition()
    if wanted is None:
        raise Unsupported(f"the action {action.type_name} of {name} carries no definition")
    changed: ObjectDefinition = merge(now, cast(NamespaceDef, wanted), action)  # type: ignore[type-var]
    draft.put(name, changed)
    return replace(action, definition=definition_bytes(changed))


def _roll_back(action: Action, draft: Draft) -> None:
    target = action.parse_payload(RollbackDef).to_version
    _check_kept(target, draft)
    snapshot = Snapshot(draft.base.store, read_root(draft.base.store, target))
    today = draft.catalog
    draft.take_tree(snapshot)
    definition = CatalogDef.FromString(snapshot.definition.SerializeToString())
    # exports stay recorded and what expire decided stays decided: a rollback must not take protection away
    definition.ClearField("exported_snapshots")
    definition.exported_snapshots.update(today.exported_snapshots)
    kept = ("olympia.export.", "olympia.expire.")
    for key in [key for key in definition.properties if key.startswith(kept)]:
        del definition.properties[key]
    definition.properties.update({key: value for key, value in today.properties.items() if key.startswith(kept)})
    draft.put_catalog(definition)


def _check_kept(version: int, draft: Draft) -> None:
    """Refuse to revive what an expire has taken out of history: its files may be gone at any moment."""
    oldest = expired_before(draft.catalog)
    if version < oldest:
        raise VersionNotFound(f"version {version} does not exist any more: the oldest is {oldest}", hint="")


def _need(name: ObjectName, draft: Draft) -> None:
    if not draft.find(name):
        raise not_found(name, draft)


def _need_namespace(namespace: str, draft: Draft) -> None:
    if not draft.find(NamespaceName(namespace)):
        raise namespace_not_found(namespace, draft.base.version)


def not_found(name: ObjectName, draft: Draft) -> OlympiaError:
    if isinstance(name, NamespaceName):
        return namespace_not_found(name.namespace, draft.base.version)
    error = TableNotFound if isinstance(name, TableName) else ViewNotFound
    return error(
        f"there is no {name.kind.word} {name} in version {draft.base.version}",
        hint=f"list the {name.kind.word}s to see what there is",
    )


def exists(name: ObjectName) -> OlympiaError:
    error = {Kind.NAMESPACE: NamespaceExists, Kind.TABLE: TableExists, Kind.VIEW: ViewExists}[name.kind]
    return error(f"the {name.kind.word} {name} exists already", hint="choose another name, or alter what is there")
