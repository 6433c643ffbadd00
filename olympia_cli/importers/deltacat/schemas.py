"""The columns of a DeltaCAT table as Iceberg columns, and the check that a file can be read with them.

DeltaCAT numbers columns from 0, and its files contain the numbers. The table keeps them, so that readers find each
column under any name.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyiceberg.exceptions import ResolveError
from pyiceberg.io.pyarrow import pyarrow_to_schema
from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema, assign_fresh_schema_ids, promote
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import BooleanType, DateType, IcebergType, IntegerType, LongType, NestedField, StringType

from olympia_cli.iceberg import schema_without_ids
from olympia_cli.importers.deltacat.metadata import PartitionKey, TableVersion

ID = b"PARQUET:field_id"
DEFAULT = b"DELTACAT:past_default"
_EPOCH = datetime.date(1970, 1, 1)
_VALUES: dict[type, type] = {BooleanType: bool, IntegerType: int, LongType: int, StringType: str, DateType: str}


class Unfit(Exception):
    """A table or a file that Iceberg cannot have as it is."""


class Rewritable(Unfit):
    """A file that Iceberg cannot have as it is, but can if its rows are rewritten."""


def table_schema(version: TableVersion) -> Schema:
    """Return the columns of a table with their ids. All are optional, because older files may lack them."""
    if version.schema is None:
        raise Unfit("it has no schema")
    arrow = arrow_schema(version.schema)
    for type in _leaves(arrow):
        if pa.types.is_unsigned_integer(type) and type.bit_width >= 32:
            raise Unfit(f"it has a column of the type {type}, which Iceberg does not have")
    try:
        schema = pyarrow_to_schema(arrow) if all(_ids(arrow)) else _fresh(arrow)
    except Exception as error:
        raise Unfit(f"Iceberg does not have its columns: {' '.join(str(error).split())[:200]}") from None
    if len(set(schema.field_ids)) != len(list(_leaves(arrow, inner=True))):
        raise Unfit("two of its columns have one id")
    return Schema(*(_optional(field) for field in schema.fields), schema_id=0)


def former_names(version: TableVersion) -> set[tuple[int, str]]:
    """Return the pairs of id and name that the columns have or had."""
    return {
        (int(id), field.name)
        for schema in (*version.schemas, *([version.schema] if version.schema else []))
        for field in arrow_schema(schema)
        if (id := (field.metadata or {}).get(ID)) is not None
    }


def column_ids(columns: Sequence[pa.Field], version: TableVersion) -> list[int] | None:
    """Return the ids by which the columns of a file are read; None if they are read by name, as DeltaCAT does.

    Ids count if each column has its own, and if the ids of the table's columns come with present or former names of
    these.
    """
    assert version.schema is not None
    table = list(arrow_schema(version.schema))
    if not columns or not all(ID in (column.metadata or {}) for column in (*columns, *table)):
        return None
    found, present = [int(column.metadata[ID]) for column in columns], {int(column.metadata[ID]) for column in table}
    if len(set(found)) < len(found):
        return None
    pairs = {(id, column.name) for id, column in zip(found, columns, strict=True) if id in present}
    return found if pairs <= former_names(version) else None


def with_default(version: TableVersion) -> set[str]:
    """Return the columns that have a value for files without them."""
    arrow = [] if version.schema is None else arrow_schema(version.schema)
    return {field.name for field in arrow if DEFAULT in (field.metadata or {})}


def arrow_schema(data: bytes) -> pa.Schema:
    """Decode an Arrow schema. Raise Unfit if it is malformed."""
    try:
        return pa.ipc.read_schema(pa.py_buffer(data))
    except (pa.ArrowException, ValueError, OSError) as error:
        raise Unfit(f"its schema cannot be read: {' '.join(str(error).split())[:200]}") from None


def _fresh(arrow: pa.Schema) -> Schema:
    return assign_fresh_schema_ids(schema_without_ids(arrow))


def _optional(field: NestedField) -> NestedField:
    return field.model_copy(update={"required": False})


def _leaves(fields: Iterable[pa.Field], inner: bool = False) -> Iterator[pa.DataType]:
    """Yield the types of the leaf columns; with `inner`, also those of structs and lists."""
    for field in fields:
        below = [field.type.field(at) for at in range(field.type.num_fields)]
        if pa.types.is_map(field.type):
            below = [field.type.key_field, field.type.item_field]
        if inner or not below:
            yield field.type
        yield from _leaves(below, inner)


def _ids(fields: Iterable[pa.Field]) -> Iterator[bytes | None]:
    """Yield the id of each column and of each field within one; None for a column without an id."""
    for field in fields:
        yield (field.metadata or {}).get(ID)
        if pa.types.is_map(field.type):
            yield from _ids([field.type.key_field, field.type.item_field])
        else:
            yield from _ids(field.type.field(at) for at in range(field.type.num_fields))


def check_file(metadata: pq.FileMetaData, schema: Schema, names: set[tuple[int, str]], defaults: set[str]) -> None:
    """Raise Unfit for a file that readers would misread: other columns, other types, or a missing column that has a
    value."""
    arrow = metadata.schema.to_arrow_schema()
    have = list(_ids(arrow))
    if any(have) and not all(have):
        raise _by_name("some of its columns have ids, and some have none", arrow, schema)
    if any(have) and len(set(have)) < len(have):
        raise _by_name("two of its columns have one id", arrow, schema)
    try:
        columns = pyarrow_to_schema(arrow) if have and all(have) else _fresh(arrow)
    except Exception as error:
        raise Unfit(f"Iceberg does not have its columns: {' '.join(str(error).split())[:200]}") from None
    known = {field.field_id: field for field in schema.fields}
    if not any(have):
        # readers use the names, and some of them require all to be known
        strange = [field.name for field in columns.fields if field.name not in _top(schema)]
        if strange:
            raise Unfit(f"its columns have no ids, and the table has no column {strange[0]!a}")
        known = {field.field_id: schema.find_field(field.name) for field in columns.fields}
    there = {known[column.field_id].name for column in columns.fields if column.field_id in known}
    for name in sorted(defaults - there):
        raise Rewritable(f"it lacks the column {name!a}, which has a default value in the table")
    for column in columns.fields:
        field = known.get(column.field_id)
        if field is None:
            continue
        if any(have) and (column.field_id, column.name) not in names:
            raise _by_name(f"its column {column.name!a} has the id of {field.name!a}", arrow, schema)
        if not _reads_as(column.field_type, field.field_type):
            raise Unfit(f"its column {column.name!a} is {column.field_type}, and the table's is {field.field_type}")


def _by_name(reason: str, arrow: pa.Schema, schema: Schema) -> Unfit:
    """Return the error for a file with wrong ids: Rewritable if its names and types are those of the table."""
    try:
        columns = _fresh(arrow).fields
    except Exception:
        return Unfit(reason)
    known = {field.name: field.field_type for field in schema.fields}
    fits = all(column.name in known and _reads_as(column.field_type, known[column.name]) for column in columns)
    return Rewritable(reason) if fits else Unfit(reason)


def _reads_as(one: IcebergType, other: IcebergType) -> bool:
    """Return True if a column of one type can be read as the other: the same, a wider, or a nested type with the same
    text."""
    if not (one.is_primitive and other.is_primitive):
        return re.sub(r"\d+: ", "", str(one)) == re.sub(r"\d+: ", "", str(other))
    try:
        return one == other or promote(one, other) == other
    except ResolveError:
        return False


def _top(schema: Schema) -> set[str]:
    return {field.name for field in schema.fields}


def partition_spec(version: TableVersion, schema: Schema) -> tuple[PartitionSpec, tuple[int, ...]]:
    """Return the partition spec of the table, and the positions of its values in a partition. Transforms that Iceberg
    computes differently (buckets, parts of times) are left out: all rows are found without them."""
    fields: list[PartitionField] = []
    at: list[int] = []
    for number, key in enumerate(version.keys):
        column = _column(key, schema)
        if key.transform == "identity" and column is not None and type(column.field_type) in _VALUES:
            id = PARTITION_FIELD_ID_START + len(fields)
            fields.append(PartitionField(column.field_id, id, IdentityTransform(), column.name))
            at.append(number)
    return PartitionSpec(*fields), tuple(at)


def _column(key: PartitionKey, schema: Schema) -> NestedField | None:
    return next((field for field in schema.fields if key.column in (field.name, field.field_id)), None)


def partition_values(
    values: tuple[Any, ...] | None, spec: PartitionSpec, at: tuple[int, ...], schema: Schema
) -> list[Any]:
    """Return the partition values of a file as in manifests."""
    if spec.is_unpartitioned():
        return []
    if values is None or len(values) <= max(at):
        raise Unfit("its partitioning differs from the table's")
    found = []
    for number, field in zip(at, spec.fields, strict=True):
        type, wanted = schema.find_type(field.source_id), _VALUES[schema.find_type(field.source_id).__class__]
        value: Any = values[number]
        if value is not None and (not isinstance(value, wanted) or (isinstance(value, bool) and wanted is not bool)):
            raise Unfit(f"its partition has the value {value!a}, and the column {field.name!a} is {type}")
        if value is not None and isinstance(type, DateType):
            try:
                value = (datetime.date.fromisoformat(str(value)) - _EPOCH).days
            except ValueError:
                raise Unfit(f"its partition has the value {value!a}, and the column {field.name!a} is date") from None
        found.append(value)
    return found
