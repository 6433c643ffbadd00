"""The data level of fsck: check that the files of tables exist.

The check goes down floor by floor, in the order and by the rules of `iceberg/data_checks`. Each floor is a DataFrame
that is made from the floor above, and has each file once.

`check_data(engine, tables, number)` takes a DataFrame of about `number` tables and views. Its columns `kind`,
`namespace`, `name` and `location` are strings, with a row per metadata location and name. It returns the findings, and
how many files of each floor it checked.

If a file is wrong, joins from the file upwards find its tables. The driver receives the first wrong files of each
table, the metadata that leads to wrong files, and counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from olympia_cli.iceberg.data_parts import NO_METADATA, READ, Below, Floor, judge_size, look_into
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.names import Kind
from olympia_cli.ops.fsck.data import DataFinding
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.spark.batches import batches
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pipelines.frames import keep, together
from olympia_cli.spark.pipelines.fsck_data_hits import FloorRows, data_findings
from olympia_cli.spark.pipelines.fsck_data_rows import (
    BELOW,
    COLUMNS,
    LOOKED,
    SCHEMA,
    VIEW,
    WRONG,
    Row,
    as_text,
    below,
    looked_at,
    wrong,
)
from olympia_cli.spark.pipelines.place import CatalogPlace, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_PARTS_AT_ONCE = 256
_FILES_AT_ONCE = 20_000
_TABLES_A_TASK = 64
"""Each table has one or more files to read and parse."""
_PHASES = {
    Floor.METADATA: "reading the metadata of tables",
    Floor.MANIFEST_LISTS: "reading manifest lists",
    Floor.MANIFESTS: "reading manifests",
    Floor.DATA_FILES: "looking at data files",
}


def check_data(
    engine: SparkEngine, tables: DataFrame, number: int, *, progress: Progress = SILENT
) -> tuple[list[DataFinding], Counter[str]]:
    """Return the findings about the data of these tables, as the local engine finds them, and how many files were
    checked per floor: metadata, manifest_lists, manifests, data_files. Damage is never raised."""
    with explained(), ExitStack() as stack:
        tables = tables.selectExpr("kind", "namespace", "name", "cast(location as binary) as location")
        parts = engine.parts(number, _TABLES_A_TASK)
        tables = keep(tables.repartition(parts, "location").dropDuplicates(), stack)
        checked: Counter[str] = Counter()
        floors: dict[Floor, FloorRows] = {}
        for floor in Floor:
            above = [floor_rows for floor_rows in floors.values() if floor_rows.named[floor]]
            if not above and floor is not Floor.METADATA:
                continue
            progress.phase(_PHASES[floor])
            expected = sum(floor_rows.named[floor] for floor_rows in above) if above else number
            rows = keep(look_at(engine, floor, tables, above, expected), stack)
            named: Counter[str] = Counter()
            number_wrong = 0
            with engine.job(f"fsck: {_PHASES[floor]}"):
                counts = _numbers(rows)
            for kind, about, count in counts:
                if kind == BELOW:
                    named[about] = count
                elif kind == WRONG:
                    number_wrong = count
                else:
                    checked[about] = count
                    progress.advance(count)
            floors[floor] = FloorRows(rows, named, number_wrong)
        if not any(floor_rows.wrong for floor_rows in floors.values()):
            return [], checked
        progress.phase("finding the tables of damaged files")
        with engine.job("fsck: the tables of damaged files"):
            return data_findings(floors, tables, parts, stack), checked


def _numbers(rows: DataFrame) -> list[Any]:
    """Count the rows of each kind per floor, and the files that tasks checked. The driver learns only these counts of a
    floor. The count also computes the floor."""
    from pyspark.sql.functions import expr

    # a file may state any length, so a sum of lengths could overflow
    number = expr(f"sum(if(row = '{LOOKED}', length, 1))")
    return rows.groupBy("row", "floor").agg(number).collect()


def look_at(
    engine: SparkEngine, floor: Floor, tables: DataFrame, above: Iterable[FloorRows], expected: int
) -> DataFrame:
    """Return what the files of a floor name, and what is wrong with them. `expected` is the highest number of files."""
    from pyspark.sql.functions import max, min

    number = engine.parts(expected, _TABLES_A_TASK if floor in READ else _FILES_AT_ONCE)
    if floor is Floor.METADATA:
        named = tables.selectExpr("location", "kind as what").repartition(number, "location").dropDuplicates()
        named = named.selectExpr("location", "xxhash64(location) as top", "0L as length", "what")
    else:
        named = together(looked.below(floor) for looked in above)
        # files that name it may differ in what they say, and the result must not depend on their order
        named = (
            named.repartition(number, "location")
            .groupBy("location")
            .agg(min("top").alias("top"), max("length").alias("length"), min("what").alias("what"))
        )
    if floor in READ:
        return named.mapInArrow(partial(_read_parts, engine.catalog, floor), SCHEMA)
    # by range: this divides a table of any size evenly, and keeps neighbouring files together, so that they can be
    # listed
    named = named.repartitionByRange(number, "top", "location").sortWithinPartitions("top", "location")
    return named.mapInArrow(partial(_look_at_files, engine.catalog), SCHEMA)


# On the workers


def _read_parts(
    catalog: CatalogPlace, floor: Floor, record_batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    with closing(catalog.table_files()) as files:
        yield from batches(_follow(files, floor, rows_of(record_batches)), COLUMNS)


def _look_at_files(catalog: CatalogPlace, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with closing(catalog.table_files()) as files:
        yield from batches(_judge(files, rows_of(record_batches)), COLUMNS)


def _follow(files: TableFiles, floor: Floor, rows: Iterator[Row]) -> Iterator[Row]:
    looked = 0
    while batch := list(islice(rows, _PARTS_AT_ONCE)):
        for kind in (Kind.TABLE, Kind.VIEW):
            parts = {as_text(row["location"]): row for row in batch if (row["what"] == VIEW) == (kind is Kind.VIEW)}
            if parts.pop("", None) is not None:
                yield wrong(floor, "", NO_METADATA, kind)
            looked += len(parts)
            for location, data in files.read(parts):
                row = parts[location]
                for outcome in look_into(floor, location, row["length"], data, kind):
                    yield below(outcome, row) if isinstance(outcome, Below) else wrong(floor, location, outcome, kind)
    yield looked_at(floor, looked)


def _judge(files: TableFiles, rows: Iterator[Row]) -> Iterator[Row]:
    looked = 0
    while batch := list(islice(rows, _FILES_AT_ONCE)):
        rows_by_location = {as_text(row["location"]): row for row in batch}
        looked += len(rows_by_location)
        groups = [[as_text(row["location"]) for row in group] for _, group in groupby(batch, lambda row: row["top"])]
        for location, size in files.sizes_of_groups(groups):
            row = rows_by_location[location]
            outcome = judge_size(row["what"], row["length"], size)
            if outcome is not None:
                yield wrong(Floor.DATA_FILES, location, outcome)
    yield looked_at(Floor.DATA_FILES, looked)
