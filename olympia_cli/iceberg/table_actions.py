"""Convert a change of an Iceberg table to actions of the catalog's log.

| Iceberg's update | action |
| --- | --- |
| columns added to the current schema | TABLE_ALTER_ADD_COLUMNS, with their names |
| columns removed from it | TABLE_ALTER_REMOVE_COLUMNS, with their names |
| a snapshot on the main branch that appends | TABLE_INSERT, with its data files |
| a snapshot that deletes | TABLE_DELETE, with the removed data files and the added delete files |
| a snapshot that overwrites or replaces | TABLE_UPDATE, with both |
| renamed columns | TABLE_ALTER, with both names |
| all others: properties, partitioning, sort order, branches | TABLE_ALTER |

An Iceberg commit with several of these has several actions, in this order.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from google.protobuf.message import Message
from pyiceberg.schema import Schema, index_name_by_id
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    SetCurrentSchemaUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
)

from olympia_cli.errors import OlympiaError
from olympia_cli.format.pb.actions_pb2 import (
    ActionType,
    AlterDef,
    RenamedColumn,
    TableAlterAddColumnsDef,
    TableAlterRemoveColumnsDef,
    TableDeleteDef,
    TableInsertDef,
    TableUpdateDef,
)
from olympia_cli.iceberg.changed_files import ChangedFiles, ReadFile, changed_files

T = ActionType
MAX_NAMED_FILES = 10_000
"""The maximum number of files in an action. Every reader of the version reads the root with its actions."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TableAction:
    """The type of an action on a table, and its payload in the format."""

    type: ActionType
    payload: bytes = b""


def actions_of(
    before: TableMetadata | None, after: TableMetadata, updates: Sequence[TableUpdate], read: ReadFile | None
) -> list[TableAction]:
    """Return the actions for `updates` of a table, or for the data of a table that is created.

    `read` opens manifests. Without it, no action names files.
    """
    snapshots = list(_snapshots_on_main(after, updates))
    actions = [] if before is None else list(_column_actions(before.schema(), after.schema()))
    renamed = [] if before is None else list(_renamed(before.schema(), after.schema()))
    schema_told = bool(actions or renamed)
    actions += [_data_action(snapshot, read) for snapshot in snapshots]
    told = {snapshot.snapshot_id for snapshot in snapshots}
    if before is not None and (
        renamed or not actions or any(not _is_told(update, told, schema_told, before, after) for update in updates)
    ):
        actions.append(_action(T.TABLE_ALTER, AlterDef(renamed_columns=renamed)))
    return actions


def _is_told(
    update: TableUpdate, snapshots: set[int], schema_told: bool, before: TableMetadata, after: TableMetadata
) -> bool:
    """Return True if the other actions cover the update, or if it changed nothing."""
    match update:
        case AddSnapshotUpdate():
            return update.snapshot.snapshot_id in snapshots
        case SetSnapshotRefUpdate():
            return update.snapshot_id in snapshots and update.ref_name == MAIN_BRANCH
        case AddSchemaUpdate() | SetCurrentSchemaUpdate():
            return schema_told or before.schema() == after.schema()
    return False


def _column_actions(before: Schema, after: Schema) -> Iterator[TableAction]:
    old, new = index_name_by_id(before), index_name_by_id(after)
    if added := _topmost([name for field, name in new.items() if field not in old]):
        yield _action(T.TABLE_ALTER_ADD_COLUMNS, TableAlterAddColumnsDef(column_names=added))
    if removed := _topmost([name for field, name in old.items() if field not in new]):
        yield _action(T.TABLE_ALTER_REMOVE_COLUMNS, TableAlterRemoveColumnsDef(column_names=removed))


def _renamed(before: Schema, after: Schema) -> Iterator[RenamedColumn]:
    """Yield the renamed columns, without the columns nested in them."""
    old, new = index_name_by_id(before), index_name_by_id(after)
    for field, name in old.items():
        if field in new and before.find_field(field).name != after.find_field(field).name:
            yield RenamedColumn(from_name=name, to_name=new[field])


def _topmost(names: list[str]) -> list[str]:
    """Return the names without columns that are nested in others of them."""
    return sorted(name for name in names if not any(name.startswith(f"{other}.") for other in names))


def _snapshots_on_main(after: TableMetadata, updates: Sequence[TableUpdate]) -> Iterator[Snapshot]:
    """Return the snapshots added to the main branch, in order."""
    added = {
        update.snapshot.snapshot_id: update.snapshot for update in updates if isinstance(update, AddSnapshotUpdate)
    }
    chain = []
    current = after.current_snapshot_id
    while current in added:
        chain.append(added.pop(current))
        current = chain[-1].parent_snapshot_id
    return reversed(chain)


def _data_action(snapshot: Snapshot, read: ReadFile | None) -> TableAction:
    files, unnamed = _files(snapshot, read)
    rest = AlterDef(unnamed_files=unnamed)
    match None if snapshot.summary is None else snapshot.summary.operation:
        case Operation.APPEND:
            return _action(T.TABLE_INSERT, TableInsertDef(iceberg_data_files_json=files.added), rest)
        case Operation.DELETE:
            deleted = [*files.removed, *files.added]
            return _action(T.TABLE_DELETE, TableDeleteDef(iceberg_data_files_json=deleted), rest)
    changed = TableUpdateDef(iceberg_added_data_files_json=files.added, iceberg_removed_data_files_json=files.removed)
    return _action(T.TABLE_UPDATE, changed, rest)


def _files(snapshot: Snapshot, read: ReadFile | None) -> tuple[ChangedFiles, int]:
    """Return the files to name, and the number of files that are not named.

    Unreadable manifests are not an error here: the log must not prevent a commit of the table.
    """
    if read is None:
        return ChangedFiles(), _summed(snapshot)
    try:
        found = changed_files(read, snapshot.manifest_list, snapshot.snapshot_id)
    except (OlympiaError, OSError, ValueError) as error:
        _log.warning("the log does not name the files of snapshot %s: %s", snapshot.snapshot_id, error)
        return ChangedFiles(), _summed(snapshot)
    count = len(found.added) + len(found.removed)
    return (found, 0) if count <= MAX_NAMED_FILES else (ChangedFiles(), count)


def _summed(snapshot: Snapshot) -> int:
    """Return the number of changed files according to the snapshot's summary."""
    if snapshot.summary is None:
        return 0
    names = ("added-data-files", "deleted-data-files", "added-delete-files", "removed-delete-files")
    texts = [str(snapshot.summary.get(name, "0")) for name in names]
    return sum(int(text) for text in texts if text.isascii() and text.isdigit())


def _action(type: ActionType, *parts: Message) -> TableAction:
    # our fields have other numbers than the format's payloads, so one message can hold both
    return TableAction(type, b"".join(part.SerializeToString() for part in parts))
