"""What nodes name: the ids of definitions, and namespaces. Which of them cannot be right in some version is found by
joins; what exactly is wrong is for others to say. No file is read here.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.ops.fsck.versions import merge
from olympia_cli.spark.pipelines.frames import apart, cut
from olympia_cli.spark.pipelines.place import rows_of
from olympia_cli.spark.pipelines.walk import key_code, named_by

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine


def shared_ids(
    engine: SparkEngine, definitions: DataFrame, nodes: DataFrame, spans: DataFrame, catalog_id: str
) -> list[int]:
    """The ids that two objects of one version have, or an object and the catalog.

    In one version a key is there once. So only an id whose definitions go by several keys can be there twice.
    """
    from pyspark.sql.functions import max, min

    catalog = key_code(catalog_id)
    ids = definitions.where("id is not null").repartition(engine.partitions, "id")
    ids = ids.groupBy("id").agg(min("low").alias("low"), max("high").alias("high"))
    ids = cut(ids.where(f"low != high or id = {catalog}"))
    if ids.isEmpty():
        return []
    some = definitions.select("id", "path", "kind").join(apart(ids.select("id")), "id")
    held = named_by(nodes).select("path", "kind", "holder").join(apart(some), ["path", "kind"])
    reached = held.select("id", "holder").join(apart(spans.withColumnRenamed("path", "holder")), "holder")
    places = reached.selectExpr("id", "struct(first, last) as span").repartition(engine.partitions, "id")
    places = places.groupBy("id").agg({"span": "collect_list"}).withColumnRenamed("collect_list(span)", "spans")
    found = places.mapInArrow(partial(_overlapping, catalog), "id long")
    return sorted(row.id for row in found.collect())


def homeless(engine: SparkEngine, nodes: DataFrame, spans: DataFrame) -> list[str]:
    """The namespaces that are missing in a version that has tables or views in them."""
    words = nodes.selectExpr("path", "explode(needs) as namespace", "false as has")
    words = words.union(nodes.selectExpr("path", "explode(has) as namespace", "true as has"))
    words = words.repartition(engine.partitions, "path").join(apart(spans), "path")
    words = words.selectExpr("namespace", "struct(has, first, last) as span").repartition(
        engine.partitions, "namespace"
    )
    words = words.groupBy("namespace").agg({"span": "collect_list"}).withColumnRenamed("collect_list(span)", "spans")
    return sorted(row.namespace for row in words.mapInArrow(_without_home, "namespace string").collect())


# On the workers


def _overlapping(catalog: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = []
    for row in rows_of(batches):
        spans = sorted((span["first"], span["last"]) for span in row["spans"])
        twice = any(one[1] >= other[0] for one, other in pairwise(spans))
        if twice or row["id"] == catalog:
            found.append(row["id"])
    yield pa.RecordBatch.from_arrays([pa.array(found, pa.int64())], names=["id"])


def _without_home(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = []
    for row in rows_of(batches):
        there = merge((span["first"], span["last"]) for span in row["spans"] if span["has"])
        needed = merge((span["first"], span["last"]) for span in row["spans"] if not span["has"])
        if not all(any(first <= low and high <= last for first, last in there) for low, high in needed):
            found.append(row["namespace"])
    yield pa.RecordBatch.from_arrays([pa.array(found, pa.string())], names=["namespace"])
