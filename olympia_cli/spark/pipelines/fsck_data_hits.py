"""The tables that wrong files hit, found from the file upwards, and the first wrong files of each table.

Joins and windows divide the work. The driver receives only what the findings name and count, and the metadata that
leads to wrong files.
"""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from olympia_cli.iceberg.data_findings import EACH, TABLES, DataFindings, WrongFiles
from olympia_cli.iceberg.data_parts import UNSEEN, Floor
from olympia_cli.names import Kind, NamespaceName, TableName, ViewName, as_found
from olympia_cli.ops.fsck.data import DataFinding
from olympia_cli.spark.pipelines.frames import apart, keep, together
from olympia_cli.spark.pipelines.fsck_data_rows import BELOW, VIEW, WRONG, as_text

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


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
    from pyspark.sql import Window
    from pyspark.sql.functions import count_distinct, dense_rank, min, struct

    counts = hits.groupBy("store").agg(min(struct("path", "message")), count_distinct(*_NAME))
    stores = {}
    for uri, (path, reason), total in counts.collect():
        store = stores[as_text(uri)] = findings.store(as_text(uri), as_text(path), as_text(reason))
        store.total = total
    order = Window.partitionBy("store").orderBy(*_NAME)
    first = hits.withColumn("table", dense_rank().over(order)).where(f"table <= {TABLES}")
    for row in _first_files(first, ("store", *_NAME), 1):
        files = stores[as_text(row.store)].files(_name(row))
        assert files is not None
        _add(files, row)


def _first_files(hits: DataFrame, table: tuple[str, ...], most: int) -> list[Any]:
    """Return a row for each of the first `most` files of each table, and one for all its other files. A row has the
    metadata locations that lead to the file, and the number of the table's wrong files up to it."""
    from pyspark.sql import Window
    from pyspark.sql.functions import collect_set, dense_rank, max, min

    placed = hits.withColumn("place", dense_rank().over(Window.partitionBy(*table).orderBy("path")))
    placed = placed.selectExpr("*", f"if(place <= {most}, path, null) as first")
    return (
        placed.groupBy(*table, "first")
        .agg(min("message").alias("message"), max("place").alias("total"), collect_set("location").alias("locations"))
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
