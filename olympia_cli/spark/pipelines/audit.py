"""The audit log: the actions of each version, and who committed them, over all versions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from olympia_cli.names import parse_reference
from olympia_cli.spark.pins import pin
from olympia_cli.spark.pipelines.output import write_parquet
from olympia_cli.spark.pipelines.place import CatalogPlace

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


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
