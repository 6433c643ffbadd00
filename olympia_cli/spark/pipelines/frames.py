"""Operations on DataFrames of any content, and the number of tasks that a cluster runs at once.

Executors keep the rows of a DataFrame together with the steps that compute them, which are few. So Spark itself
computes again what is lost with an executor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from functools import lru_cache, reduce
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_ADAPTIVE, _SHUFFLED = "spark.sql.adaptive.enabled", "spark.sql.shuffle.partitions"
_FEW = 4


@contextmanager
def as_planned(spark: SparkSession, parts: int = _FEW) -> Iterator[None]:
    """Turn off Spark's adaptive plans within the block: they would make a job of each step. `parts` is the number of
    tasks of a step that does not set its own."""
    settings = spark.conf
    before = {name: settings.get(name, default) for name, default in ((_ADAPTIVE, "true"), (_SHUFFLED, "200"))}
    settings.set(_ADAPTIVE, "false")
    settings.set(_SHUFFLED, str(parts))
    try:
        yield
    finally:
        for name, value in before.items():
            settings.set(name, value or "")


def keep(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """Persist a DataFrame until the stack is closed."""
    with as_planned(frame.sparkSession):
        kept_frame = frame.persist()

    def free() -> None:
        # a failure to free must not hide an earlier error
        with suppress(Exception):
            kept_frame.unpersist()

    stack.callback(free)
    return kept_frame


def apart(frame: DataFrame) -> DataFrame:
    """Make a join divide both sides among the tasks. Spark might otherwise send one side to all tasks, through the
    driver: it estimates the size of a function's output as that of its input."""
    return frame.hint("merge")


def together(frames: Iterable[DataFrame]) -> DataFrame:
    """Return the union of the DataFrames."""
    return reduce(lambda rows, more: rows.union(more), frames)


def known(frame: DataFrame, nothing: Mapping[str, str], **facts: str) -> DataFrame:
    """Return the facts of a DataFrame about its paths, as expressions over its columns; for other columns,
    `nothing`."""
    return frame.selectExpr("path", *(f"{facts.get(name, unknown)} as {name}" for name, unknown in nothing.items()))


@lru_cache(maxsize=1)
def cores_of(spark: SparkSession) -> int:
    """Return the number of tasks that the cluster runs at once, as far as it tells."""
    from pyspark.sql.utils import is_remote

    if not is_remote():
        return spark.sparkContext.defaultParallelism
    from pyspark.sql.functions import max, spark_partition_id

    # a Connect server tells it only by its default number of partitions
    parts = spark.range(100_000).select(spark_partition_id().alias("part"))
    [row] = parts.agg(max("part")).collect()
    return int(row[0]) + 1
