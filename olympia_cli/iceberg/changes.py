"""Changes of Iceberg tables in one commit of the catalog, and the actions that the catalog's log keeps of them."""

from __future__ import annotations

import contextlib
import logging
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from copy import copy
from dataclasses import dataclass, replace
from gzip import BadGzipFile
from io import BytesIO
from itertools import islice
from typing import Any, TypeVar

from google.protobuf.message import Message
from pyiceberg.exceptions import (
    CommitStateUnknownException,
    NoSuchTableError,
    TableAlreadyExistsError,
    ValidationError,
)
from pyiceberg.schema import Schema, index_name_by_id
from pyiceberg.serializers import Compressor, FromByteStream
from pyiceberg.table.locations import load_location_provider
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.refs import MAIN_BRANCH
from pyiceberg.table.snapshots import Operation, Snapshot
from pyiceberg.table.update import (
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AssertCreate,
    SetCurrentSchemaUpdate,
    SetSnapshotRefUpdate,
    TableRequirement,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import Properties

from olympia_cli.catalog.commit import Author, Committed, FileWriter, commit
from olympia_cli.catalog.distributed import DistributedTransaction
from olympia_cli.catalog.snapshot import Snapshot as CatalogSnapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import (
    CommitUnknown,
    Damaged,
    InvalidName,
    OlympiaError,
    OutcomeUnknown,
)
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
from olympia_cli.iceberg.conversion import dotted
from olympia_cli.iceberg.files import Delete, MetadataFiles, NewFile, NewFiles
from olympia_cli.iceberg.format_v3 import V3, check_known, to_json, upgraded, with_row_ids
from olympia_cli.iceberg.internals import empty_metadata, metadata_number
from olympia_cli.iceberg.locations import (
    ANYWHERE,
    FOLDER_PROPERTIES,
    Location,
    Reach,
    barred_folders,
    folders_of,
)
from olympia_cli.iceberg.manifests import ChangedFiles, ReadFile, changed_files
from olympia_cli.iceberg.settings import without_code
from olympia_cli.names import TableName, ViewName
from olympia_cli.ops.verify_metadata import parse_metadata, unpacked

# Convert a change of an Iceberg table to actions of the catalog's log.
#
# | Iceberg's update | action |
# | --- | --- |
# | columns added to the current schema | TABLE_ALTER_ADD_COLUMNS, with their names |
# | columns removed from it | TABLE_ALTER_REMOVE_COLUMNS, with their names |
# | a snapshot on the main branch that appends | TABLE_INSERT, with its data files |
# | a snapshot that deletes | TABLE_DELETE, with the removed data files and the added delete files |
# | a snapshot that overwrites or replaces | TABLE_UPDATE, with both |
# | renamed columns | TABLE_ALTER, with both names |
# | all others: properties, partitioning, sort order, branches | TABLE_ALTER |
#
# An Iceberg commit with several of these has several actions, in this order.

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


# Changes of Iceberg tables in one commit of the catalog.
#
# `TableChanges` stages them in a transaction and writes nothing. `commit` writes in an order in which a definition
# always names the metadata files first:
#
# 1. The definitions, which name the new metadata files, and the nodes. No reader sees them yet.
# 2. The metadata files.
# 3. The root, created exclusively: THE COMMIT.
#
# If the commit fails, the files of step 2 are deleted, each with the handle that its creation returned. The error names
# files that cannot be deleted, and those that may exist although the store reported a failure. If the outcome of the
# commit is unknown, all files stay, and the error names them. After a crash, the definitions of step 1 name them: fsck
# lists definitions that no version reaches.

Fit = Callable[[TableMetadata | None, Sequence[TableUpdate]], Sequence[TableUpdate]]
"""Adapts updates to the current state of a table (None: a table to be created)."""

R = TypeVar("R")
_WORKERS, _AT_ONCE = 16, 1024
_KEPT = 64


@dataclass(frozen=True, slots=True)
class TableState:
    """A table's metadata, and its current or future location."""

    metadata: TableMetadata
    location: str


@dataclass(frozen=True, slots=True)
class PlannedUpdate:
    """An update of a table, made from its state `before` (None: a table to be created). Nothing is staged yet."""

    name: TableName
    before: TableState | None
    after: TableState
    actions: Sequence[TableAction]
    reach: Reach


def plan_update(
    view: CatalogSnapshot | Transaction,
    files: MetadataFiles,
    name: TableName,
    current: TableState | None,
    requirements: Sequence[TableRequirement],
    updates: Sequence[TableUpdate],
    fit: Fit | None = None,
    reach: Reach = ANYWHERE,
    unwritten: Sequence[str] = (),
) -> PlannedUpdate:
    """Make the update of a table in the state `current`. Raise CommitFailedException if a requirement is not met.

    `fit` may adapt the updates to that state. The updates may name locations in `reach` and in the table's own folders.
    `view` has the other objects of the catalog, and `unwritten` the metadata files that a transaction has staged.
    """
    if current is None:
        if not any(isinstance(one, AssertCreate) for one in requirements):
            raise NoSuchTableError(f"Table does not exist: {dotted(name)}")
        check_no_view(view, name)
    else:
        folders = folders_of(current.metadata.location, current.metadata.properties)
        reach = reach.of_object(current.location, folders)
    for requirement in requirements:
        requirement.validate(None if current is None else current.metadata)
    if fit is not None:
        updates = fit(None if current is None else current.metadata, updates)
    for update in updates:
        check_named(update, reach)
    metadata = _updated(current, updates)
    if current is not None and metadata == current.metadata:
        return PlannedUpdate(name, current, current, (), reach)
    if current is not None and metadata.format_version == V3 and current.location not in unwritten:
        document = parse_metadata(files.read(reach.existing(current.location)), current.location)
        check_known(document, current.metadata, metadata, current.location)
    number = -1 if current is None else metadata_number(current.location)
    provider = load_location_provider(metadata.location, without_code(metadata.properties))
    after = TableState(metadata, provider.new_table_metadata_file_location(number + 1))

    def read(manifest: str) -> bytes:
        return files.read(reach.named(manifest, "a manifest"))

    actions = actions_of(None if current is None else current.metadata, metadata, updates, read)
    return PlannedUpdate(name, current, after, actions, reach)


class TableChanges:
    """Changes of tables in one transaction, and their metadata files."""

    def __init__(self, transaction: Transaction, files: MetadataFiles) -> None:
        self.transaction = transaction
        self._store = files
        self._staged: dict[str, TableMetadata] = {}
        self._files = NewFiles()
        self._created: dict[str, Delete] = {}
        self._doubtful: list[str] = []
        """Files that may have been written although the store reported a failure."""
        self.left_behind: list[str] = []
        """Files of a failed commit that may still be there. Its error names them."""
        self.unwritten = False
        """True if no commit was tried, because a metadata file could not be written."""

    def state(self, name: TableName, reach: Reach = ANYWHERE) -> TableState | None:
        """Return the table as this transaction sees it, or None. Files are not followed through links out of
        `reach`.
        """
        location = self._location(name)
        if location is None:
            return None
        return TableState(self._staged.get(location) or self._read(location, reach), location)

    def _location(self, name: TableName) -> str | None:
        if not self.transaction.exists(name):
            return None
        return self.transaction.table(name).definition.iceberg_metadata_location

    def _read(self, location: str, reach: Reach) -> TableMetadata:
        content = self.staged_file(location)
        if content is None:
            return read_metadata(self._store, location, reach.existing(location))
        return decode_metadata(content, location)

    def create(self, name: TableName, metadata: TableMetadata, location: str, reach: Reach = ANYWHERE) -> TableState:
        """Stage a new table with its metadata."""
        self.transaction.create_table(name, location)
        return self.stage(metadata, location, reach)

    def update(
        self,
        name: TableName,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
        reach: Reach = ANYWHERE,
    ) -> TableState:
        """Update a table, or create it, as `plan_update` describes."""
        here = (self.transaction, self._store, name, self.state(name, reach))
        return self.apply(plan_update(*here, requirements, updates, reach=reach, unwritten=self.places))

    def still_fits(self, update: PlannedUpdate) -> bool:
        """Return True if the table is in the state that the update was made from."""
        return self._location(update.name) == (None if update.before is None else update.before.location)

    def apply(self, update: PlannedUpdate) -> TableState:
        """Stage an update that still fits. Each update is applied once, as it has the name of its metadata file."""
        name, before, after = update.name, update.before, update.after
        if after is before:
            return after
        if before is None:
            check_no_view(self.transaction, name)
            self.transaction.create_table(name, after.location)
        expected = None if before is None else before.location
        for action in update.actions:
            self.transaction.alter_table(
                name,
                metadata_location=after.location,
                expected_metadata_location=expected,
                type=action.type,
                payload=action.payload,
            )
            # the first action changes the location; the others only add to the log
            expected = None
        return self.stage(after.metadata, after.location, update.reach)

    def add_file(self, location: str, content: bytes, reach: Reach = ANYWHERE) -> None:
        """Stage a file that is created before the commit, and deleted if the commit fails."""
        reach = replace(reach, barred=barred_folders(self.transaction.base.store.uri))
        self._files.put(location, NewFile(reach.named(location, "the metadata's location"), content))

    @property
    def places(self) -> list[str]:
        """The locations of files to be written."""
        return list(self._files.places)

    def staged_file(self, location: str) -> bytes | None:
        """Return the content of a file that this transaction writes, or None."""
        return self._files.get(location).content if location in self._files.places else None

    @contextmanager
    def whole(self, *, keep_reads: bool = False) -> Iterator[None]:
        """Undo all changes of the block if it raises an error."""
        before, staged, files = self.transaction.mark(), dict(self._staged), dict(self._files.places)
        try:
            yield
        except Exception:
            self.transaction.go_back(before, keep_reads=keep_reads)
            self._staged, self._files.places = staged, files
            raise

    def commit(self, author: Author, retry_for: float = 60.0, atomic: bool = True) -> Committed:
        """Write and commit all changes, in the order that the module's docstring describes."""
        transaction = self.transaction
        files = FileWriter(transaction.base.store, transaction.clock)
        if transaction.has_writes and self._files.places:
            files.root(transaction.draft, (), transaction.check_alive)
        return self._written_for(lambda: commit(transaction, author, retry_for=retry_for, atomic=atomic, files=files))

    def save(self, running: DistributedTransaction) -> None:
        """Like `commit`, for a distributed transaction: the save replaces the root."""
        if self._files.places:
            running.write_files()
        self._written_for(lambda: _save(running))

    def _written_for(self, publish: Callable[[], R]) -> R:
        """Write the metadata files, then call `publish`. Delete the files if the publication surely failed."""
        try:
            self._write()
        except BaseException as error:
            self._discard_after(error)
            self.unwritten = True
            raise
        try:
            return publish()
        except (CommitUnknown, OutcomeUnknown) as error:
            raise outcome_unknown(error, self._created) from error
        except OlympiaError as error:
            self._discard_after(error)
            raise
        except BaseException:
            # the interrupt may have come after the commit
            _log.warning("interrupted%s", _kept(self._created))
            raise

    def discard(self) -> list[str]:
        """Delete the metadata files that were created. Return the locations of files that may remain."""
        left = list(self._doubtful)
        for location, delete in self._created.items():
            try:
                delete()
            except FileNotFoundError:
                continue
            except Exception:
                left.append(location)
        self._created.clear()
        return left

    def _discard_after(self, error: BaseException) -> None:
        self.left_behind = self.discard()
        if self.left_behind and isinstance(error, OlympiaError):
            error.message += _left(self.left_behind)
        elif self.left_behind:
            error.add_note(_left(self.left_behind)[2:])

    def error_of(self, error: Exception, files: Sequence[str]) -> Exception:
        """Return the error of a failed shared commit for a caller with these files: it names no files of other
        callers.
        """
        if not isinstance(error, OlympiaError) or not self.left_behind:
            return error
        own = copy(error)
        own.message = own.message.removesuffix(_left(self.left_behind))
        own.message += _left([location for location in self.left_behind if location in files])
        return own

    def _write(self) -> None:
        def write(location: str) -> None:
            file = self._files.get(location)
            try:
                self._created[location] = self._store.create(file.location, file.content)
            except BaseException as error:
                ours = isinstance(error, OlympiaError) and not isinstance(error, OutcomeUnknown)
                if not ours and not isinstance(error, FileExistsError):
                    self._doubtful.append(location)
                raise

        if len(self._files.places) == 1:
            write(*self._files.places)
            return
        waiting = iter(self._files.places)
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="metadata") as pool:
            while batch := list(islice(waiting, _AT_ONCE)):
                for _ in pool.map(write, batch):
                    pass

    def stage(self, metadata: TableMetadata, location: str, reach: Reach = ANYWHERE) -> TableState:
        """Stage metadata, for a definition that names it."""
        if len(self._staged) >= _KEPT:
            # an object takes many times the memory of its encoded form
            self._staged.pop(next(iter(self._staged)))
        self._staged[location] = metadata
        known = reach.also(folders_of(metadata.location, metadata.properties))
        self.add_file(location, encode_metadata(metadata, location), known)
        return TableState(metadata, location)


def outcome_unknown(error: BaseException | None, written: Iterable[str]) -> CommitStateUnknownException:
    """Return the error for an unknown outcome, with the files that were written."""
    return CommitStateUnknownException(f"{error}{_kept(written)}")


def _left(locations: Sequence[str]) -> str:
    return f"; left behind: {', '.join(locations)}" if locations else ""


def _kept(written: Iterable[str]) -> str:
    shown = ", ".join(written)
    return f"; if the log does not have it, nothing needs these files: {shown}" if shown else ""


def check_no_view(view: CatalogSnapshot | Transaction, name: TableName) -> None:
    """Raise TableAlreadyExistsError if a view has the name: in Iceberg, tables and views share their names."""
    with contextlib.suppress(InvalidName):
        same = ViewName(name.namespace, name.name)
        if view.exists(same) if isinstance(view, Transaction) else view.find(same) is not None:
            raise TableAlreadyExistsError(f"View with same name already exists: {dotted(name)}")


def _save(running: DistributedTransaction) -> None:
    """Save. Raise CommitUnknown for an error after the save succeeded."""
    before = running.save_number
    try:
        running.save()
    except OlympiaError as error:
        if running.save_number == before:
            raise
        raise CommitUnknown(f"saved, and then it failed: {error.message}", hint="load the transaction again") from error


def encode_metadata(metadata: TableMetadata, location: str) -> bytes:
    """Return the content of a metadata file, compressed if its name says so."""
    data = to_json(metadata).encode()
    return Compressor.get_compressor(location).bytes_compressor()(data)


def decode_metadata(data: bytes, location: str) -> TableMetadata:
    """Return the metadata in a file. Raise Unsupported if it unpacks to more than the limit."""
    return FromByteStream.table_metadata(BytesIO(unpacked(data, location)))


def read_metadata(files: MetadataFiles, text: str, location: Location) -> TableMetadata:
    """Return the metadata at a location of the catalog. `location` is the parsed `text`."""
    try:
        return decode_metadata(files.read(location), text)
    except (ValidationError, ValueError, EOFError, zlib.error, BadGzipFile):
        raise Damaged("F602", text, "it is not the metadata of an Iceberg table", hint="check the location") from None


def check_property_locations(properties: Properties, reach: Reach) -> None:
    """Raise an error for properties of a table, view or namespace that name a location outside `reach`."""
    for key in (*FOLDER_PROPERTIES, "location"):
        if properties.get(key):
            reach.named(properties[key], f"the property {key}")


def check_named(update: Any, reach: Reach) -> None:
    """Raise an error for a table update that names a location outside `reach`."""
    # by name, because PyIceberg 0.9 lacks some of the classes
    match update.action:
        case "set-location":
            reach.named(update.location, "the table's location")
        case "set-properties":
            check_property_locations(update.updates, reach)
        case "add-snapshot" if update.snapshot.manifest_list:
            reach.named(update.snapshot.manifest_list, "the manifest list")
        case "set-statistics":
            reach.named(update.statistics.statistics_path, "the statistics")
        case "set-partition-statistics":
            reach.named(update.partition_statistics.statistics_path, "the partition statistics")


def _updated(current: TableState | None, updates: Sequence[TableUpdate]) -> TableMetadata:
    before = empty_metadata() if current is None else current.metadata
    base, rest = upgraded(before, updates)
    location = None if current is None else current.location
    made = update_table_metadata(base, rest, enforce_validation=current is None, metadata_location=location)
    return with_row_ids(made, base)
