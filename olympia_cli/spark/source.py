"""`spark.read.format("olympia")`: a catalog's tables, and the rows of its Iceberg tables, for Spark.

`load("objects")`, "versions", "actions", "nodes" or "files" reads the catalog; the option `table` reads an Iceberg
table as the catalog had it. The version is looked up once, when the DataFrame is made, and stays the same for all that
is done with it. Spark does not tell a Python source which columns a query needs, unless `.schema(…)` names them:
objects without the columns of their definitions are read from the tree alone. With a schema, Spark makes the source,
and so looks up the version, only when the DataFrame is first used. The options `type`, `namespace`, `name` and `kind`
narrow what is read; filters do not (see `conditions`).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, MutableMapping
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
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
from olympia_cli.spark.options import ReadOptions, parse_options, table_options
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
    """The entry point. Spark makes one for each `load`, and sends copies of it to wherever it plans and reads."""

    @failures()
    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.kept = table_options(options)
        """Of a table of Spark's own that is being made: what is to be kept of its options."""
        self.pinned: Pin | None = None
        self.iceberg: IcebergTable | None = None
        if options:
            self._look_up(options if self.kept is None else self.kept)

    def _look_up(self, options: Mapping[str, str]) -> None:
        self.asked = parse_options(options)
        if self.asked.what == "files":
            return
        store = store_of(self.asked)
        self.pinned = pin(store, self.asked.reference)
        if self.asked.table is not None:
            self.iceberg = iceberg_rows.find_table(open_pinned(store, self.pinned), self.asked)

    @classmethod
    def name(cls) -> str:
        return "olympia"

    @failures()
    def schema(self) -> StructType:
        if self.iceberg is not None:
            found = iceberg_rows.spark_schema(iceberg_rows.load(self.iceberg).schema())
        else:
            assert self.asked.what is not None
            found = spark_schema(tables.COLUMNS[self.asked.what])
        if self.kept is not None:
            # when the table is read, Spark passes on its columns and none of its options
            found.fields[0].metadata = {_KEPT: json.dumps({**self.kept, "catalog": self.asked.catalog})}
        return found

    @failures()
    def reader(self, schema: StructType) -> DataSourceReader:
        if not self.options:
            self._look_up(_kept_options(schema))
        if self.iceberg is not None:
            return iceberg_rows.IcebergReader(self.iceberg, schema)
        return CatalogReader(self.asked, self.pinned, _columns(self.asked, schema))

    @failures()
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from olympia_cli.spark.stream import LogStream

        return LogStream(self.asked, _columns(self.asked, schema) if self.iceberg is None else {})


class CatalogReader(DataSourceReader):
    """One of the catalog's own tables."""

    def __init__(self, asked: ReadOptions, pinned: Pin | None, columns: Mapping[str, str]) -> None:
        self.asked = asked
        self.pinned = pinned
        self.columns = columns

    @failures()
    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in tables.plan(store_of(self.asked), self.asked, self.pinned)]

    @told
    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        # Spark makes an empty partition where there are none
        if partition.value is not None:
            rows = tables.read(store_of(self.asked), self.asked, partition.value, self.columns)
            yield from batches(rows, self.columns)


def spark_schema(columns: Mapping[str, str]) -> StructType:
    return StructType([StructField(name, _TYPES[word]) for name, word in columns.items()])


def _kept_options(schema: StructType) -> dict[str, str]:
    """The options of a table of Spark's, which its columns brought along."""
    kept = schema.fields[0].metadata.get(_KEPT) if schema.fields else None
    if kept is None:
        raise InvalidOption(
            "Spark does not tell the options of this table",
            hint="make it without a list of columns, or select from it WITH (catalog = …, path = …)",
        )
    options: dict[str, str] = json.loads(kept)
    return options


def _columns(asked: ReadOptions, schema: StructType) -> dict[str, str]:
    """The columns that Spark wants, which may be fewer than there are when the caller gave a schema."""
    assert asked.what is not None
    known = tables.COLUMNS[asked.what]
    for field in schema.fields:
        if field.name not in known:
            raise InvalidOption(f"{asked.what} has no column {field.name[:60]!a}", hint=f"it has {', '.join(known)}")
        if field.dataType != _TYPES[known[field.name]]:
            word = _TYPES[known[field.name]].simpleString()
            raise InvalidOption(f"the column {field.name} is not a {field.dataType.simpleString()}", hint=f"use {word}")
    return {field.name: known[field.name] for field in schema.fields}
