"""The engine of a pipeline: a Spark session, the catalog as its workers reach it, and the division of the work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from olympia_cli.errors import InvalidOption
from olympia_cli.spark.accumulators import publish
from olympia_cli.spark.options import check_shared
from olympia_cli.spark.pipelines.frames import cores_of
from olympia_cli.spark.pipelines.place import CatalogPlace
from olympia_cli.spark.run import Run
from olympia_cli.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ALONE = 50_000
"""The driver reads up to this many files itself: that takes as long as Spark takes to start its Python workers."""

FEW_PARTS = 64
"""A step may always have this many tasks: a cluster may be small when asked for its size, and grow with the work."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """`partitions` is the number of tasks per step, if the caller sets it. The driver reads up to `alone`
    files itself."""

    spark: SparkSession
    catalog: CatalogPlace
    partitions: int | None = None
    alone: int = ALONE
    run: Run = field(default_factory=Run)

    def parts(self, rows: int, least: int) -> int:
        """Return the number of tasks for `rows` rows. `least` rows are some hundred milliseconds of work: a task with
        fewer rows costs more than its work. A task has at most about 16 times as many, which limits the work lost with
        a machine."""
        if self.partitions is not None:
            return max(1, min(self.partitions, rows))
        most = max(FEW_PARTS, 4 * cores_of(self.spark), rows // (16 * least))
        return max(1, min(-(-rows // least), most))

    def job(self, what: str) -> AbstractContextManager[None]:
        """Describe the jobs within the block, for Spark's pages, its event log and the run's metrics: `fsck: nodes,
        level 2 of 3`."""
        return self.run.step(self.spark, what)


@contextmanager
def spark_engine(
    uri: str,
    storage: Mapping[str, object] | None = None,
    *,
    master: str | None = None,
    remote: str | None = None,
    partitions: int | None = None,
    settings: Mapping[str, str] | None = None,
    verbose: bool = False,
    command: str = "work",
    run: Run | None = None,
) -> Iterator[SparkEngine]:
    """Provide Spark for the catalog at a location, and translate its errors within the block into ours. Stop a session
    that was started here at the end. Jobs without a description are named after the command."""
    place, run = place_for(uri, storage), run or Run()
    with spark_session(master=master, remote=remote, settings=settings, verbose=verbose) as spark:
        with place.proven(run.note) as proven, run.step(spark, command):
            yield SparkEngine(spark, proven, partitions, ALONE, run)
        publish(spark, command, run)


def place_for(uri: str, storage: Mapping[str, object] | None = None) -> CatalogPlace:
    """Return a location in a form that can be sent to other processes."""
    check_shared(uri)
    return CatalogPlace.at(uri, {name: _text(name, value) for name, value in (storage or {}).items()})


def _text(name: str, value: object) -> str:
    """Return a storage option as text, as Spark's options are."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidOption(
        f"the storage option {name} is not a plain value, and cannot be sent to Spark's executors",
        hint="give it to the SDKs on each machine, or use --engine local",
    )
