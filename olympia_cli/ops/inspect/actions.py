"""Actions as plain values, for JSON and for tables. Locations are masked, as in `describe`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from olympia_cli.format.actions import ALTERS, RENAMES, RESTORES, Action, changes, new_name
from olympia_cli.format.pb.actions_pb2 import (
    ActionType,
    AlterDef,
    ExpireDef,
    ExportDef,
    NamespaceDropDef,
    NamespaceSetPropertiesDef,
    NamespaceUnsetPropertiesDef,
    RepairDef,
    RestoreDef,
    RollbackDef,
    TableAlterAddColumnsDef,
    TableAlterRemoveColumnsDef,
    TableDeleteDef,
    TableInsertDef,
    TableUpdateDef,
)
from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.masking import masked
from olympia_cli.ops.inspect.describe import describe_name

T = ActionType


def describe_action(action: Action) -> dict[str, Any]:
    return {"type": action.type_name, **describe_name(action.name), "detail": action_detail(action)}


def describe_actions(actions: Iterable[Action]) -> list[dict[str, Any]]:
    """Describe the actions of a version, without the action that records the commit's author."""
    return [describe_action(action) for action in changes(actions)]


def action_detail(action: Action) -> dict[str, Any]:
    """Return the details of an action, besides its type and object."""
    detail: dict[str, Any] = {}
    definition = action.parse_definition()
    if definition is not None and definition.id:
        detail["id"] = definition.id
    if action.type == T.NAMESPACE_ALTER_SET_PROPERTIES:
        detail["set"] = list(action.parse_payload(NamespaceSetPropertiesDef).keys)
    elif action.type == T.NAMESPACE_ALTER_UNSET_PROPERTIES:
        detail["unset"] = list(action.parse_payload(NamespaceUnsetPropertiesDef).keys)
    elif action.type in ALTERS or action.type == T.CATALOG_ALTER:
        change = action.parse_payload(AlterDef)
        for key, values in (
            ("set", change.set_properties),
            ("unset", change.unset_properties),
            ("fields", change.fields),
        ):
            if values:
                detail[key] = list(values)
        if change.renamed_columns:
            detail["renamed_columns"] = [
                {"from": rename.from_name, "to": rename.to_name} for rename in change.renamed_columns
            ]
        detail |= _table_detail(action, change.unnamed_files)
    elif action.type in RENAMES:
        new = new_name(action)
        detail["to"] = {"namespace": new.namespace, "name": new.name or new.namespace}
    elif action.type in RESTORES:
        restore = action.parse_payload(RestoreDef)
        detail |= {"from_version": restore.from_version, "replaces": restore.replaces}
    elif action.type == T.NAMESPACE_DROP:
        detail["cascade"] = action.parse_payload(NamespaceDropDef).cascade
    elif action.type == T.CATALOG_ROLLBACK:
        rollback = action.parse_payload(RollbackDef)
        detail |= {"from_version": rollback.from_version, "to_version": rollback.to_version}
    elif action.type == T.CATALOG_EXPORT:
        export = action.parse_payload(ExportDef)
        detail |= {"export": export.name, "location": masked(export.location), "at_version": export.version}
        detail |= {"mode": export.mode or None, "dropped": export.dropped}
    elif action.type in (T.CATALOG_EXPIRE_MARK, T.CATALOG_EXPIRE_UNDO, T.CATALOG_EXPIRE_PURGE):
        expire = action.parse_payload(ExpireDef)
        if action.type == T.CATALOG_EXPIRE_PURGE:
            detail |= {"oldest": expire.oldest, "purged": expire.purged}
        else:
            detail |= {"oldest": expire.oldest, "former_oldest": expire.former_oldest}
    elif action.type == T.CATALOG_REPAIR:
        repair = action.parse_payload(RepairDef)
        detail |= {"description": repair.description, "lost_keys": len(repair.lost_keys)}
        if repair.source:
            known = repair.HasField("source_version")
            detail |= {"source": repair.source, "source_version": repair.source_version if known else None}
        detail |= {"named_latest": repair.named_latest} if repair.named_latest else {}
    if isinstance(definition, TableDef | ViewDef) and definition.iceberg_metadata_location:
        detail["metadata_location"] = masked(definition.iceberg_metadata_location)
    return detail


def _table_detail(action: Action, unnamed: int) -> dict[str, Any]:
    """Return the columns or the numbers of files that a change of a table names."""
    if action.type == T.TABLE_ALTER_ADD_COLUMNS:
        return {"added_columns": list(action.parse_payload(TableAlterAddColumnsDef).column_names)}
    if action.type == T.TABLE_ALTER_REMOVE_COLUMNS:
        return {"removed_columns": list(action.parse_payload(TableAlterRemoveColumnsDef).column_names)}
    files: dict[str, int] = {}
    if action.type == T.TABLE_INSERT:
        files["added_files"] = len(action.parse_payload(TableInsertDef).iceberg_data_files_json)
    elif action.type == T.TABLE_DELETE:
        files["deleted_files"] = len(action.parse_payload(TableDeleteDef).iceberg_data_files_json)
    elif action.type == T.TABLE_UPDATE:
        update = action.parse_payload(TableUpdateDef)
        files["added_files"] = len(update.iceberg_added_data_files_json)
        files["removed_files"] = len(update.iceberg_removed_data_files_json)
    return {**files, "unnamed_files": unnamed} if unnamed else files
