"""Sweep: the files that nothing reaches, as an anti-join of a listing with what is live."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.format.paths import FileKind
from olympia_cli.ops.expire.sweep import Fate, Sweep, own_version
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pipelines.expire_manifests import Reading, read_manifests
from olympia_cli.spark.pipelines.live import Walk, apart, keep, together
from olympia_cli.spark.pipelines.place import PARTITIONS, CatalogPlace, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_JUDGED = "path string, bytes long, kind string, version long, known boolean, old boolean, key string"
_ARROW = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("bytes", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("known", pa.bool_()),
        pa.field("old", pa.bool_()),
        pa.field("key", pa.string()),
    ]
)
FILE = ("path", "bytes", "kind", "version")
"""What is known of a file that goes; the version is a root's."""
# no path begins with it
_ANYHOW = "/"


@dataclass(frozen=True, slots=True)
class Swept:
    """What a sweep found: DataFrames of path, bytes, kind and version, in no order."""

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
        walk = Walk(spark, catalog, sweep, stack, partitions=partitions, definitions=definitions, progress=progress)
        named = read_manifests(spark, catalog, Reading(sweep.manifests), stack, partitions).files
        progress.phase("listing all files")
        yield swept(judged_files(spark, catalog, sweep, stack), walk.live, named, stack, partitions)


def judged_files(
    spark: SparkSession, catalog: CatalogPlace, sweep: Sweep, stack: ExitStack, *kinds: FileKind
) -> DataFrame:
    """The files that may go, and those that nobody knows; of some kinds, or of all."""
    listed = [catalog.read(spark, "files", kind=kind.value) for kind in kinds] or [catalog.read(spark, "files")]
    return keep(together(listed).mapInArrow(partial(_judge, sweep), _JUDGED), stack)


def swept(judged: DataFrame, live: DataFrame, named: DataFrame, stack: ExitStack, partitions: int) -> Swept:
    """What goes of the judged files, given what lives, and what manifests name, which is in quarantine already."""
    resting = named.selectExpr(f"explode(array(path, concat('{_ANYHOW}', path))) as key")
    staying = live.selectExpr("path as key").union(resting)
    found = judged.where("known").repartition(partitions, "key").join(apart(staying), "key", "left_anti")
    going = keep(found, stack)
    return Swept(
        dead=going.where("old").select(*FILE),
        young=going.where("not old").select(*FILE),
        unknown=judged.where("not known").select(*FILE),
        live=live,
    )


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
                        "version": own_version(row["path"]),
                        "known": fate is not Fate.UNKNOWN,
                        "old": sweep.is_old(modified // 1000),
                        "key": row["path"] if fate is Fate.UNLESS_REACHED else _ANYHOW + row["path"],
                    }
                )
        if found:
            yield pa.RecordBatch.from_pylist(found, schema=_ARROW)
