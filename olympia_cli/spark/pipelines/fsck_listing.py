"""What a listing shows beside what versions reach, as an anti-join; of each code the first few files, and sums."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.ops.fsck.listing import CAN_REST, NAMED, Listing, Quarantine, Sorting, resting_files
from olympia_cli.ops.walk.files import Files
from olympia_cli.spark.batches import text
from olympia_cli.spark.failures import told
from olympia_cli.spark.pipelines.frames import apart, cut, together
from olympia_cli.spark.pipelines.place import CatalogPlace, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine

_SCHEMA = "path string, bytes long, code string, unless_reached boolean"
_ARROW = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("bytes", pa.int64()),
        pa.field("code", pa.string()),
        pa.field("unless_reached", pa.bool_()),
    ]
)
_RESTING = "path string, reason string"
_ARROW_RESTING = pa.schema([pa.field("path", pa.string()), pa.field("reason", pa.string())])
_ROWS = 4096


def sort_files(engine: SparkEngine, sorting: Sorting) -> DataFrame:
    """All files that are something to speak of if nothing leads to them."""
    files = engine.catalog.list_files(engine.spark, engine.partitions).select("path", "bytes")
    return cut(files.mapInArrow(partial(_sort, sorting), _SCHEMA))


def unreached(engine: SparkEngine, files: DataFrame, reached: Iterable[DataFrame]) -> DataFrame:
    """Those of the files that nothing reaches."""
    known = together(reached)
    going = files.where("unless_reached").repartition(engine.partitions, "path").join(apart(known), "path", "left_anti")
    return cut(going.union(files.where("not unless_reached")))


def paths_frame(engine: SparkEngine, paths: Iterable[str]) -> DataFrame:
    return engine.spark.createDataFrame([(path,) for path in paths], "path string")


def tally(files: DataFrame, listing: Listing, resting: DataFrame | None) -> None:
    """Count files by their codes. Those that rest until a purge are counted as that."""
    if resting is not None:
        can = ", ".join(f"'{code}'" for code in CAN_REST)
        rests = files.where(f"code in ({can})").join(apart(resting), "path", "left_semi")
        [row] = rests.selectExpr("count(*) as files", "sum(bytes) as bytes").collect()
        listing.quarantine.files, listing.quarantine.bytes = row.files, row.bytes or 0
        files = files.join(apart(rests.select("path")), "path", "left_anti")
    totals = files.groupBy("code").agg({"path": "count", "bytes": "sum"}).collect()
    for row in totals:
        code, number, size = row["code"], row["count(path)"], row["sum(bytes)"]
        first = files.where(f"code = '{code}'").orderBy("path").limit(NAMED).select("path", "bytes").collect()
        found = listing.tallies[code]
        found.named = [(one.path, one.bytes) for one in first]
        found.files, found.bytes = number - len(first), size - sum(one.bytes for one in first)


def resting(engine: SparkEngine, quarantine: Quarantine) -> DataFrame | None:
    """The files that rest until a purge; None when there are none. Manifests that cannot be read are told."""
    if not quarantine.manifests:
        return None
    manifests = paths_frame(engine, quarantine.manifests).repartition(len(quarantine.manifests))
    found = cut(manifests.mapInArrow(partial(_read_manifests, engine.catalog), _RESTING))
    for row in found.where("reason is not null").orderBy("path").collect():
        quarantine.not_read(row.path, row.reason)
    return found.where("reason is null").select("path")


# On the workers


@told
def _read_manifests(catalog: CatalogPlace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    files = Files(catalog.store, lambda: False)
    for row in rows_of(batches):
        named = resting_files(files, row["path"])
        if isinstance(named, str):
            yield pa.RecordBatch.from_pylist([{"path": row["path"], "reason": text(named)}], schema=_ARROW_RESTING)
            continue
        for start in range(0, len(named), _ROWS):
            some = [{"path": text(path)} for path in named[start : start + _ROWS]]
            yield pa.RecordBatch.from_pylist(some, schema=_ARROW_RESTING)


def _sort(sorting: Sorting, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        found = [sorting.sort(path) for path in batch.column("path").to_pylist()]
        some = batch.filter(pa.array([one is not None for one in found], pa.bool_()))
        codes, unless = zip(*(one for one in found if one is not None), strict=True) if some.num_rows else ((), ())
        columns = [
            some.column("path"),
            some.column("bytes"),
            pa.array(codes, pa.string()),
            pa.array(unless, pa.bool_()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=_ARROW)
