"""Which tables wrong files hit, found from the file up; and of each table the first of its wrong files.

Joins and windows divide the work. This process is told no more than the findings name and count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING

from olympia_cli.iceberg.data_findings import EACH, TABLES, DataFindings, Unseen
from olympia_cli.iceberg.data_parts import UNSEEN, Floor
from olympia_cli.names import TableName
from olympia_cli.ops.fsck.findings import Finding
from olympia_cli.spark.pipelines.fsck_data_rows import BELOW, WRONG, as_text
from olympia_cli.spark.pipelines.live import apart, keep

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Looked:
    """What was found on a floor: its rows, how many files of each other floor they name, and how many are wrong."""

    rows: DataFrame
    named: Counter[str]
    wrong: int

    def below(self, floor: Floor) -> DataFrame:
        """The files of another floor that are named here."""
        return self.rows.where(f"row = '{BELOW}' and floor = '{floor}'")


def data_findings(found: dict[Floor, Looked], tables: DataFrame, partitions: int, stack: ExitStack) -> list[Finding]:
    """The findings of what is wrong; `tables` has namespace, name and location, once each."""
    hits = keep(_tables_hit(found, tables, partitions), stack)
    findings = DataFindings()
    _add_files(findings, hits.where(f"code <> '{UNSEEN}'"))
    _add_stores(findings, hits.where(f"code = '{UNSEEN}'"), stack)
    return list(findings.all())


def _tables_hit(found: dict[Floor, Looked], tables: DataFrame, partitions: int) -> DataFrame:
    """Each wrong file with each table that needs it: code, path, message, store, namespace, name, location."""
    from pyspark.sql.functions import min

    # wrong files, `at` a file by whose tables they are needed
    hits: dict[Floor, list[DataFrame]] = {floor: [] for floor in Floor}
    for floor in reversed(found):
        if found[floor].wrong:
            columns = ("code", "location as path", "message", "store", "location as at")
            hits[floor].append(found[floor].rows.where(f"row = '{WRONG}'").selectExpr(*columns))
        for above, looked in found.items():
            if hits[floor] and looked.named[floor]:
                ways = apart(looked.below(floor).selectExpr("location as at", "above"))
                up = _together(hits[floor]).repartition(partitions, "at").join(ways, "at").drop("at")
                hits[above].append(up.withColumnRenamed("above", "at").dropDuplicates(["code", "path", "at"]))
    named = apart(tables.selectExpr("location as at", "namespace", "name", "location"))
    hit = _together(hits[Floor.METADATA]).repartition(partitions, "at").join(named, "at")
    return hit.groupBy("code", "path", "store", "namespace", "name").agg(
        min("message").alias("message"), min("location").alias("location")
    )


def _add_files(findings: DataFindings, hits: DataFrame) -> None:
    from pyspark.sql import Window
    from pyspark.sql.functions import count, min, row_number

    table = ("namespace", "name", "code")
    counts = hits.groupBy(*table).agg(count("*"), min("location"))
    for namespace, name, code, total, location in counts.collect():
        findings.files(TableName.known_legal(namespace, name), code, as_text(location)).total = total
    first = hits.withColumn("place", row_number().over(Window.partitionBy(*table).orderBy("path")))
    rows = first.where(f"place <= {EACH}").select(*table, "path", "message", "location").collect()
    for namespace, name, code, path, message, location in rows:
        files = findings.files(TableName.known_legal(namespace, name), code, as_text(location))
        files.first.put(as_text(path), as_text(message))


def _add_stores(findings: DataFindings, hits: DataFrame, stack: ExitStack) -> None:
    from pyspark.sql import Window
    from pyspark.sql.functions import count, min, row_number, struct

    tables = hits.groupBy("store", "namespace", "name").agg(
        min(struct("path", "message")).alias("first"), count("*").alias("files"), min("location").alias("location")
    )
    tables = keep(tables, stack)
    for uri, (path, reason), total in tables.groupBy("store").agg(min("first"), count("*")).collect():
        findings.store(as_text(uri), as_text(path), as_text(reason)).total = total
    order = Window.partitionBy("store").orderBy("namespace", "name")
    first = tables.withColumn("place", row_number().over(order)).where(f"place <= {TABLES}")
    for uri, namespace, name, (path, reason), files, location, _ in first.collect():
        store = findings.store(as_text(uri), as_text(path), as_text(reason))
        unseen = Unseen(as_text(location), as_text(path), as_text(reason), files)
        store.first.put(TableName.known_legal(namespace, name), unseen)


def _together(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), frames)
