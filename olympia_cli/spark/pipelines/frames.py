"""What pipelines do with DataFrames, whatever is in them, and how many tasks there are for them at once.

What is made of files is kept by the executors with the steps that lead to it, which are few. So what is lost with an
executor is made again by Spark itself.
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
    """Spark adapts no plan within: it would make a job of each step, and the number of tasks is given where there is
    much to do. Where a step does not give one there are so many."""
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
    """Keep what a DataFrame is computed to, until the stack is closed."""
    with as_planned(frame.sparkSession):
        kept_frame = frame.persist()

    def free() -> None:
        # that it cannot be freed must not hide what went wrong before
        with suppress(Exception):
            kept_frame.unpersist()

    stack.callback(free)
    return kept_frame


def apart(frame: DataFrame) -> DataFrame:
    """For a join in which each task has some of both sides. Left to itself Spark may send one side to all tasks, by way
    of this process: it takes the size of what a function made for that of what the function was given."""
    return frame.hint("merge")


def together(frames: Iterable[DataFrame]) -> DataFrame:
    """The rows of all of them."""
    return reduce(lambda rows, more: rows.union(more), frames)


def known(frame: DataFrame, nothing: Mapping[str, str], **facts: str) -> DataFrame:
    """What a DataFrame with paths knows of these files, as expressions over its columns; of all else, `nothing`."""
    return frame.selectExpr("path", *(f"{facts.get(name, unknown)} as {name}" for name, unknown in nothing.items()))


@lru_cache(maxsize=1)
def cores_of(spark: SparkSession) -> int:
    """How many tasks the cluster runs at once, as far as it tells."""
    from pyspark.sql.utils import is_remote

    if not is_remote():
        return spark.sparkContext.defaultParallelism
    from pyspark.sql.functions import max, spark_partition_id

    # a server tells by how it divides what nobody divided
    parts = spark.range(100_000).select(spark_partition_id().alias("part"))
    [row] = parts.agg(max("part")).collect()
    return int(row[0]) + 1
