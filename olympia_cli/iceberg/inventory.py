"""List the data and delete files of tables, with statistics, schemas and partition values.

The two steps, from tables to manifests and from manifests to files, are functions over any number of rows. One process
can run them, or many processes a share each. A file that cannot be read becomes a problem row.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

import pyarrow as pa

from olympia_cli.catalog.snapshot import read_object
from olympia_cli.errors import Damaged, OlympiaError, StoreError, Unsupported
from olympia_cli.format.paths import check_pointer
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.manifests import (
    ColumnStatistics,
    DataFile,
    Manifest,
    decode_manifest,
    decode_manifest_list,
    whole,
)
from olympia_cli.iceberg.metadata import (
    SchemaColumn,
    TableSnapshot,
    columns_of,
    current_schema,
    current_snapshot,
    partition_spec,
)
from olympia_cli.names import TableName
from olympia_cli.ops.verify_metadata import parse_metadata
from olympia_cli.storage.protocol import Store

# The rows of an inventory: their columns, and the conversion of foreign values.

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


def file_row(file: DataFile, columns: Mapping[int, SchemaColumn], statistics: bool) -> Row:
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


def names_text(columns: Mapping[int, SchemaColumn]) -> str:
    """Return the columns as JSON, to be sent to another process."""
    return json.dumps([(id, column.name, column.type) for id, column in columns.items()])


def parse_names(names: str) -> dict[int, SchemaColumn]:
    return {id: SchemaColumn(name, type) for id, name, type in json.loads(names)}


def text(value: str) -> str:
    """Replace the parts of a text that Arrow cannot hold: names may contain bytes that are not text."""
    return value if value.isascii() else value.encode("utf-8", "replace").decode()


def long(value: object) -> int | None:
    """Return a number if a 64-bit column can hold it, else None: foreign files may hold any value."""
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _with_pairs(row: Mapping[str, Any]) -> Mapping[str, Any]:
    partition = row.get("partition")
    return {**row, "partition": list(partition.items())} if isinstance(partition, dict) else row


def _column(id: int, found: ColumnStatistics, column: SchemaColumn | None) -> Row:
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


_TABLES_AT_ONCE = 256
_MANIFESTS_AT_ONCE = 1024


def take_inventory(
    store: Store,
    tables: Iterable[Mapping[str, Any]],
    options: Mapping[str, object] | None = None,
    *,
    files: bool = True,
    statistics: bool = True,
) -> Iterator[Row]:
    """Run both steps in this process. Yield table, file and problem rows, distinguished by `row`.

    `options` are those of the catalog's store, which may hold the tables, too. Without `files`, no manifest is read.
    """
    with closing(TableFiles(options, store.uri.partition("://")[0])) as opened:
        rows = look_at_tables(store, opened, tables, manifests=files)
        yield from look_at_manifests(opened, rows, statistics=statistics)


def look_at_tables(
    store: Store, files: TableFiles, tables: Iterable[Mapping[str, Any]], *, manifests: bool = True
) -> Iterator[Row]:
    """Convert tables (namespace, name, version, path of the definition) to table rows, problem rows, and unread
    manifests.
    """
    tables = iter(tables)
    while batch := list(islice(tables, _TABLES_AT_ONCE)):
        seen = [_Seen({name: table[name] for name in ("namespace", "name", "version")}) for table in batch]
        _read_definitions(store, list(zip(seen, (table["definition"] for table in batch), strict=True)))
        _read_metadata(files, [one for one in seen if one.error is None])
        if manifests:
            _read_lists(files, [one for one in seen if one.error is None])
        for one in seen:
            yield from one.rows()


def look_at_manifests(files: TableFiles, rows: Iterable[Row], *, statistics: bool = True) -> Iterator[Row]:
    """Replace each manifest row by rows of its files. Other rows are passed through."""
    rows = iter(rows)
    while batch := list(islice(rows, _MANIFESTS_AT_ONCE)):
        read = files.read([row["manifest"] for row in batch if row["row"] == "manifest"])
        for row in batch:
            if row["row"] == "manifest":
                yield from _files(row, next(read)[1], statistics)
            else:
                yield row


@dataclass(slots=True)
class _Seen:
    """A table, with the parts read so far."""

    about: Row
    table: Row | None = None
    error: OlympiaError | None = None
    snapshot: TableSnapshot | None = None
    names: str = ""
    manifests: dict[str, Manifest] = field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        if self.table is not None:
            yield {**self.about, "row": "table", **self.table}
        if self.error is not None:
            yield _problem(self.about, self.error)
            return
        for at, one in enumerate(self.manifests.values()):
            where = {"manifest": text(one.location), "spec_id": long(one.spec_id), "manifest_at": at}
            yield {**self.about, "row": "manifest", "names": self.names, **where}


def _read_definitions(store: Store, seen: list[tuple[_Seen, str]]) -> None:
    for one, path in seen:
        try:
            check_pointer(path, path)
        except Damaged as error:
            one.error = error
    named = [(one, path) for one, path in seen if one.error is None]
    for (one, _), (path, data) in zip(named, store.read_many([path for _, path in named]), strict=True):
        name = TableName.known_legal(one.about["namespace"], one.about["name"])
        try:
            definition = _definition(name, path, data)
            location = definition.iceberg_metadata_location
            one.about |= {"id": definition.id, "metadata_location": location or None}
            if not location:
                raise Unsupported("it is not an Iceberg table with metadata", hint="")
        except OlympiaError as error:
            one.error = error


def _definition(name: TableName, path: str, data: bytes | StoreError) -> TableDef:
    definition = read_object(name, path, data).definition
    assert isinstance(definition, TableDef)
    return definition


def _read_metadata(files: TableFiles, seen: list[_Seen]) -> None:
    read = files.read([one.about["metadata_location"] for one in seen])
    for one, (location, data) in zip(seen, read, strict=True):
        try:
            metadata = parse_metadata(whole(data, location, "metadata"), location)
            one.snapshot = current_snapshot(metadata, location)
            number = None if one.snapshot is None else one.snapshot.snapshot_id
            one.table = table_row(metadata, number, current_schema(metadata), partition_spec(metadata))
            one.names = names_text(columns_of(metadata))
        except OlympiaError as error:
            one.error = error


def _read_lists(files: TableFiles, seen: list[_Seen]) -> None:
    listed = []
    for one in seen:
        if one.snapshot is not None and one.snapshot.manifest_list:
            listed.append((one, one.snapshot.manifest_list))
        elif one.snapshot is not None:
            one.manifests = {location: Manifest(location) for location in one.snapshot.manifests}
    read = files.read([location for _, location in listed])
    for (one, location), (_, data) in zip(listed, read, strict=True):
        try:
            found = decode_manifest_list(whole(data, location, "manifest list"), location)
            one.manifests = {manifest.location: manifest for manifest in found}
        except OlympiaError as error:
            one.error = error


def _files(row: Row, data: bytes | OlympiaError, statistics: bool) -> Iterator[Row]:
    about = {name: row.get(name) for name in ("namespace", "name", "id", "version", "metadata_location", "manifest_at")}
    where = row["manifest"]
    columns = parse_names(row["names"])
    try:
        found = decode_manifest(
            whole(data, where, "manifest"), where, spec_id=row["spec_id"] or 0, statistics=statistics
        )
        for at, file in enumerate(found):
            yield {**about, "row": "file", "at": at, **file_row(file, columns, statistics)}
    except OlympiaError as error:
        yield _problem(about, error)


def _problem(about: Mapping[str, Any], error: OlympiaError) -> Row:
    return {**about, "row": "problem", "error": type(error).__name__, "reason": text(error.message)}
