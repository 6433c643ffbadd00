"""`spark.read.format("olympia")`: a catalog's tables, and the rows of its Iceberg tables, for Spark.

`load("objects")`, "versions", "actions", "nodes" or "files" reads the catalog; the option `table` reads an Iceberg
table as the catalog had it. The version is looked up once, when the DataFrame is made, and stays the same for all that
is done with it. Spark does not tell a Python source which columns a query needs, unless `.schema(…)` names them:
objects without the columns of their definitions are read from the tree alone. With a schema, Spark makes the source,
and so looks up the version, only when the DataFrame is first used. The options `type`, `namespace`, `name` and `kind`
narrow what is read; filters do not (see `conditions`).
"""

from __future__ import annotations

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
from olympia_cli.spark.iceberg_rows import IcebergTable
from olympia_cli.spark.options import ReadOptions, parse_options
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


class OlympiaDataSource(DataSource):
    """The entry point. Spark makes one for each `load`, and sends copies of it to wherever it plans and reads."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self.asked = parse_options(options)
        self.pinned: Pin | None = None
        self.iceberg: IcebergTable | None = None
        if self.asked.what == "files":
            return
        store = store_of(self.asked)
        self.pinned = pin(store, self.asked.reference)
        if self.asked.table is not None:
            self.iceberg = iceberg_rows.find_table(open_pinned(store, self.pinned), self.asked)

    @classmethod
    def name(cls) -> str:
        return "olympia"

    def schema(self) -> StructType:
        if self.iceberg is not None:
            return iceberg_rows.spark_schema(iceberg_rows.load(self.iceberg).schema())
        assert self.asked.what is not None
        return spark_schema(tables.COLUMNS[self.asked.what])

    def reader(self, schema: StructType) -> DataSourceReader:
        if self.iceberg is not None:
            return iceberg_rows.IcebergReader(self.iceberg, schema)
        return CatalogReader(self.asked, self.pinned, _columns(self.asked, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from olympia_cli.spark.stream import LogStream

        return LogStream(self.asked, _columns(self.asked, schema) if self.iceberg is None else {})


class CatalogReader(DataSourceReader):
    """One of the catalog's own tables."""

    def __init__(self, asked: ReadOptions, pinned: Pin | None, columns: Mapping[str, str]) -> None:
        self.asked = asked
        self.pinned = pinned
        self.columns = columns

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(part) for part in tables.plan(store_of(self.asked), self.asked, self.pinned)]

    def read(self, partition: InputPartition) -> Iterator[RecordBatch]:
        # Spark makes an empty partition where there are none
        if partition.value is None:
            return iter(())
        rows = tables.read(store_of(self.asked), self.asked, partition.value, self.columns)
        return batches(rows, self.columns)


def spark_schema(columns: Mapping[str, str]) -> StructType:
    return StructType([StructField(name, _TYPES[word]) for name, word in columns.items()])


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
