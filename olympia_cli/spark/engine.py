"""What a pipeline runs on: a Spark session, the catalog as its workers reach it, and into how many parts work goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from olympia_cli.errors import InvalidLocation, InvalidOption
from olympia_cli.spark.pipelines.place import PARTITIONS, CatalogPlace
from olympia_cli.spark.run import Run
from olympia_cli.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """`partitions` is how many tasks share the work of a step."""

    spark: SparkSession
    catalog: CatalogPlace
    partitions: int = PARTITIONS

    run: Run = field(default_factory=Run)

    @contextmanager
    def job(self, what: str) -> Iterator[None]:
        """Spark's pages and its event log say of the jobs within what they do, and the metrics of the run what they
        took: `fsck: nodes, level 2 of 3`."""
        with self.run.step(self.spark, what):
            yield


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
    place, parts = place_for(uri, storage), partitions or PARTITIONS
    # where a step does not say it itself
    shuffles = {"spark.sql.shuffle.partitions": str(parts)}
    run = run or Run()
    with (
        spark_session(master=master, remote=remote, settings=settings, defaults=shuffles, verbose=verbose) as spark,
        place.proven(run.note) as proven,
        run.step(spark, command),
    ):
        yield SparkEngine(spark, proven, parts, run)


def place_for(uri: str, storage: Mapping[str, object] | None = None) -> CatalogPlace:
    """A location as it can be sent to other processes."""
    if uri.lower().startswith("memory:"):
        raise InvalidLocation("memory:// is one process's own, and Spark has many", hint="use a folder or a bucket")
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
