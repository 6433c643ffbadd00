"""The inventory of data files over all tables of a version, as a DataFrame.

Tables are divided among tasks first, then their manifests. So each task gets a share of all manifests, however large
the table is that they belong to.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.errors import InvalidOption, PathTaken
from olympia_cli.iceberg.inventory import (
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
    look_at_manifests,
    look_at_tables,
)
from olympia_cli.names import Kind, NamespaceName, TableName, parse_reference
from olympia_cli.ops.walk import estimated_objects
from olympia_cli.spark.engine import FEW_PARTS, SparkEngine
from olympia_cli.spark.failures import explained, told
from olympia_cli.spark.pins import open_pinned, pin
from olympia_cli.spark.pipelines.place import CatalogPlace, keep, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Write the results of pipelines where Spark can write.


def write_parquet(frame: DataFrame, path: str) -> None:
    """Write a DataFrame as a folder of Parquet files. Raise PathTaken if the path exists.

    `path` is Spark's: the cluster's settings define the store that it names.
    """
    error = PathTaken(f"{path} already exists and is not an empty folder", hint="choose another folder")
    with _refused("PATH_ALREADY_EXISTS", error):
        # "errorifexists" means the same, and Spark Connect does not know it
        frame.write.mode("error").parquet(path)


def save_table(frame: DataFrame, name: str) -> None:
    """Save a DataFrame as a table in the catalog of the Spark session. Raise PathTaken if the table exists."""
    error = PathTaken(f"Spark has a table {name} already", hint="choose another name")
    with _refused("TABLE_OR_VIEW_ALREADY_EXISTS", error):
        frame.write.mode("error").saveAsTable(name)


@contextmanager
def _refused(condition: str, meaning: PathTaken) -> Iterator[None]:
    """Raise `meaning` if Spark refuses with this error condition."""
    from pyspark.errors import AnalysisException

    with explained():
        try:
            yield
        except AnalysisException as error:
            raise error if error.getCondition() != condition else meaning from None


def spark_path(path: str) -> str:
    """Return a path for Spark. A plain path becomes absolute on this machine, independent of the working directories of
    other processes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"{path[:60]!a} is not text, and Spark's paths are", hint="choose another place") from None
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))


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


# The audit log: the actions of each version, and who committed them, over all versions.


def audit_log(
    spark: SparkSession,
    catalog: CatalogPlace,
    *,
    reference: str = "latest",
    since: str | None = None,
    partitions: int | None = None,
    parquet: str | None = None,
) -> DataFrame:
    """Return a row per action of the versions from `since` (default: the oldest) up to `reference`, oldest first.

    The last version is looked up now, so every use of the log sees the same versions. With `parquet`, the log is
    written there, and the returned rows are the written ones.
    """
    last = pin(catalog.store, parse_reference(reference)).version
    frame = catalog.read(spark, "actions", version=last, since=since, partitions=partitions)
    if parquet is None:
        return frame
    write_parquet(frame, parquet)
    return spark.read.parquet(parquet)
