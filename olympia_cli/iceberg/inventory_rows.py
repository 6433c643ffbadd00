"""The rows of an inventory: their columns, and the conversion of foreign values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

import pyarrow as pa

from olympia_cli.iceberg.manifests import ColumnStatistics, DataFile
from olympia_cli.iceberg.schemas import Column

Row = dict[str, Any]

_STATISTICS = pa.struct(
    [
        pa.field("id", pa.int64()),
        pa.field("name", pa.string()),
        pa.field("type", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("values", pa.int64()),
        pa.field("nulls", pa.int64()),
        pa.field("nans", pa.int64()),
        pa.field("lower", pa.binary()),
        pa.field("upper", pa.binary()),
    ]
)
_ARROW = {
    "string": pa.string(),
    "long": pa.int64(),
    "map<string,string>": pa.map_(pa.string(), pa.string()),
    "array<bigint>": pa.list_(pa.int64()),
    "array<struct<id:bigint,name:string,type:string,size:bigint,values:bigint,nulls:bigint,nans:bigint,"
    "lower:binary,upper:binary>>": pa.list_(_STATISTICS),
}
_LONGS, _COLUMNS = list(_ARROW)[3:]

TABLE = {"namespace": "string", "name": "string", "id": "string", "version": "long", "metadata_location": "string"}
"""The columns that identify the table, in every row."""
OF_TABLES = {"format_version": "long", "snapshot_id": "long", "schema": "string", "partition_spec": "string"}
OF_FILES = {
    "content": "string",
    "location": "string",
    "format": "string",
    "records": "long",
    "bytes": "long",
    "spec_id": "long",
    "partition": "map<string,string>",
    "columns": _COLUMNS,
    "equality_ids": _LONGS,
    "sort_order_id": "long",
    "referenced": "string",
    "offset": "long",
    "length": "long",
}
OF_PROBLEMS = {"error": "string", "reason": "string"}
PLACE = {"manifest_at": "long", "at": "long"}
"""The index of a manifest in its table, and of a file in its manifest."""
OF_MANIFESTS = {"manifest": "string", "names": "string"}
"""An unread manifest, and the table's columns by id, as JSON."""
ALL = {"row": "string", **TABLE, **OF_TABLES, **OF_FILES, **OF_PROBLEMS, **PLACE}
# a row with the statistics of a wide table has several kilobytes
_ROWS = 1024


def ddl(columns: Mapping[str, str]) -> str:
    """Return the columns as a Spark schema."""
    return ", ".join(f"`{name}` {word}" for name, word in columns.items())


def arrow_schema(columns: Mapping[str, str]) -> pa.Schema:
    return pa.schema([pa.field(name, _ARROW[word]) for name, word in columns.items()])


def batches(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> Iterator[pa.RecordBatch]:
    """Yield the rows as Arrow batches with these columns."""
    schema, rows = arrow_schema(columns), iter(rows)
    while batch := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist([_with_pairs(row) for row in batch], schema=schema)


def table_row(metadata: Mapping[str, Any], snapshot_id: int | None, schema: object, spec: object) -> Row:
    return {
        "format_version": long(metadata.get("format-version")),
        "snapshot_id": long(snapshot_id),
        "schema": _json(schema),
        "partition_spec": _json(spec),
    }


def file_row(file: DataFile, columns: Mapping[int, Column], statistics: bool) -> Row:
    """Return the row of a file in a manifest.

    Partition values are text, by the names of the partition fields: a date is its number of days, bytes are
    hexadecimal. Bounds of columns are in Iceberg's single-value serialization.
    """
    found = {
        "content": file.content.value,
        "location": text(file.location),
        "format": text(file.format),
        "records": long(file.records),
        "bytes": long(file.size),
        "spec_id": long(file.spec_id),
    }
    if not statistics:
        return found
    return {
        **found,
        "partition": {text(name): _shown(value) for name, value in file.partition.items()},
        "columns": [_column(id, one, columns.get(id)) for id, one in file.columns.items()],
        "equality_ids": [long(id) for id in file.equality_ids],
        "sort_order_id": long(file.sort_order_id),
        "referenced": text(str(file.referenced)) if file.referenced else None,
        "offset": long(file.offset),
        "length": long(file.length),
    }


def names_text(columns: Mapping[int, Column]) -> str:
    """Return the columns as JSON, to be sent to another process."""
    return json.dumps([(id, column.name, column.type) for id, column in columns.items()])


def parse_names(names: str) -> dict[int, Column]:
    return {id: Column(name, type) for id, name, type in json.loads(names)}


def text(value: str) -> str:
    """Replace the parts of a text that Arrow cannot hold: names may contain bytes that are not text."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def long(value: object) -> int | None:
    """Return a number if a 64-bit column can hold it, else None: foreign files may hold any value."""
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _with_pairs(row: Mapping[str, Any]) -> Mapping[str, Any]:
    partition = row.get("partition")
    return {**row, "partition": list(partition.items())} if isinstance(partition, dict) else row


def _column(id: int, found: ColumnStatistics, column: Column | None) -> Row:
    return {
        "id": long(id),
        "name": text(column.name) if column is not None else None,
        "type": text(column.type) if column is not None else None,
        **{name: long(getattr(found, name)) for name in ("size", "values", "nulls", "nans")},
        "lower": found.lower if isinstance(found.lower, bytes) else None,
        "upper": found.upper if isinstance(found.upper, bytes) else None,
    }


def _shown(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.hex() if isinstance(value, bytes) else text(str(value))


def _json(value: object) -> str | None:
    try:
        return None if value is None else json.dumps(value)
    except RecursionError:
        return None
