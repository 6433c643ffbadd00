"""What nodes name: definitions, each read once, and namespaces. Which of them cannot be right in some version is found
by joins; what exactly is wrong is for others to say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.errors import StoreError
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import Kind
from olympia_cli.ops.fsck.versions import merge
from olympia_cli.ops.walk.facts import look_at_definition
from olympia_cli.ops.walk.files import Files, Place
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.spark.batches import text
from olympia_cli.spark.failures import failures
from olympia_cli.spark.pipelines.cut import cut
from olympia_cli.spark.pipelines.fsck_walk import FilesPlace, key_code
from olympia_cli.spark.pipelines.live import apart
from olympia_cli.spark.pipelines.place import pieces, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine

_SCHEMA = (
    "path string, kind int, level int, low long, high long, sure boolean, keys array<string>, id long, "
    "verified boolean, code string, reason string, location string, bytes long"
)
_ARROW = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("kind", pa.int32()),
        pa.field("level", pa.int32()),
        pa.field("low", pa.int64()),
        pa.field("high", pa.int64()),
        pa.field("sure", pa.bool_()),
        pa.field("keys", pa.list_(pa.string())),
        pa.field("id", pa.int64()),
        pa.field("verified", pa.bool_()),
        pa.field("code", pa.string()),
        pa.field("reason", pa.string()),
        pa.field("location", pa.string()),
        pa.field("bytes", pa.int64()),
    ]
)
_SAID = list(_ARROW)[7:]
_AT_ONCE = 1024


def named_by(nodes: DataFrame) -> DataFrame:
    """A row for each definition that a node names."""
    rows = nodes.selectExpr("path as holder", "level", "readable", "explode(names) as name")
    columns = ("name.path as path", "name.kind as kind", "name.key as code", "name.text as key")
    return rows.selectExpr("holder", "level", "readable", *columns)


def read_definitions(engine: SparkEngine, place: FilesPlace, nodes: DataFrame) -> DataFrame:
    """A row for each definition: the number of its object's id, or what is wrong with it. `low` and `high` differ when
    several keys name it; `sure` says that a node names it that can be read."""
    from pyspark.sql.functions import collect_set, max, min

    named = named_by(nodes).repartition(engine.partitions, "path")
    named = named.groupBy("path", "kind").agg(
        min("level").alias("level"),
        min("code").alias("low"),
        max("code").alias("high"),
        max("readable").alias("sure"),
        collect_set("key").alias("keys"),
    )
    return cut(named.mapInArrow(partial(_read, place), _SCHEMA))


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


def _read(place: FilesPlace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    with failures(), place.files() as files:
        for batch in pieces(batches, _AT_ONCE):
            kinds = batch.column("kind").to_pylist()
            columns = (batch.column(name).to_pylist() for name in ("path", "level"))
            read = files.definitions([Place(*one) for one in zip(*columns, strict=True)])
            judged = [_judge(files, Kind(kind), *one) for kind, one in zip(kinds, read, strict=True)]
            said = [
                pa.array(column, field.type) for column, field in zip(zip(*judged, strict=True), _SAID, strict=True)
            ]
            yield pa.RecordBatch.from_arrays([*batch.columns, *said], schema=_ARROW)


def _judge(files: Files, kind: Kind, place: Place, data: bytes | StoreError) -> tuple[int | bool | str | None, ...]:
    """The columns that are said of a definition, in their order."""
    found = look_at_definition(kind, data, place.path)
    files.looked_at(place, data, found if isinstance(found, Flaw) else None, is_node=False)
    size = len(data) if isinstance(data, bytes) else 0
    if isinstance(found, Flaw):
        return None, None, found.code, text(found.reason), None, size
    definition, verified = found
    location = definition.iceberg_metadata_location if isinstance(definition, TableDef) else ""
    return key_code(definition.id), verified, None, None, text(location) or None, size


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
