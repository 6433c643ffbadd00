"""Updates of a table as they are meant on what the table is now.

A client numbers what it adds by the table that it saw. When another writer was first and the requirements are met all
the same, those numbers may be taken: a schema, a partitioning or an order that the table has already is that one, and
any other gets the next number. What is to be removed and is not there is removed. These are the rules of Iceberg's
library in Java, which clients rely on; PyIceberg, which makes the updates, has stricter ones, and for schemas none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from pyiceberg.partitioning import PartitionSpec
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

from olympia_cli.iceberg.format_v3 import V3
from olympia_cli.rest.failures import Failure, bad_request

LAST = -1
"""In place of a number: the one that was added last."""


def check_columns(schema: Schema, before_v3: bool) -> None:
    """Refuse columns that nobody could read: each has a number of its own, and values for rows that were there before
    it only in format 3."""
    seen: set[int] = set()
    waiting: list[IcebergType] = [schema.as_struct()]
    while waiting:
        inside = waiting.pop()
        # of a struct, a list or a map; other types have none
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


def check_added(table: TableMetadata, updates: Sequence[TableUpdate]) -> None:
    """Refuse partitionings and orders of columns that the table does not have: nobody could load it any more."""
    schema = table.schema()
    for update in updates:
        if isinstance(update, AddPartitionSpecUpdate):
            update.spec.check_compatible(schema)
        elif isinstance(update, AddSortOrderUpdate):
            update.sort_order.check_compatible(schema)


def fitted(table: TableMetadata | None, updates: Sequence[TableUpdate]) -> tuple[TableUpdate, ...]:
    """The updates for the table as it is; None is one that is to be made."""
    state = _State(table)
    return tuple(fit for update in updates for fit in state.fit(update))


class _Numbered:
    """Things of one kind that a table has, by number."""

    def __init__(self, present: Iterable[tuple[int, object]]) -> None:
        self._content = dict(present)
        # what the client calls it -> what it is called; LAST is the one that was added last
        self._names: dict[int, int] = {}

    def place(self, number: int, content: object) -> int | None:
        """The number for something new; None if it is there."""
        same = next((known for known, one in self._content.items() if one == content), None)
        placed = number if number not in self._content else max(self._content) + 1
        self._names[number] = self._names[LAST] = placed if same is None else same
        if same is not None:
            return None
        self._content[placed] = content
        return placed

    def removed(self, numbers: Iterable[int]) -> list[int]:
        """Take away those that are there; return their numbers."""
        return [number for number in dict.fromkeys(numbers) if self._content.pop(number, self) is not self]

    def meant(self, number: int) -> int:
        """The number of what a client calls so."""
        return self._names.get(number, number)


class _State:
    """The parts of a table that decide what an update does, as the updates before it in the request leave them."""

    def __init__(self, table: TableMetadata | None) -> None:
        self._table = table
        schemas, specs, orders = (table.schemas, table.partition_specs, table.sort_orders) if table else ((), (), ())
        self._schemas = _Numbered((one.schema_id, _columns(one)) for one in schemas)
        self._specs = _Numbered((one.spec_id, _terms(one)) for one in specs)
        self._orders = _Numbered((one.order_id, one.fields) for one in orders)
        self._location = table.location if table else None
        self._properties = set(table.properties) if table else set()
        self._snapshots = {one.snapshot_id for one in table.snapshots} if table else set()
        self._statistics = {one.snapshot_id for one in table.statistics} if table else set()
        self._partition_statistics = {one.snapshot_id for one in table.partition_statistics} if table else set()
        self._sequence = getattr(table, "last_sequence_number", None) or 0

    def fit(self, update: TableUpdate) -> Sequence[TableUpdate]:
        """Return the updates that do on this table what Iceberg's library in Java makes of one: none, where that takes
        it as nothing to do."""
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
                return _numbered(number, lambda id: _with(update, spec=_with(update.spec, spec_id=id)))
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

    def _without_snapshots(self, update: RemoveSnapshotsUpdate) -> Sequence[TableUpdate]:
        """The statistics of a snapshot go with it; PyIceberg would leave those of partitions."""
        there = [id for id in dict.fromkeys(update.snapshot_ids) if id in self._snapshots]
        self._snapshots.difference_update(there)
        self._statistics.difference_update(there)
        partitions = [id for id in there if id in self._partition_statistics]
        self._partition_statistics.difference_update(there)
        removals = [RemovePartitionStatisticsUpdate.model_validate({"snapshot-id": id}) for id in partitions]
        return (*removals, _with(update, snapshot_ids=there)) if there else ()

    def _check_sequence(self, update: AddSnapshotUpdate) -> None:
        """Snapshots come one after the other, those of branches too: who was overtaken may make his own anew."""
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
    # the numbers of its fields are given by whoever writes it
    return [(field.source_id, field.transform, field.name) for field in spec.fields]
