"""Stage an action on a draft, for a transaction's own changes and for a rebase on a newer version.

An action holds all that is needed to apply it again: the changed properties and fields, and their values in its
definition. This module merges the action with the draft. `replay.py` defines its effect.
"""

from __future__ import annotations

from dataclasses import replace
from typing import cast

from olympia_cli.catalog.draft import Draft
from olympia_cli.catalog.replay import alter_of, catalog_after, check_kept, merge, oldest_before, replay
from olympia_cli.catalog.snapshot import ObjectDefinition, Snapshot, namespace_for_new, not_found
from olympia_cli.catalog.versions import read_root
from olympia_cli.errors import (
    CommitConflict,
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
    command_words,
)
from olympia_cli.format import definitions
from olympia_cli.format.action_types import ALTERS, CREATES, DROPS, EXPIRES, READS, RENAMES, RESTORES, renamed
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType, AlterDef, CompactDef, ExpireDef, RestoreDef, RollbackDef
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import Kind, NamespaceName, ObjectName
from olympia_cli.tree.bulk import bulk_load
from olympia_cli.tree.scan import scan

T = ActionType

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
"""The errors of an action that does not fit the current state. Other errors are about files."""

_NO_CHANGE = READS | {T.COMMIT_INFO, T.CATALOG_CREATE}
_CATALOG_CHANGES = EXPIRES | {T.CATALOG_ALTER, T.CATALOG_EXPORT}
# cached, as in `transaction.py`
_COMPACT, _ROLLBACK = T.CATALOG_COMPACT, T.CATALOG_ROLLBACK


def stage(action: Action, draft: Draft, *, is_merged: bool = False) -> Action:
    """Apply the action to the draft. Return the action with the definition that results.

    `is_merged` means that an alter's definition was made from the draft's current one. Raise the usual errors for
    objects that are missing, exist already, or are not empty.
    """
    if action.type in _NO_CHANGE or action.merged:
        return action
    if action.type == _COMPACT:
        return _compact(action, draft)
    if action.type == _ROLLBACK:
        return _roll_back(action, draft)
    if action.type in _CATALOG_CHANGES:
        return _change_catalog(action, draft, is_merged)
    if action.name is not None:
        action = action if is_merged else _fit(action, action.name, draft)
        if replay(action, draft):
            return action
    raise Unsupported(f"an action of type {action.type_name} cannot be applied again")


def _fit(action: Action, name: ObjectName, draft: Draft) -> Action:
    """Check that the action fits the draft. Merge an alter with the current definition."""
    if action.type in ALTERS:
        return _merge(action, name, draft)
    if action.type in CREATES or action.type in RESTORES:
        is_there = _check_create(action, name, draft)
        if action.type in RESTORES:
            payload = action.parse_payload(RestoreDef)
            payload.replaces = is_there
            return replace(action, payload=payload.SerializeToString())
    elif action.type in DROPS:
        _need(name, draft)
        if isinstance(name, NamespaceName) and not draft.is_empty(name.namespace):
            raise not_empty(name)
    elif action.type in RENAMES:
        _check_rename(name, renamed(action), draft)
    return action


def _check_create(action: Action, name: ObjectName, draft: Draft) -> bool:
    """Raise what a person would expect; the result is whether the object is there, which a restore may replace."""
    if not isinstance(name, NamespaceName):
        _need_namespace(name.namespace, draft)
    definition = _carried(action)
    present = draft.get(name)
    if action.type in RESTORES:
        check_kept(action.parse_payload(RestoreDef).from_version, draft.catalog)
    if present is not None and (action.type in CREATES or present.id != definition.id):
        raise exists(name)
    return present is not None


def _check_rename(name: ObjectName, new: ObjectName, draft: Draft) -> None:
    if new == name:
        raise InvalidOption(f"{name} has that name already", hint="choose another name")
    _need(name, draft)
    if not isinstance(new, NamespaceName):
        _need_namespace(new.namespace, draft)
    if draft.find(new):
        raise exists(new)


def _merge(action: Action, name: ObjectName, draft: Draft) -> Action:
    now = draft.get(name)
    if now is None:
        raise not_found(name, draft.base.version)
    wanted = _carried(action)
    check_location(name, now, alter_of(action))
    again = action.reapply
    if again is not None and isinstance(now, TableDef) and isinstance(wanted, TableDef):
        present = now.iceberg_metadata_location
        if present != again.staged_on:
            # repeat a change of data on the table's current metadata
            wanted.iceberg_metadata_location = again.do(present)
            wanted.iceberg_previous_metadata_location = present
            again = replace(again, staged_on=present)
    merged: ObjectDefinition = merge(now, wanted, action)  # type: ignore[type-var]
    return replace(action, definition=definitions.body(merged), reapply=again)


def check_location(name: ObjectName, now: ObjectDefinition, change: AlterDef) -> None:
    """Raise CommitConflict if a table's metadata location is not the expected one."""
    expected = change.expected_metadata_location
    if not isinstance(now, TableDef) or not change.HasField("expected_metadata_location"):
        return
    if now.iceberg_metadata_location != expected:
        raise CommitConflict(f"the metadata of table {name} is at {now.iceberg_metadata_location}, not at {expected}")


def _carried(action: Action) -> ObjectDefinition:
    definition = action.parse_definition()
    if definition is None:
        raise Unsupported(f"the action {action.type_name} of {action.name} carries no definition")
    return cast(ObjectDefinition, definition)


def _change_catalog(action: Action, draft: Draft, is_merged: bool) -> Action:
    version = draft.base.version + 1
    if action.type == T.CATALOG_ALTER:
        if not is_merged:
            merged = merge(draft.catalog, catalog_after(None, action, version), action)
            action = replace(action, definition=definitions.body(merged))
        draft.put_catalog(action.definition)
        return action
    catalog = draft.catalog
    if action.type == T.CATALOG_EXPIRE_UNDO:
        change = action.parse_payload(ExpireDef)
        change.former_oldest = oldest_before(catalog, change)
        action = replace(action, payload=change.SerializeToString())
    draft.put_catalog(definitions.body(catalog_after(catalog, action, version)))
    return action


def _roll_back(action: Action, draft: Draft) -> Action:
    target = action.parse_payload(RollbackDef).to_version
    if target == draft.base.version:
        raise InvalidOption(f"version {target} is the latest already", hint="name an older version")
    if target > draft.base.version:
        raise VersionNotFound(f"version {target} does not exist: the latest is {draft.base.version}", hint="")
    check_kept(target, draft.catalog)
    # without shared caches: a cached file may no longer exist
    snapshot = Snapshot(draft.base.store, read_root(draft.base.store, target))
    _check_revived(draft.base, snapshot)
    catalog = catalog_after(draft.catalog, action, draft.base.version + 1, lambda version: snapshot.definition)
    draft.take_tree(snapshot)
    draft.put_catalog(definitions.body(catalog))
    payload = RollbackDef(from_version=draft.base.version, to_version=target)
    return replace(action, payload=payload.SerializeToString())


def _check_revived(base: Snapshot, target: Snapshot) -> None:
    """Read all definitions that only the older version reaches, to check that none is missing or damaged.

    If the newer version is damaged, which a rollback repairs, read all definitions of the older one.
    """
    # imported here, because only a rollback needs it
    from olympia_cli.tree.diff import diff

    try:
        changes = list(diff(base.reader, base.root.node, target.reader, target.root.node))
        revived = ((change.key, change.new) for change in changes if change.new is not None)
        entries = [(target.keys.decode(key, target.file.path), path) for key, path in revived]
    except Damaged:
        kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
        entries = [entry for kind in kinds for entry in target.scan(kind)]
    for _ in target.read_objects(entries):
        pass


def _compact(action: Action, draft: Draft) -> Action:
    """Rebuild the tree with the same content and the fill factor in the payload."""
    percent = action.parse_payload(CompactDef).fill_percent or 100
    tree = draft.tree
    draft.node = bulk_load(scan(tree.reader, draft.node), tree.sizes.order, lambda node: node, percent / 100)
    return action


def _need(name: ObjectName, draft: Draft) -> None:
    if not draft.find(name):
        raise not_found(name, draft.base.version)


def _need_namespace(namespace: str, draft: Draft) -> None:
    with namespace_for_new():
        _need(NamespaceName(namespace), draft)


def not_empty(name: NamespaceName) -> NamespaceNotEmpty:
    words = command_words("ns", "drop", "--cascade", names=[name.namespace])
    return NamespaceNotEmpty(f"the namespace {name} is not empty", command=words)


def exists(name: ObjectName) -> OlympiaError:
    error = {Kind.NAMESPACE: NamespaceExists, Kind.TABLE: TableExists, Kind.VIEW: ViewExists}[name.kind]
    return error(f"the {name.kind.word} {name} exists already", hint="choose another name, or alter what is there")
