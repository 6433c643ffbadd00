"""Where a catalog is, as it is sent to Spark's workers."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from olympia_cli.spark.options import STORAGE
from olympia_cli.spark.pins import store_at
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 64
"""So many tasks share the work of a step unless the caller says otherwise."""


@dataclass(frozen=True, slots=True)
class CatalogPlace:
    """A catalog's location, and the options of its store, which may hold secrets."""

    uri: str
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def at(cls, uri: str, storage: Mapping[str, str] | None = None) -> CatalogPlace:
        return cls(uri, tuple(sorted((storage or {}).items())))

    @property
    def store(self) -> Store:
        """The store, opened once in each process."""
        return store_at(self.uri, self.storage)

    def read(self, spark: SparkSession, what: str, *, columns: str | None = None, **options: object) -> DataFrame:
        """One of the catalog's tables through the data source; options that are None are left out."""
        reader = spark.read.format("olympia").option("catalog", self.uri)
        reader = reader.options(**{STORAGE + name: value for name, value in self.storage})
        reader = reader.options(**{name: str(value) for name, value in options.items() if value is not None})
        if columns is not None:
            reader = reader.schema(columns)
        return reader.load(what)


def rows_of(batches: Iterable[RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows of Arrow batches, one batch in memory at once."""
    for batch in batches:
        yield from batch.to_pylist()
