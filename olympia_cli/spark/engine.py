"""What a pipeline runs on: a Spark session, the catalog as its workers reach it, and who does how much of the work."""

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
"""Up to so many files this process reads itself rather than have a job made of it: they take it as long as Spark takes
to start the Python of its workers."""

FEW_PARTS = 64
"""So many tasks are few for any cluster, also for one that is small when it is asked, and grows with the work."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """`partitions` is how many tasks share the work of a step, if somebody says so; up to `alone` files are read by the
    driver itself."""

    spark: SparkSession
    catalog: CatalogPlace
    partitions: int | None = None
    alone: int = ALONE
    run: Run = field(default_factory=Run)

    def parts(self, rows: int, least: int) -> int:
        """Into how many tasks so many rows go. `least` rows are some hundred milliseconds of work: a task with less
        costs more than it does. Of a task with sixteen times as much too much is lost with its machine."""
        if self.partitions is not None:
            return max(1, min(self.partitions, rows))
        most = max(FEW_PARTS, 4 * cores_of(self.spark), rows // (16 * least))
        return max(1, min(-(-rows // least), most))

    def job(self, what: str) -> AbstractContextManager[None]:
        """Spark's pages and its event log say of the jobs within what they do, and the metrics of the run what they
        took: `fsck: nodes, level 2 of 3`."""
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
    """Spark for the catalog at a location; what it raises within comes out as one of our errors. A session that is
    started for it is stopped at the end. Jobs that nobody describes are called after the command."""
    place, run = place_for(uri, storage), run or Run()
    with spark_session(master=master, remote=remote, settings=settings, verbose=verbose) as spark:
        with place.proven(run.note) as proven, run.step(spark, command):
            yield SparkEngine(spark, proven, partitions, ALONE, run)
        publish(spark, command, run)


def place_for(uri: str, storage: Mapping[str, object] | None = None) -> CatalogPlace:
    """A location as it can be sent to other processes."""
    check_shared(uri)
    return CatalogPlace.at(uri, {name: _text(name, value) for name, value in (storage or {}).items()})


def _text(name: str, value: object) -> str:
    """Spark's options are text."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidOption(
        f"the storage option {name} is not a plain value, and cannot be sent to Spark's executors",
        hint="give it to the SDKs on each machine, or use --engine local",
    )
