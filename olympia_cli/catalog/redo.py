"""Doing an action on a draft: when it is first asked for, when it is rebased, and when a log is replayed.

An action says all that is needed to do it again on a newer version: which properties and fields it changes, and
their values in the definition that it carries.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TypeVar, cast

from google.protobuf.message import Message

from olympia_cli.catalog.draft import Draft
from olympia_cli.catalog.protection import keep_protection
from olympia_cli.catalog.quarantine import (
    Mark,
    purged_before,
    read_quarantine,
    write_purging,
    write_quarantine,
)
from olympia_cli.catalog.snapshot import (
    EXPIRE_OLDEST,
    EXPIRE_PURGED,
    EXPORT_PREFIX,
    ObjectDefinition,
    Snapshot,
    expired_before,
    namespace_not_found,
)
from olympia_cli.catalog.versions import read_root
from olympia_cli.errors import (
    Damaged,
    InvalidOption,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    OlympiaError,
    TableExists,
    TableNotFound,
    Unsupported,
    VersionNotFound,
    ViewExists,
    ViewNotFound,
)
from olympia_cli.format.action_types import ALTERS, CREATES, DROPS, EXPIRES, READS, RENAMES, RESTORES, renamed
from olympia_cli.format.actions import Action, definition_bytes
from olympia_cli.format.pb.actions_pb2 import (
    ActionType,
    AlterDef,
    CompactDef,
    ExpireDef,
    ExportDef,
    NamespaceSetPropertiesDef,
    NamespaceUnsetPropertiesDef,
    RestoreDef,
    RollbackDef,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef, NamespaceDef, TableDef, ViewDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName
from olympia_cli.tree.bulk import bulk_load
from olympia_cli.tree.diff import diff
from olympia_cli.tree.scan import scan

T = ActionType
D = TypeVar("D", CatalogDef, NamespaceDef, TableDef, ViewDef)

NO_LONGER_FITS = (
    NamespaceNotFound,
    TableNotFound,
    ViewNotFound,
    NamespaceExists,
    TableExists,
    ViewExists,
    NamespaceNotEmpty,
    InvalidOption,
)
"""What an action raises when it does not fit the state that it meets; anything else is about files, not about it."""

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
        return _roll_back(action, draft)
    if action.type in EXPIRES:
        return _expire(action, draft)
    if action.type == T.CATALOG_EXPORT:
        return _export(action, draft)
    if action.type == T.CATALOG_COMPACT:
        return _compact(action, draft)
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
    for name in change.fields:
        if name in now.DESCRIPTOR.fields_by_name:
            _copy_field(name, wanted, now)
    return now


def _copy_field(name: str, source: Message, target: Message) -> None:
    """Make one field equal, and leave all others alone, those included that this program does not know."""
    field = source.DESCRIPTOR.fields_by_name[name]
    target.ClearField(name)
    value = getattr(source, name)
    if field.is_repeated:
        getattr(target, name).MergeFrom(value)
    elif field.message_type is None:
        setattr(target, name, value)
    elif source.HasField(name):
        getattr(target, name).CopyFrom(value)


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
    action = _reapply(action, now)
    wanted = action.parse_definition()
    if wanted is None:
        raise Unsupported(f"the action {action.type_name} of {name} carries no definition")
    changed: ObjectDefinition = merge(now, cast(NamespaceDef, wanted), action)  # type: ignore[type-var]
    draft.put(name, changed)
    return replace(action, definition=definition_bytes(changed))


def _reapply(action: Action, now: ObjectDefinition) -> Action:
    """Make a change of data again on what the table is now, when that is not what it was made on."""
    if action.reapply is None or not isinstance(now, TableDef):
        return action
    present = now.iceberg_metadata_location
    if present == action.reapply.staged_on:
        return action
    wanted = TableDef.FromString(action.definition)
    wanted.iceberg_metadata_location = action.reapply.do(present)
    wanted.iceberg_previous_metadata_location = present
    return replace(action, definition=definition_bytes(wanted), reapply=replace(action.reapply, staged_on=present))


def _roll_back(action: Action, draft: Draft) -> Action:
    target = action.parse_payload(RollbackDef).to_version
    if target == draft.base.version:
        raise InvalidOption(f"version {target} is the latest already", hint="name an older version")
    if target > draft.base.version:
        raise VersionNotFound(f"version {target} does not exist: the latest is {draft.base.version}", hint="")
    _check_kept(target, draft)
    snapshot = Snapshot(draft.base.store, read_root(draft.base.store, target), draft.base)
    _check_revived(draft.base, snapshot)
    today = draft.catalog
    draft.take_tree(snapshot)
    # exports stay recorded and what expire decided stays decided
    draft.put_catalog(keep_protection(snapshot.definition, today))
    payload = RollbackDef(from_version=draft.base.version, to_version=target)
    return replace(action, payload=payload.SerializeToString())


def _check_revived(base: Snapshot, target: Snapshot) -> None:
    """Read all that the older version reaches and the newer one does not: none of it may be missing or damaged.

    Where the newer one is damaged itself, which is what a rollback is for, all that the older one reaches is read.
    """
    try:
        changes = list(diff(base.reader, base.root.node, target.reader, target.root.node))
        entries = [(target.keys.decode(one.key, target.file.path), one.new) for one in changes if one.new is not None]
    except Damaged:
        kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
        entries = [entry for kind in kinds for entry in target.scan(kind)]
    for _ in target.read_objects((name, path) for name, path in entries if path is not None):
        pass


def _expire(action: Action, draft: Draft) -> Action:
    """What counts as the oldest version is a property of the catalog; the files are expire's own business.

    The conditions are those of the version that is committed on: another expire may have been there first.
    """
    change = action.parse_payload(ExpireDef)
    catalog = draft.catalog
    # before the first expire only the plan knows where the catalog begins: it may be an export of a later version
    oldest = expired_before(catalog) if EXPIRE_OLDEST in catalog.properties else change.former_oldest
    purged = purged_before(catalog)
    marks = read_quarantine(catalog)
    if action.type == T.CATALOG_EXPIRE_PURGE:
        resting = {mark.manifest for mark in marks}
        if change.purged > oldest or not resting.issuperset(change.manifests):
            raise InvalidOption("what was to be purged is no longer in quarantine", hint="look at the log")
        catalog.properties[EXPIRE_PURGED] = str(max(change.purged, purged))
        marks = [mark for mark in marks if mark.manifest not in change.manifests]
        write_purging(catalog, [*change.manifests, *change.unfinished])
    elif action.type == T.CATALOG_EXPIRE_MARK:
        if change.former_oldest != oldest or not oldest <= change.oldest <= draft.base.version + 1:
            raise InvalidOption(f"the oldest version is {oldest} by now", hint="look at the log")
        catalog.properties[EXPIRE_OLDEST] = str(change.oldest)
        if change.manifest:
            marks = [*marks, Mark(draft.base.version + 1, change.oldest, oldest, change.manifest)]
    else:
        if change.oldest < purged:
            raise InvalidOption(f"versions below {purged} are purged already", hint="look at the log")
        change.former_oldest = oldest
        catalog.properties[EXPIRE_OLDEST] = str(change.oldest)
        marks = [mark for mark in marks if mark.former_oldest < change.oldest]
    write_quarantine(catalog, marks)
    draft.put_catalog(catalog)
    return replace(action, payload=change.SerializeToString())


def _export(action: Action, draft: Draft) -> Action:
    change = action.parse_payload(ExportDef)
    catalog = draft.catalog
    key = EXPORT_PREFIX + change.name
    if change.dropped:
        catalog.exported_snapshots.pop(change.name, None)
        catalog.properties.pop(key, None)
    else:
        _check_kept(change.version, draft)
        record: dict[str, object] = {
            "version": change.version,
            "mode": change.mode,
            "expires_at": change.expires_at_millis or None,
        }
        if change.pin:
            record["pin"] = change.pin
        catalog.exported_snapshots[change.name] = change.location
        catalog.properties[key] = json.dumps(record, separators=(",", ":"))
    draft.put_catalog(catalog)
    return action


def _compact(action: Action, draft: Draft) -> Action:
    """Build the tree anew with the same content, filled as the payload says."""
    percent = action.parse_payload(CompactDef).fill_percent or 100
    tree = draft.tree
    draft.node = bulk_load(scan(tree.reader, draft.node), tree.sizes.order, lambda node: node, percent / 100)
    return action


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
