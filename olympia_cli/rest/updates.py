"""Apply a client's updates of tables and views by the rules of Iceberg's Java library, which clients rely on."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

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
    TableUpdate,
)
from pyiceberg.types import IcebergType, NestedField

from olympia_cli.iceberg import V3
from olympia_cli.rest.failures import ErrorResponse, bad_request, without_nulls

LAST = -1
"""Instead of an id: the most recently added one."""

# Tables: adapt the updates to the table's current state. PyIceberg, which applies them, has stricter rules.
#
# A client assigns ids from the state that it read. After a concurrent commit whose state still meets the requirements,
# those ids may be taken. A schema, partition spec or sort order that the table already has gets its existing id. A new
# one gets the next free id. Removing a missing part is allowed.


class RemoveEncryptionKey(RemovePropertiesUpdate):
    """The removal of an encryption key, which PyIceberg does not know. It changes nothing: a table with that key is
    refused.
    """

    key_id: str = ""


def remove_key(document: dict[str, Any]) -> RemoveEncryptionKey:
    """Return the update of a request."""
    key = document.get("key-id")
    if not isinstance(key, str):
        raise bad_request("updates: remove-encryption-key needs a key-id")
    return RemoveEncryptionKey(removals=[], key_id=key)


def check_keys(updates: Iterable[TableUpdate], document: Callable[[], dict[str, Any]]) -> None:
    """Raise ErrorResponse for the removal of an encryption key that the table has. `document` reads its metadata."""
    removed = {update.key_id for update in updates if isinstance(update, RemoveEncryptionKey)}
    keys = document().get("encryption-keys") if removed else None
    if any(isinstance(key, dict) and key.get("key-id") in removed for key in keys or ()):
        raise bad_request("encryption-keys of a table cannot be removed here")


def check_columns(schema: Schema, before_v3: bool) -> None:
    """Raise ErrorResponse for an unreadable schema: duplicate field ids, or initial defaults before version 3."""
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
    state = _TableUpdates(table)
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


class _TableUpdates:
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
        """Raise ErrorResponse if another snapshot was added since, on any branch. The client may then retry."""
        number = update.snapshot.sequence_number or 0
        later = self._table is None or self._table.format_version == 1 or number > self._sequence
        if not later and update.snapshot.parent_snapshot_id is not None:
            raise ErrorResponse(
                409,
                "CommitFailedException",
                f"Cannot add snapshot with sequence number {number} older than last sequence number {self._sequence}",
            )
        first = update.snapshot.first_row_id
        if first is not None and first < (getattr(self._table, "next_row_id", None) or 0):
            raise ErrorResponse(
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


# Views: apply the updates to the JSON of a view's metadata.

Json = dict[str, Any]


def check_requirements(metadata: Json, requirements: Sequence[Json]) -> None:
    """Raise ErrorResponse unless the view meets the requirements."""
    for requirement in requirements:
        if requirement.get("type") != "assert-view-uuid":
            raise bad_request("the only requirement of a view is assert-view-uuid")
        if requirement.get("uuid") != metadata["view-uuid"]:
            raise ErrorResponse(409, "CommitFailedException", "the view is another one than it was: its uuid differs")


def update_view(metadata: Json, updates: Sequence[Json], now_millis: int) -> Json:
    """Return the metadata after the updates, applied in order."""
    state = _ViewUpdates({**metadata, "properties": dict(metadata.get("properties") or {})}, now_millis)
    for update in updates:
        action = _ACTIONS.get(str(update.get("action")))
        if action is None:
            raise bad_request(f"there is no update {str(update.get('action'))[:60]!a} of a view")
        action(state, update)
    if not any(one.get("version-id") == state.view["current-version-id"] for one in state.view["versions"]):
        raise bad_request("the current version of a view must be one of its versions")
    return state.view


def check_dialects(version: Json) -> None:
    """Raise ErrorResponse if a view version has several queries for one SQL dialect."""
    seen: set[str] = set()
    for one in version.get("representations") or ():
        dialect = str(one.get("dialect")).lower() if isinstance(one, dict) else ""
        if dialect in seen:
            raise ErrorResponse(
                400,
                "IllegalArgumentException",
                f"Invalid view version: Cannot add multiple queries for dialect {dialect}",
            )
        seen.add(dialect)


def filled(version: Json, now_millis: int) -> Json:
    """Return a view version with the fields that readers require but writers may omit."""
    return {"timestamp-ms": now_millis, "summary": {}, **version}


class _ViewUpdates:
    def __init__(self, view: Json, now_millis: int) -> None:
        self.view = view
        self.now = now_millis
        self.last_schema: int | None = None
        self.last_version: int | None = None


def _assign_uuid(state: _ViewUpdates, update: Json) -> None:
    if update.get("uuid") != state.view["view-uuid"]:
        raise bad_request("a view keeps its uuid")


def _upgrade(state: _ViewUpdates, update: Json) -> None:
    if update.get("format-version") != 1:
        raise bad_request("the only format of views is 1")


def _add_schema(state: _ViewUpdates, update: Json) -> None:
    schema = update.get("schema")
    if not isinstance(schema, dict) or not isinstance(schema.get("fields"), list):
        raise bad_request("add-schema has no schema")
    schemas: list[Json] = list(state.view["schemas"])
    same = [one for one in schemas if _fields(one) == _fields(schema)]
    if same:
        state.last_schema = same[0].get("schema-id", 0)
        return
    state.last_schema = max((one.get("schema-id", 0) for one in schemas), default=-1) + 1
    state.view["schemas"] = [*schemas, {**schema, "schema-id": state.last_schema}]


def _fields(schema: Json) -> object:
    return schema.get("fields"), schema.get("identifier-field-ids") or []


def _add_version(state: _ViewUpdates, update: Json) -> None:
    version = update.get("view-version")
    if not isinstance(version, dict) or not isinstance(version.get("representations"), list):
        raise bad_request("add-view-version has no version")
    check_dialects(version)
    version = filled(version, state.now)
    versions: list[Json] = list(state.view["versions"])
    schema = state.last_schema if version.get("schema-id") == LAST else version.get("schema-id")
    if schema is None or not any(one.get("schema-id", 0) == schema for one in state.view["schemas"]):
        raise bad_request("a version of a view has a schema that the view does not have")
    same = [one for one in versions if _content({**version, "schema-id": schema}) == _content(one)]
    if same:
        state.last_version = same[0]["version-id"]
        return
    id = version.get("version-id")
    if type(id) is not int or any(one.get("version-id") == id for one in versions):
        id = max((one["version-id"] for one in versions), default=0) + 1
    state.last_version = id
    state.view["versions"] = [*versions, {**version, "version-id": id, "schema-id": schema}]


def _content(version: Json) -> Json:
    """Return a view version without its id and time."""
    return {key: value for key, value in version.items() if key not in ("version-id", "timestamp-ms") and value}


def _set_current(state: _ViewUpdates, update: Json) -> None:
    id = update.get("view-version-id")
    id = state.last_version if id == LAST else id
    if not any(one.get("version-id") == id for one in state.view["versions"]):
        raise bad_request("the view has no such version")
    if id != state.view["current-version-id"]:
        log = list(state.view.get("version-log") or [])
        state.view["version-log"] = [*log, {"timestamp-ms": state.now, "version-id": id}]
    state.view["current-version-id"] = id


def _set_location(state: _ViewUpdates, update: Json) -> None:
    if not isinstance(update.get("location"), str):
        raise bad_request("set-location has no location")
    state.view["location"] = update["location"]


def _set_properties(state: _ViewUpdates, update: Json) -> None:
    updates = update.get("updates")
    if not isinstance(updates, dict) or not all(isinstance(value, str) for value in updates.values()):
        raise bad_request("set-properties has no updates")
    state.view["properties"].update(updates)


def _remove_properties(state: _ViewUpdates, update: Json) -> None:
    removals = update.get("removals")
    if not isinstance(removals, list):
        raise bad_request("remove-properties has no removals")
    for key in removals:
        state.view["properties"].pop(key, None)


_ACTIONS: dict[str, Callable[[_ViewUpdates, Json], None]] = {
    "assign-uuid": _assign_uuid,
    "upgrade-format-version": _upgrade,
    "add-schema": _add_schema,
    "set-location": _set_location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "add-view-version": _add_version,
    "set-current-view-version": _set_current,
}
