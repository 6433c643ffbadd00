"""`spark.read.format("olympia")`: read a catalog's tables, and the rows of its Iceberg tables.

`load("objects")`, "versions", "actions", "nodes" or "files" reads the catalog. The option `table` reads an Iceberg
table at a version of the catalog. The version is looked up once, when the DataFrame is made, and stays the same for all
its uses.

Spark does not tell a Python source which columns a query needs, unless `.schema(…)` names them. Objects without the
columns of their definitions are read from the tree alone. With a schema, Spark makes the source, and so looks up the
version, only when the DataFrame is first used. The options `type`, `namespace`, `name` and `kind` reduce what is read;
Spark's filters do not (see `conditions`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceWriter,
    InputPartition,
)
from pyspark.sql.types import (
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from olympia_cli.errors import InvalidOption
from olympia_cli.spark import iceberg_rows, tables
from olympia_cli.spark.batches import batches
from olympia_cli.spark.failures import failures, told
from olympia_cli.spark.iceberg_rows import IcebergTable
from olympia_cli.spark.options import ReadOptions, is_write, parse_options, parse_write_options, table_options
from olympia_cli.spark.pins import Pin, open_pinned, pin, store_of

if TYPE_CHECKING:
    from pyarrow import RecordBatch

_TYPES: dict[str, DataType] = {
    "string": StringType(),
    "long": LongType(),
    "int": IntegerType(),
    "boolean": BooleanType(),
    "timestamp": TimestampType(),
    "map": MapType(StringType(), StringType()),
}

_KEPT = "olympia"


class OlympiaDataSource(DataSource):
    """The entry point. Spark makes one per `load`, and sends copies to the processes that plan and read."""

    @failures()
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.kept_options = table_options(options)
        """Options to store with a table that is being created in Spark's own catalog; else None."""
        self.pinned: Pin | None = None
        self.iceberg: IcebergTable | None = None
        if options and not is_write(options):
            self._look_up(options if self.kept_options is None else self.kept_options)

    def _look_up(self, options: Mapping[str, str]) -> None:
        self.read_options = parse_options(options)
        if self.read_options.what == "files":
            return
        store = store_of(self.read_options)
        self.pinned = pin(store, self.read_options.reference)
        if self.read_options.table is not None:
            self.iceberg = iceberg_rows.find_table(open_pinned(store, self.pinned), self.read_options)

    @classmethod
    def name(cls) -> str:
        return "olympia"

    @failures()
    def schema(self) -> StructType:
        if is_write(self.options):
            self._look_up(self.options)
        if self.iceberg is not None:
            struct = iceberg_rows.spark_schema(iceberg_rows.load(self.iceberg).schema())
        else:
            assert self.read_options.what is not None
            struct = spark_schema(tables.COLUMNS[self.read_options.what])
        if self.kept_options is not None:
            # when Spark reads the table, it passes the columns, but not the options
            struct.fields[0].metadata = {_KEPT: json.dumps({**self.kept_options, "catalog": self.read_options.catalog})}
        return struct

    @failures()
    def reader(self, schema: StructType) -> DataSourceReader:
        if not self.options or is_write(self.options):
            self._look_up(self.options or _kept_options(schema))
        if self.iceberg is not None:
            return iceberg_rows.IcebergReader(self.iceberg, schema)
        return CatalogReader(self.read_options, self.pinned, _columns(self.read_options, schema))

    @failures()
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from olympia_cli.spark.writer import AppendWriter

        return AppendWriter.begin(parse_write_options(self.options), schema, overwrite)

    @failures()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from olympia_cli.spark.stream import LogStream

        return LogStream(self.read_options, _columns(self.read_options, schema) if self.iceberg is None else {})


class CatalogReader(DataSourceReader):
    """Read one of the catalog's own tables."""

    def __init__(self, options: ReadOptions, pinned: Pin | None, columns: Mapping[str, str]) -> None:
        self.options = options
        self.pinned = pinned
        self.columns = columns

    @failures()
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in tables.plan(store_of(self.options), self.options, self.pinned)]

    @told
    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        # Spark makes an empty partition where there are none
        if partition.value is not None:
            rows = tables.read(store_of(self.options), self.options, partition.value, self.columns)
            yield from batches(rows, self.columns)


def spark_schema(columns: Mapping[str, str]) -> StructType:
    return StructType([StructField(name, _TYPES[word]) for name, word in columns.items()])


def _kept_options(schema: StructType) -> dict[str, str]:
    """Return the options that a table in Spark's own catalog keeps in the metadata of its columns."""
    text = schema.fields[0].metadata.get(_KEPT) if schema.fields else None
    if text is None:
        raise InvalidOption(
            "Spark does not tell the options of this table",
            hint="make it without a list of columns, or select from it WITH (catalog = …, path = …)",
        )
    options: dict[str, str] = json.loads(text)
    return options


def _columns(options: ReadOptions, schema: StructType) -> dict[str, str]:
    """Return the columns that Spark requests, with our types. If the caller gave a schema, they may be fewer than the
    table's."""
    assert options.what is not None
    types = tables.COLUMNS[options.what]
    for field in schema.fields:
        if field.name not in types:
            raise InvalidOption(f"{options.what} has no column {field.name[:60]!a}", hint=f"it has {', '.join(types)}")
        if field.dataType != _TYPES[types[field.name]]:
            word = _TYPES[types[field.name]].simpleString()
            raise InvalidOption(f"the column {field.name} is not a {field.dataType.simpleString()}", hint=f"use {word}")
    return {field.name: types[field.name] for field in schema.fields}
