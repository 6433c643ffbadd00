"""PyIceberg's interface to the catalog for one request. It reads the version of the request, and uses group commit."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

from pyiceberg.exceptions import NoSuchNamespaceError
from pyiceberg.io import FileIO
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.metadata import TableMetadata
from pyiceberg.table.update import (
    AddPartitionSpecUpdate,
    AddSchemaUpdate,
    AddSnapshotUpdate,
    AddSortOrderUpdate,
    RemovePartitionSpecsUpdate,
    RemovePartitionStatisticsUpdate,
    RemovePropertiesUpdate,
    RemoveSchemasUpdate,
    RemoveSnapshotsUpdate,
    RemoveStatisticsUpdate,
    SetCurrentSchemaUpdate,
    SetDefaultSortOrderUpdate,
    SetDefaultSpecUpdate,
    SetLocationUpdate,
    SetPartitionStatisticsUpdate,
    SetPropertiesUpdate,
    SetStatisticsUpdate,
    TableRequirement,
    TableUpdate,
)
from pyiceberg.typedef import Properties
from pyiceberg.types import IcebergType, NestedField

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import InvalidLocation
from olympia_cli.iceberg import changes
from olympia_cli.iceberg.catalog import OlympiaCatalog, folder_of
from olympia_cli.iceberg.changes import TableChanges, TableState
from olympia_cli.iceberg.conversion import translated
from olympia_cli.iceberg.format_v3 import V3
from olympia_cli.iceberg.locations import Reach, barred_folders, parse_location
from olympia_cli.iceberg.metadata_files import MetadataFiles
from olympia_cli.iceberg.settings import LOADS_CODE
from olympia_cli.names import ObjectName, TableName
from olympia_cli.rest.call import Call
from olympia_cli.rest.failures import Failure, bad_request, forbidden, parsed, without_nulls
from olympia_cli.rest.service import Located

# Adapt a client's table updates to the current state of the table.
#
# A client assigns ids from the state that it read. After a concurrent commit whose state still meets the requirements,
# those ids may be taken. A schema, partition spec or sort order that the table already has gets its existing id. A new
# one gets the next free id. Removing a missing part is allowed. These are the rules of Iceberg's Java library, which
# clients rely on. PyIceberg, which applies the updates, has stricter ones, and none for schemas.

LAST = -1
"""Instead of an id: the most recently added one."""


def check_columns(schema: Schema, before_v3: bool) -> None:
    """Raise Failure for an unreadable schema: duplicate field ids, or initial defaults before format version 3."""
    seen: set[int] = set()
    waiting: list[IcebergType] = [schema.as_struct()]
    while waiting:
        inside = waiting.pop()
        # structs, lists and maps have fields; other types have none
        fields: Sequence[NestedField] = getattr(inside, "fields", ()) or [
            field
            for name in ("element_field", "key_field", "value_field")
            if (field := getattr(inside, name, None)) is not None
        ]
        for field in fields:
            if field.field_id in seen:
                raise bad_request(f"two columns of the schema have the id {field.field_id}")
            if before_v3 and field.initial_default is not None:
                raise bad_request(
                    f"the column {field.name!a} has an initial default, which tables have from format 3 on"
                )
            seen.add(field.field_id)
            waiting.append(field.field_type)


def with_field_numbers(document: dict[str, Any], key: str) -> dict[str, Any]:
    """Number the fields of a partition spec in a request, below zero, where the client gives no id.

    Iceberg's REST definition lets clients leave the ids to the catalog. `fitted` assigns them.
    """
    spec = document.get(key)
    if not isinstance(spec, dict) or not isinstance(spec.get("fields"), list):
        return document
    fields = [
        {"field-id": LAST - at, **without_nulls(field)} if isinstance(field, dict) else field
        for at, field in enumerate(spec["fields"])
    ]
    return {**document, key: {**spec, "fields": fields}}


def check_added(table: TableMetadata, updates: Sequence[TableUpdate]) -> None:
    """Raise an error for partition specs and sort orders with missing columns, which would make the table
    unreadable.
    """
    schema = table.schema()
    for update in updates:
        if isinstance(update, AddPartitionSpecUpdate):
            update.spec.check_compatible(schema)
        elif isinstance(update, AddSortOrderUpdate):
            update.sort_order.check_compatible(schema)


def fitted(table: TableMetadata | None, updates: Sequence[TableUpdate]) -> tuple[TableUpdate, ...]:
    """Return the updates adapted to the table. None means a table to be created."""
    state = _State(table)
    return tuple(fit for update in updates for fit in state.fit(update))


class _Numbered:
    """The schemas, partition specs or sort orders of a table, by id."""

    def __init__(self, present: Iterable[tuple[int, object]]) -> None:
        self._content = dict(present)
        # the client's id -> the assigned id; LAST stands for the most recently added one
        self._names: dict[int, int] = {}

    def place(self, number: int, content: object) -> int | None:
        """Return the id for a new entry, or None if the table already has an equal one."""
        same = next((known for known, one in self._content.items() if one == content), None)
        placed = number if number not in self._content else max(self._content) + 1
        self._names[number] = self._names[LAST] = placed if same is None else same
        if same is not None:
            return None
        self._content[placed] = content
        return placed

    def removed(self, numbers: Iterable[int]) -> list[int]:
        """Remove the entries that exist, and return their ids."""
        return [number for number in dict.fromkeys(numbers) if self._content.pop(number, self) is not self]

    def meant(self, number: int) -> int:
        """Return the assigned id for the client's id."""
        return self._names.get(number, number)


class _State:
    """The state of the table that decides about an update, after the request's earlier updates."""

    def __init__(self, table: TableMetadata | None) -> None:
        self._table = table
        schemas, specs, orders = (table.schemas, table.partition_specs, table.sort_orders) if table else ((), (), ())
        self._schemas = _Numbered((one.schema_id, _columns(one)) for one in schemas)
        self._specs = _Numbered((one.spec_id, _terms(one)) for one in specs)
        self._field_ids = {
            (field.source_id, field.transform): field.field_id for spec in specs for field in spec.fields
        }
        self._last_field_id = getattr(table, "last_partition_id", None) or PARTITION_FIELD_ID_START - 1
        self._orders = _Numbered((one.order_id, one.fields) for one in orders)
        self._location = table.location if table else None
        self._properties = set(table.properties) if table else set()
        self._snapshots = {one.snapshot_id for one in table.snapshots} if table else set()
        self._statistics = {one.snapshot_id for one in table.statistics} if table else set()
        self._partition_statistics = {one.snapshot_id for one in table.partition_statistics} if table else set()
        self._sequence = getattr(table, "last_sequence_number", None) or 0

    def fit(self, update: TableUpdate) -> Sequence[TableUpdate]:
        """Return the updates that have the effect of the Java library's update on this table. May be empty."""
        match update:
            case AddSchemaUpdate():
                check_columns(update.schema_, self._table is not None and self._table.format_version < V3)
                number = self._schemas.place(update.schema_.schema_id, _columns(update.schema_))
                return _numbered(number, lambda id: _with(update, schema_=_with(update.schema_, schema_id=id)))
            case SetCurrentSchemaUpdate():
                return (_with(update, schema_id=self._schemas.meant(update.schema_id)),)
            case RemoveSchemasUpdate():
                there = self._schemas.removed(update.schema_ids)
                return (_with(update, schema_ids=there),) if there else ()
            case AddPartitionSpecUpdate():
                number = self._specs.place(update.spec.spec_id, _terms(update.spec))
                fields = self._with_field_ids(update.spec)
                return _numbered(number, lambda id: _with(update, spec=_with(update.spec, spec_id=id, fields=fields)))
            case SetDefaultSpecUpdate():
                return (_with(update, spec_id=self._specs.meant(update.spec_id)),)
            case RemovePartitionSpecsUpdate():
                there = self._specs.removed(update.spec_ids)
                return (_with(update, spec_ids=there),) if there else ()
            case AddSortOrderUpdate():
                number = self._orders.place(update.sort_order.order_id, update.sort_order.fields)
                return _numbered(number, lambda id: _with(update, sort_order=_with(update.sort_order, order_id=id)))
            case SetDefaultSortOrderUpdate():
                return (_with(update, sort_order_id=self._orders.meant(update.sort_order_id)),)
            case SetLocationUpdate():
                known, self._location = self._location, update.location
                return () if update.location == known else (update,)
            case SetPropertiesUpdate():
                self._properties.update(update.updates)
            case RemovePropertiesUpdate():
                gone = self._properties & set(update.removals)
                self._properties -= gone
                return (_with(update, removals=[key for key in dict.fromkeys(update.removals) if key in gone]),)
            case AddSnapshotUpdate():
                self._check_sequence(update)
                self._snapshots.add(update.snapshot.snapshot_id)
                if (schema := update.snapshot.schema_id) is not None:
                    return (_with(update, snapshot=_with(update.snapshot, schema_id=self._schemas.meant(schema))),)
            case RemoveSnapshotsUpdate():
                return self._without_snapshots(update)
            case SetStatisticsUpdate():
                self._statistics.add(update.statistics.snapshot_id)
            case RemoveStatisticsUpdate():
                return _if_there(update, self._statistics)
            case SetPartitionStatisticsUpdate():
                self._partition_statistics.add(update.partition_statistics.snapshot_id)
            case RemovePartitionStatisticsUpdate():
                return _if_there(update, self._partition_statistics)
        return (update,)

    def _with_field_ids(self, spec: PartitionSpec) -> tuple[PartitionField, ...]:
        """Return the fields with an id for each. A field that another spec has keeps its id there."""
        self._last_field_id = max(self._last_field_id, *(field.field_id for field in spec.fields), 0)
        fields: list[PartitionField] = []
        for field in spec.fields:
            if field.field_id < 0:
                id = self._field_ids.get((field.source_id, field.transform))
                if id is None or any(other.field_id == id for other in fields):
                    id = self._last_field_id = self._last_field_id + 1
                field = _with(field, field_id=id)
            fields.append(field)
            self._field_ids.setdefault((field.source_id, field.transform), field.field_id)
        return tuple(fields)

    def _without_snapshots(self, update: RemoveSnapshotsUpdate) -> Sequence[TableUpdate]:
        """Remove the snapshots with their statistics. PyIceberg would keep the partition statistics."""
        there = [id for id in dict.fromkeys(update.snapshot_ids) if id in self._snapshots]
        self._snapshots.difference_update(there)
        self._statistics.difference_update(there)
        partitions = [id for id in there if id in self._partition_statistics]
        self._partition_statistics.difference_update(there)
        removals = [RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": id}) for id in partitions]
        return (*removals, _with(update, snapshot_ids=there)) if there else ()

    def _check_sequence(self, update: AddSnapshotUpdate) -> None:
        """Raise Failure if another snapshot was added since, also on another branch. The client may then retry."""
        number = update.snapshot.sequence_number or 0
        later = self._table is None or self._table.format_version == 1 or number > self._sequence
        if not later and update.snapshot.parent_snapshot_id is not None:
            raise Failure(
                409,
                "CommitFailedException",
                f"Cannot add snapshot with sequence number {number} older than last sequence number {self._sequence}",
            )
        first = update.snapshot.first_row_id
        if first is not None and first < (getattr(self._table, "next_row_id", None) or 0):
            raise Failure(
                409, "CommitFailedException", f"Cannot add a snapshot, first-row-id {first} is behind the table"
            )
        self._sequence = max(self._sequence, number)


def _numbered(number: int | None, make: Callable[[int], TableUpdate]) -> Sequence[TableUpdate]:
    return () if number is None else (make(number),)


def _if_there(update: Any, present: set[int]) -> Sequence[TableUpdate]:
    if update.snapshot_id not in present:
        return ()
    present.remove(update.snapshot_id)
    return (update,)


def _with(model: Any, **values: object) -> Any:
    return model.model_copy(update=values)


def _columns(schema: Schema) -> object:
    return schema.fields, sorted(schema.identifier_field_ids)


def _terms(spec: PartitionSpec) -> object:
    # field ids are ignored, because each writer assigns its own
    return [(field.source_id, field.transform, field.name) for field in spec.fields]


R = TypeVar("R")


class ServedCatalog(OlympiaCatalog):
    """The catalog for one request."""

    _call: Call
    _what: str
    _seen: Snapshot | Transaction | None

    @classmethod
    def of_call(cls, call: Call, what: str) -> ServedCatalog:
        """Create it. `what` is the message of commits."""
        made = cls.__new__(cls)
        made._begin(call.service.catalog, "olympia", call.service.io_properties)
        made._call, made._what, made._seen = call, what, None
        return made

    def _view(self, *names: ObjectName) -> Snapshot | Transaction:
        if self._seen is None:
            self._seen = self._call.look()
        return self._seen

    def change(self, about: ObjectName | None, do: Callable[[TableChanges], R], *names: ObjectName) -> R:
        """Commit a change.

        First apply it to the version of the request and discard the result. Errors are found early, and the files that
        the change reads are cached. That keeps its time in the group commit short.
        """
        view = self._view()
        if isinstance(view, Snapshot) and self._call.prefix.at is None:
            _told(about, do, TableChanges(Transaction(view, self.store_catalog.clock), self.metadata_files))
        return self._call.change(lambda changes: _told(about, do, changes), self._what)

    @property
    def metadata_files(self) -> MetadataFiles:
        return self._call.service.kept

    def open_files(self, location: str) -> FileIO:
        """Return a FileIO without access to files. PyIceberg requires one for a table, but the server never uses it."""
        return _NO_FILES

    # Checks of names in requests

    def update(
        self,
        changes: TableChanges,
        name: TableName,
        requirements: Sequence[TableRequirement],
        updates: Sequence[TableUpdate],
    ) -> TableState:
        """Update a table inside a change. Raise an error if the caller is not allowed to."""
        reach = self.reach(name.namespace)
        current = changes.state(name, reach)
        if current is not None:
            check_code(current.metadata.properties)
        for update in updates:
            if isinstance(update, SetPropertiesUpdate):
                check_code(update.updates)
        state = changes.update(name, requirements, updates, fitted, reach)
        check_added(state.metadata, updates)
        return state

    def _reach(self, namespace: str) -> Reach:
        return self.reach(namespace)

    def reach(self, namespace: str | None = None) -> Reach:
        """Return the folders where this caller's tables may be, including the namespace's location."""
        caller, settings = self._call.caller, self._call.service.settings
        barred = barred_folders(self.store_catalog.store.uri)
        own = ""
        with contextlib.suppress(NoSuchNamespaceError):
            own = self.load_namespace_properties((namespace,)).get("location", "") if namespace else ""
        if self._is_anywhere:
            return Reach(barred=barred).also([self._tables_location(), own])
        if caller.locations is not None:
            folders = list(caller.locations)
        else:
            folders = list(settings.locations) or [self._tables_location()]
            if caller.namespaces is not None:
                # a token for some namespaces must not register tables of others by their files
                folders = [
                    f"{folder.rstrip('/')}/{folder_of(name)}" for folder in folders for name in caller.namespaces
                ]
        return Reach(tuple([*folders, own] if own else folders), barred=barred)

    @property
    def _is_anywhere(self) -> bool:
        caller, settings = self._call.caller, self._call.service.settings
        return caller.locations is None and settings.tokens is None and not settings.locations

    def located(self, namespace: str, location: str) -> Located:
        """Return the location of an existing metadata file. Links out of the caller's reach are not followed."""
        try:
            place = parse_location(location) if self._is_anywhere else self.reach(namespace).existing(location)
        except InvalidLocation as error:
            # the location is in the catalog, so it is not the client's mistake
            raise Failure(500, "InternalServerError", f"the metadata file cannot be read: {error.message}") from None
        return Located(location, place)


def check_code(properties: Properties) -> None:
    """Raise Failure for properties that would make the server load code."""
    for key in LOADS_CODE:
        if key in properties:
            raise forbidden(f"the property {key} names code to load, and this server loads none")


def check_properties(properties: Properties, reach: Reach) -> None:
    """Raise an error for a client's properties that would load code or lead outside `reach`."""
    check_code(properties)
    changes.check_properties(properties, reach)


def check_registered(metadata: Mapping[str, Any], reach: Reach, what: str) -> None:
    """Raise an error if a client's metadata file leads outside `reach`. It is not checked again later."""
    reach.named(str(metadata.get("location") or ""), what)
    properties = metadata.get("properties") or {}
    if not isinstance(properties, dict) or not all(isinstance(value, str) for value in properties.values()):
        raise bad_request("the properties of the metadata are not texts")
    check_properties(properties, reach)
    for key, field, what in _NAMED_FILES:
        entries = metadata.get(key)
        for entry in entries if isinstance(entries, list) else ():
            value = entry.get(field) if isinstance(entry, dict) else None
            for location in value if isinstance(value, list) else [value]:
                if location:
                    reach.check_existing(str(location), what)


_NAMED_FILES = (
    ("snapshots", "manifest-list", "a manifest list"),
    # in old tables
    ("snapshots", "manifests", "a manifest"),
    ("statistics", "statistics-path", "the statistics"),
    ("partition-statistics", "statistics-path", "the partition statistics"),
)
"""The files that table metadata refers to: the list, the field with the location, and the name for messages."""


class _NoFiles(FileIO):
    def new_input(self, location: str) -> NoReturn:
        raise NotImplementedError(location)

    def new_output(self, location: str) -> NoReturn:
        raise NotImplementedError(location)

    def delete(self, location: object) -> NoReturn:
        raise NotImplementedError(location)


_NO_FILES = _NoFiles()


def _told(about: ObjectName | None, do: Callable[[TableChanges], R], changes: TableChanges) -> R:
    def done() -> R:
        with translated(about):
            return do(changes)

    try:
        return parsed(done)
    except FileNotFoundError as error:
        where = error.filename or error
        raise Failure(404, "NotFoundException", f"Failed to open input stream for file: {where}") from error
    except OSError as error:
        # nothing was committed yet
        raise Failure(503, "ServiceUnavailableException", f"a table's file cannot be read: {error}") from error
