"""What a pipeline runs on: a Spark session, the catalog as its workers reach it, and into how many parts work goes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from olympia_cli.errors import InvalidLocation, InvalidOption
from olympia_cli.spark.pipelines.place import PARTITIONS, CatalogPlace
from olympia_cli.spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """`partitions` is how many tasks share the work of a step."""

    spark: SparkSession
    catalog: CatalogPlace
    partitions: int = PARTITIONS

    @contextmanager
    def job(self, what: str) -> Iterator[None]:
        """Spark's pages and its event log say of the jobs within what they do."""
        from pyspark.sql.utils import is_remote

        if is_remote():
            yield
            return
        context = self.spark.sparkContext
        context.setJobDescription(f"olympia: {what}")
        try:
            yield
        finally:
            context.setJobDescription(None)


@contextmanager
def spark_engine(
    uri: str,
    storage: Mapping[str, object] | None = None,
    *,
    master: str | None = None,
    remote: str | None = None,
    partitions: int | None = None,
    verbose: bool = False,
) -> Iterator[SparkEngine]:
    """Spark for the catalog at a location; what it raises within comes out as one of our errors. A session that is
    started for it is stopped at the end."""
    place, parts = place_for(uri, storage), partitions or PARTITIONS
    # where a step does not say it itself
    settings = {"spark.sql.shuffle.partitions": str(parts)}
    with spark_session(master=master, remote=remote, settings=settings, verbose=verbose) as spark:
        yield SparkEngine(spark, place, parts)


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
