"""Sweep: the files that nothing reaches, as an anti-join of a listing with what is live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.errors import Damaged
from olympia_cli.format.paths import FileKind, check_pointer
from olympia_cli.ops.expire_manifest import read_manifest
from olympia_cli.ops.expire_sweep import Fate, Sweep
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pipelines.live import apart, keep, live_files
from olympia_cli.spark.pipelines.place import PARTITIONS, CatalogPlace, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_JUDGED = "path string, bytes long, kind string, known boolean, old boolean, key string"
_ARROW = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("bytes", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("known", pa.bool_()),
        pa.field("old", pa.bool_()),
        pa.field("key", pa.string()),
    ]
)
_KEYS = pa.schema([pa.field("key", pa.string())])
_ROWS = 4096
# no path begins with it
_ANYHOW = "\0"


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep found: DataFrames of path, bytes and kind, in no order."""

    dead: DataFrame
    """What may go into quarantine."""
    young: DataFrame
    """Files that nothing reaches and that are too young to say so for sure."""
    unknown: DataFrame
    """What is not a file of this format."""
    live: DataFrame
    """Path and kind of all that stays because a version or a pin reaches it."""


@contextmanager
def dead_files(
    spark: SparkSession,
    catalog: CatalogPlace,
    sweep: Sweep,
    *,
    partitions: int = PARTITIONS,
    definitions: bool = True,
    progress: Progress = SILENT,
) -> Iterator[Swept]:
    """The files of a catalog that nothing reaches any more, and that are past the grace period.

    All that is live is read before, and Damaged is raised when some of it is not whole. What Spark keeps meanwhile is
    freed at the end, and the DataFrames are of no use then. Nothing is written here.
    """
    with explained(), ExitStack() as stack:
        live = live_files(
            spark, catalog, sweep, stack, partitions=partitions, definitions=definitions, progress=progress
        )
        progress.phase("listing all files")
        judged = keep(catalog.read(spark, "files").mapInArrow(partial(_judge, sweep), _JUDGED), stack)
        staying = live.select(live.path.alias("key")).union(_resting(spark, catalog, sweep))
        found = judged.where("known").repartition(partitions, "key").join(apart(staying), "key", "left_anti")
        going = keep(found, stack)
        columns = ("path", "bytes", "kind")
        yield Swept(
            dead=going.where("old").select(*columns),
            young=going.where("not old").select(*columns),
            unknown=judged.where("not known").select(*columns),
            live=live,
        )


def _resting(spark: SparkSession, catalog: CatalogPlace, sweep: Sweep) -> DataFrame:
    """The keys of files that are in quarantine already."""
    paths = spark.createDataFrame([(path,) for path in sweep.manifests], "path string")
    return paths.mapInArrow(partial(_read_manifests, catalog), "key string")


# On the workers


def _judge(sweep: Sweep, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The files that may go, and those that nobody knows.

    The key of a file is what keeps it: its path where being reached does. Others have a key that nothing reaches, so
    that one join does for all of them.
    """
    for batch in batches:
        found = []
        millis = batch.column("modified_at").cast(pa.int64()).to_pylist()
        for row, modified in zip(rows_of([batch.drop_columns(["modified_at"])]), millis, strict=True):
            fate = sweep.fate(row["path"], FileKind(row["kind"]))
            if fate is not Fate.STAYS:
                found.append(
                    {
                        **row,
                        "known": fate is not Fate.UNKNOWN,
                        "old": sweep.is_old(modified // 1000),
                        "key": row["path"] if fate is Fate.UNLESS_REACHED else _ANYHOW + row["path"],
                    }
                )
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=_ARROW)


def _read_manifests(catalog: CatalogPlace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for row in rows_of(batches):
        try:
            files = read_manifest(catalog.store, check_pointer(row["path"], row["path"])).files
        except Damaged:
            # what it named is found again
            continue
        for start in range(0, len(files), _ROWS):
            paths = [file.path for file in files[start : start + _ROWS]]
            keys = [key for path in paths for key in (path, _ANYHOW + path)]
            yield pa.RecordBatch.from_arrays([pa.array(keys, pa.string())], schema=_KEYS)
