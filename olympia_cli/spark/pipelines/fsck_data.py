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
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import Window, functions

from olympia_cli.iceberg import TableFiles
from olympia_cli.iceberg.data_checks import (
    EACH,
    NO_METADATA,
    READ,
    TABLES,
    UNSEEN,
    Below,
    DataFindings,
    Floor,
    Wrong,
    WrongFiles,
    judge_size,
    look_into,
    store_of,
)
from olympia_cli.names import Kind, NamespaceName, TableName, ViewName, as_found
from olympia_cli.ops.fsck import DataFinding
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pins import batches, ddl
from olympia_cli.spark.pipelines.place import CatalogPlace, apart, keep, rows_of, together

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The rows in which `fsck_data` keeps its results: named files, wrong files, and numbers of checked files.
#
# Texts from files are bytes here: they may not be text to Spark, and as bytes they sort as they do in Python.

BELOW, WRONG, LOOKED = "below", "wrong", "looked"
"""Kinds of rows: a file that another file names; what is wrong with a file; how many files a task checked."""

VIEW = Kind.VIEW.word
"""The value of `what` for a view's metadata. For data files, `what` is the kind of file."""

# `top` is a number for a table that the file belongs to: files of one table lie together.
COLUMNS = {
    "row": "string",
    "floor": "string",
    "location": "binary",
    "above": "binary",
    "top": "long",
    "length": "long",
    "what": "string",
    "code": "string",
    "message": "binary",
    "store": "binary",
}
SCHEMA = ddl(COLUMNS)
_MOST = 2**63 - 1

Row = dict[str, Any]


def below(file: Below, above: Row) -> Row:
    """Return the row of a file that the file of the row `above` names."""
    return {
        "row": BELOW,
        "floor": file.floor.value,
        "location": as_data(file.location),
        "above": above["location"],
        "top": above["top"],
        # a foreign file may state any length, and the column has limits
        "length": max(-_MOST, min(file.length, _MOST)),
        "what": file.what,
    }


def wrong(floor: Floor, location: str, fault: Wrong, kind: Kind = Kind.TABLE) -> Row:
    """Return the row of what is wrong with a file of an object of this kind."""
    return {
        "row": WRONG,
        "floor": floor.value,
        "location": as_data(location),
        "what": kind.word,
        "code": fault.code,
        "message": as_data(fault.message),
        "store": as_data(store_of(location)) if fault.code == UNSEEN else None,
    }


def looked_at(floor: Floor, number: int) -> Row:
    return {"row": LOOKED, "floor": floor.value, "length": number}


def as_data(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def as_text(data: bytes) -> str:
    return data.decode("utf-8", "surrogatepass")


# The tables that wrong files hit, found from the file upwards, and the first wrong files of each table.
#
# Joins and windows divide the work. The driver receives only what the findings name and count, and the metadata that
# leads to wrong files.

_NAME = ("namespace", "name", "kind")


@dataclass(frozen=True, slots=True)
class FloorRows:
    """The rows of a floor, how many files of each other floor they name, and how many files are wrong."""

    rows: DataFrame
    named: Counter[str]
    wrong: int

    def below(self, floor: Floor) -> DataFrame:
        """Return the files of another floor that this floor names."""
        return self.rows.where(f"row = '{BELOW}' and floor = '{floor}'")


def data_findings(
    floors: dict[Floor, FloorRows], tables: DataFrame, partitions: int, stack: ExitStack
) -> list[DataFinding]:
    """Return the findings. `tables` has distinct rows of kind, namespace, name and location."""
    hits = keep(_tables_hit(floors, tables, partitions), stack)
    findings = DataFindings()
    for row in _first_files(hits.where(f"code <> '{UNSEEN}'"), (*_NAME, "code"), EACH):
        _add(findings.files(_name(row), row.code), row)
    _add_stores(findings, hits.where(f"code = '{UNSEEN}'"))
    return list(findings.all())


def _tables_hit(floors: dict[Floor, FloorRows], tables: DataFrame, partitions: int) -> DataFrame:
    """Return each wrong file with each table that needs it and each metadata location that leads to it. Rows may occur
    twice. The columns are code, path, message, store, kind, namespace, name, location."""
    # wrong files by floor; `at` is the file of that floor whose tables need them
    hits: dict[Floor, list[DataFrame]] = {floor: [] for floor in Floor}
    for floor in reversed(floors):
        if floors[floor].wrong:
            columns = ("code", "location as path", "message", "store", f"{_at('what')} as at")
            hits[floor].append(floors[floor].rows.where(f"row = '{WRONG}'").selectExpr(*columns))
        for above, looked in floors.items():
            if hits[floor] and looked.named[floor]:
                ways = apart(looked.below(floor).selectExpr("location as at", "above"))
                up = together(hits[floor]).repartition(partitions, "at").join(ways, "at").drop("at")
                hits[above].append(up.withColumnRenamed("above", "at").dropDuplicates(["code", "path", "at"]))
    named = apart(tables.selectExpr(f"{_at('kind')} as at", "kind", "namespace", "name", "location"))
    return together(hits[Floor.METADATA]).repartition(partitions, "at").join(named, "at").drop("at")


def _add_stores(findings: DataFindings, hits: DataFrame) -> None:
    counts = hits.groupBy("store").agg(
        functions.min(functions.struct("path", "message")), functions.count_distinct(*_NAME)
    )
    stores = {}
    for uri, (path, reason), total in counts.collect():
        store = stores[as_text(uri)] = findings.store(as_text(uri), as_text(path), as_text(reason))
        store.total = total
    order = Window.partitionBy("store").orderBy(*_NAME)
    first = hits.withColumn("table", functions.dense_rank().over(order)).where(f"table <= {TABLES}")
    for row in _first_files(first, ("store", *_NAME), 1):
        files = stores[as_text(row.store)].files(_name(row))
        assert files is not None
        _add(files, row)


def _first_files(hits: DataFrame, table: tuple[str, ...], most: int) -> list[Any]:
    """Return a row for each of the first `most` files of each table, and one for all its other files. A row has the
    metadata locations that lead to the file, and the number of the table's wrong files up to it."""
    placed = hits.withColumn("place", functions.dense_rank().over(Window.partitionBy(*table).orderBy("path")))
    placed = placed.selectExpr("*", f"if(place <= {most}, path, null) as first")
    return (
        placed.groupBy(*table, "first")
        .agg(
            functions.min("message").alias("message"),
            functions.max("place").alias("total"),
            functions.collect_set("location").alias("locations"),
        )
        .collect()
    )


def _add(files: WrongFiles, row: Any) -> None:
    locations = [as_text(location) for location in row.locations]
    files.total = max(files.total, row.total)
    if row.first is None:
        files.rest.update(locations)
    else:
        files.add(as_text(row.first), as_text(row.message), locations)


def _at(kind: str) -> str:
    """Return the SQL key by which the objects of a file are found. A view and a table with one metadata location have
    two keys: a fault of a view's metadata is not a fault of a table's."""
    return f"if({kind} = '{VIEW}', concat(x'00', location), location)"


def _name(row: Any) -> TableName | ViewName:
    name = as_found(Kind.VIEW if row.kind == VIEW else Kind.TABLE, row.namespace, row.name)
    assert not isinstance(name, NamespaceName)
    return name


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
    # a file may state any length, so a sum of lengths could overflow
    number = functions.expr(f"sum(if(row = '{LOOKED}', length, 1))")
    return rows.groupBy("row", "floor").agg(number).collect()


def look_at(
    engine: SparkEngine, floor: Floor, tables: DataFrame, above: Iterable[FloorRows], expected: int
) -> DataFrame:
    """Return what the files of a floor name, and what is wrong with them. `expected` is the highest number of files."""
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
            .agg(
                functions.min("top").alias("top"),
                functions.max("length").alias("length"),
                functions.min("what").alias("what"),
            )
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
