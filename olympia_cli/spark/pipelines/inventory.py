"""The data and delete files of all tables at a version, with statistics, schemas and partition values.

A task goes through some tables, one after the other. A table that cannot be read is a row among the problems, and
stops nobody; its files up to there are in the inventory.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from olympia_cli.catalog.snapshot import read_object
from olympia_cli.errors import Damaged, OlympiaError, PathMissing, StoreError, Unsupported
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.iceberg.data_files import files_of, read_metadata
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.manifests import ColumnStatistics, DataFile
from olympia_cli.iceberg.metadata import current_snapshot
from olympia_cli.iceberg.schemas import Column, columns_of, current_schema, partition_spec
from olympia_cli.names import TableName, parse_reference
from olympia_cli.spark.batches import text
from olympia_cli.spark.pins import pin
from olympia_cli.spark.pipelines.place import PARTITIONS, CatalogPlace, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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

# every row says which table it is about
_TABLE = {"namespace": "string", "name": "string", "id": "string", "version": "long", "metadata_location": "string"}
_OF_TABLES = {"format_version": "long", "snapshot_id": "long", "schema": "string", "partition_spec": "string"}
_OF_FILES = {
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
_OF_PROBLEMS = {"error": "string", "reason": "string"}
_ALL = {"row": "string", **_TABLE, **_OF_TABLES, **_OF_FILES, **_OF_PROBLEMS}
_SCHEMA = pa.schema([pa.field(name, _ARROW[word]) for name, word in _ALL.items()])
# a row with the statistics of a wide table has some kilobytes
_ROWS = 1024
_TABLES_AT_ONCE = 256


@dataclass(frozen=True, slots=True)
class Inventory:
    """What was found, in one DataFrame: each of the three that are made of it goes through all tables again, unless
    `found` was persisted, or written and read back.

    Bounds of columns are in Iceberg's single-value serialization. Partition values are by the names of the partition
    fields, as text: a date is its number of days, bytes are in hexadecimal.
    """

    version: int
    found: DataFrame = field(repr=False)

    @property
    def files(self) -> DataFrame:
        """The data and delete files."""
        return self._rows("file", _OF_FILES)

    @property
    def tables(self) -> DataFrame:
        """The tables whose metadata could be read, with their schemas and partitioning as JSON."""
        return self._rows("table", _OF_TABLES)

    @property
    def problems(self) -> DataFrame:
        """The tables that could not be read, or not to the end."""
        return self._rows("problem", _OF_PROBLEMS)

    def _rows(self, kind: str, more: Mapping[str, str]) -> DataFrame:
        return self.found.where(f"row = '{kind}'").select(*_TABLE, *more)


def data_files(
    spark: SparkSession,
    catalog: CatalogPlace,
    reference: str = "latest",
    *,
    statistics: bool = True,
    partitions: int = PARTITIONS,
) -> Inventory:
    """The inventory of the tables at a version, which is looked up now."""
    pinned = pin(catalog.store, parse_reference(reference))
    # an expired version that an export keeps has its name only
    at = {"version": pinned.version} if pinned.version >= pinned.oldest else {"snapshot": reference}
    columns = "namespace string, name string, definition string, version long"
    tables = catalog.read(spark, "objects", columns=columns, type="table", partitions=partitions, **at)
    ddl = ", ".join(f"`{name}` {word}" for name, word in _ALL.items())
    spread = tables.repartition(partitions, "namespace", "name")
    return Inventory(pinned.version, spread.mapInArrow(partial(_look, catalog, statistics), ddl))


# On the workers


def _look(catalog: CatalogPlace, statistics: bool, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    rows = _rows(catalog, statistics, rows_of(batches))
    while batch := list(islice(rows, _ROWS)):
        yield pa.RecordBatch.from_pylist(batch, schema=_SCHEMA)


def _rows(catalog: CatalogPlace, statistics: bool, asked: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    store, scheme = catalog.store, catalog.uri.partition("://")[0]
    with closing(TableFiles(dict(catalog.storage), scheme)) as files:
        while tables := list(islice(asked, _TABLES_AT_ONCE)):
            read = store.read_many([table["definition"] for table in tables])
            for table, (path, data) in zip(tables, read, strict=True):
                about = {name: table[name] for name in ("namespace", "name", "version")}
                try:
                    definition = _definition(TableName(table["namespace"], table["name"]), path, data)
                    about |= {"id": definition.id, "metadata_location": definition.iceberg_metadata_location or None}
                    yield from _of_table(files, definition, about, statistics)
                except OlympiaError as error:
                    yield {**about, "row": "problem", "error": type(error).__name__, "reason": text(error.message)}


def _definition(name: TableName, path: str, data: bytes | StoreError) -> TableDef:
    if isinstance(data, PathMissing):
        raise Damaged(path, f"the definition of table {name} is missing")
    if isinstance(data, Exception):
        raise data
    definition = read_object(name, path, data).definition
    assert isinstance(definition, TableDef)
    return definition


def _of_table(
    files: TableFiles, definition: TableDef, about: Mapping[str, Any], statistics: bool
) -> Iterator[dict[str, Any]]:
    location = definition.iceberg_metadata_location
    if not location:
        raise Unsupported("it is not an Iceberg table with metadata", hint="")
    metadata = read_metadata(files, location)
    snapshot = current_snapshot(metadata, location)
    yield {
        **about,
        "row": "table",
        "format_version": _long(metadata.get("format-version")),
        "snapshot_id": _long(snapshot.snapshot_id) if snapshot is not None else None,
        "schema": _json(current_schema(metadata)),
        "partition_spec": _json(partition_spec(metadata)),
    }
    columns = columns_of(metadata)
    for file in files_of(files, metadata, location, statistics=statistics):
        yield {**about, "row": "file", **_file(file, columns, statistics)}


def _file(file: DataFile, columns: Mapping[int, Column], statistics: bool) -> dict[str, Any]:
    found = {
        "content": file.content.value,
        "location": text(file.location),
        "format": text(file.format),
        "records": _long(file.records),
        "bytes": _long(file.size),
        "spec_id": _long(file.spec_id),
    }
    if not statistics:
        return found
    return {
        **found,
        "partition": [(text(name), _shown(value)) for name, value in file.partition.items()],
        "columns": [_column(id, one, columns.get(id)) for id, one in file.columns.items()],
        "equality_ids": [_long(id) for id in file.equality_ids],
        "sort_order_id": _long(file.sort_order_id),
        "referenced": text(str(file.referenced)) if file.referenced else None,
        "offset": _long(file.offset),
        "length": _long(file.length),
    }


def _column(id: int, found: ColumnStatistics, column: Column | None) -> dict[str, Any]:
    return {
        "id": _long(id),
        "name": text(column.name) if column is not None else None,
        "type": text(column.type) if column is not None else None,
        **{name: _long(getattr(found, name)) for name in ("size", "values", "nulls", "nans")},
        "lower": found.lower if isinstance(found.lower, bytes) else None,
        "upper": found.upper if isinstance(found.upper, bytes) else None,
    }


def _shown(value: object) -> str | None:
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    return value.hex() if isinstance(value, bytes) else text(str(value))


def _long(value: object) -> int | None:
    """A number as far as a column can hold it: files from elsewhere may say anything."""
    return value if isinstance(value, int) and -(2**63) <= value < 2**63 else None


def _json(value: Mapping[str, Any] | None) -> str | None:
    try:
        return None if value is None else json.dumps(value)
    except RecursionError:
        return None
