"""The inventory of data files over all tables of a version, as a DataFrame.

Tables are divided among tasks first, then their manifests. So each task gets a share of all manifests, however large
the table is that they belong to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.iceberg.inventory import look_at_manifests, look_at_tables
from olympia_cli.iceberg.inventory_rows import (
    ALL,
    OF_FILES,
    OF_MANIFESTS,
    OF_PROBLEMS,
    OF_TABLES,
    PLACE,
    TABLE,
    Row,
    batches,
    ddl,
)
from olympia_cli.names import Kind, NamespaceName, TableName, parse_reference
from olympia_cli.ops.walk.size import estimated_objects
from olympia_cli.spark.engine import FEW_PARTS, SparkEngine
from olympia_cli.spark.failures import explained, told
from olympia_cli.spark.pins import open_pinned, pin
from olympia_cli.spark.pipelines.frames import keep
from olympia_cli.spark.pipelines.place import CatalogPlace, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_TABLES_A_TASK = 64
"""Each table has metadata to read and parse."""

_BETWEEN = {**ALL, **OF_MANIFESTS}


@dataclass(frozen=True, slots=True)
class Inventory:
    """All rows of an inventory in one DataFrame. Each of `files`, `tables` and `problems` reads all tables again,
    unless `rows` was persisted, or written and read back.

    Bounds of columns are in Iceberg's single-value serialization. Partition values are text under the names of the
    partition fields: a date is its number of days, bytes are hexadecimal.
    """

    version: int
    rows: DataFrame = field(repr=False)

    @property
    def files(self) -> DataFrame:
        """The data and delete files."""
        return self._rows("file", OF_FILES)

    @property
    def tables(self) -> DataFrame:
        """The tables whose metadata could be read, with their schemas and partitioning as JSON."""
        return self._rows("table", OF_TABLES)

    @property
    def problems(self) -> DataFrame:
        """The tables, and the parts of tables, that could not be read."""
        return self._rows("problem", OF_PROBLEMS)

    @contextmanager
    def kept(self) -> Iterator[Inventory]:
        """Provide the inventory after computing it once; Spark keeps it until the end of the block."""
        with explained(), ExitStack() as stack:
            rows = keep(self.rows, stack)
            # computed by all tasks at once: reading row by row would compute one part after the other
            rows.count()
            yield Inventory(self.version, rows)

    def each(self, kind: str, most: int | None = None) -> Iterator[Row]:
        """Yield the rows of files or of tables, with the problems among them, in the order of the tables and of their
        contents. The driver holds one part at a time."""
        columns = {**TABLE, **OF_FILES, **OF_TABLES, **OF_PROBLEMS}
        rows = self.rows.where(f"row in ('{kind}', 'problem')").orderBy("namespace", "name", *PLACE)
        rows = rows.select("row", *columns)
        for row in (rows if most is None else rows.limit(most)).toLocalIterator():
            yield row.asDict(recursive=True)

    def _rows(self, kind: str, more: Mapping[str, str]) -> DataFrame:
        return self.rows.where(f"row = '{kind}'").select(*TABLE, *more)


def data_files(
    spark: SparkSession,
    catalog: CatalogPlace,
    reference: str = "latest",
    *,
    within: NamespaceName | TableName | None = None,
    files: bool = True,
    statistics: bool = True,
    partitions: int | None = None,
) -> Inventory:
    """Return the inventory of the tables at a version, which is looked up now. `within` limits it to a namespace or a
    table, which must exist. Without `files`, no manifest is read, and the inventory has only tables and problems."""
    pinned = pin(catalog.store, parse_reference(reference))
    # an expired version that an export keeps can be read only by the export's name
    at = {"version": pinned.version} if pinned.version >= pinned.oldest else {"snapshot": reference}
    snapshot = open_pinned(catalog.store, pinned)
    if isinstance(within, TableName):
        snapshot.table(within)
    elif within is not None:
        snapshot.namespace(within)
    number = 1 if isinstance(within, TableName) else estimated_objects(snapshot)
    engine = SparkEngine(spark, catalog, partitions)
    parts = engine.parts(number, _TABLES_A_TASK)
    tables = catalog.read(
        spark,
        "objects",
        columns="namespace string, name string, definition string, version long",
        type=Kind.TABLE.word,
        namespace=None if within is None else within.namespace,
        name=within.name if isinstance(within, TableName) else None,
        partitions=parts,
        **at,
    )
    spread = tables.repartition(parts, "namespace", "name")
    manifests = spread.mapInArrow(partial(_to_manifests, catalog, files), ddl(_BETWEEN))
    # round robin, so that each task gets as many manifests: one table may have more than all others. Other rows are
    # passed along, so the first step runs once for all kinds of rows
    spread = manifests.repartition(max(parts, engine.parts(FEW_PARTS, 1)))
    return Inventory(pinned.version, spread.mapInArrow(partial(_to_files, catalog, statistics), ddl(ALL)))


# On the workers


@told
def _to_manifests(
    catalog: CatalogPlace, files: bool, record_batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with closing(catalog.table_files()) as opened:
        yield from batches(look_at_tables(catalog.store, opened, rows_of(record_batches), manifests=files), _BETWEEN)


@told
def _to_files(
    catalog: CatalogPlace, statistics: bool, record_batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with closing(catalog.table_files()) as opened:
        yield from batches(look_at_manifests(opened, rows_of(record_batches), statistics=statistics), ALL)
