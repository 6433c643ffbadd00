"""A catalog's location, in the form that is sent to Spark's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from olympia_cli.format.paths import FileKind
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.ops.walk.files import Files
from olympia_cli.spark.batches import batches, ddl
from olympia_cli.spark.conditions import Conditions
from olympia_cli.spark.failures import told
from olympia_cli.spark.files import COLUMNS, FilePart, plan_files, read_files
from olympia_cli.spark.options import STORAGE
from olympia_cli.spark.pins import proven_store, store_at
from olympia_cli.spark.pipelines.frames import cores_of
from olympia_cli.spark.proof import Leaving, Proof, leaving
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class CatalogPlace:
    """A catalog's location, the options of its store, which may hold secrets, and the proof that every
    worker must see."""

    uri: str
    storage: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    proof: Leaving | Proof | None = None

    @classmethod
    def at(cls, uri: str, storage: Mapping[str, str] | None = None) -> CatalogPlace:
        return cls(uri, tuple(sorted((storage or {}).items())))

    @property
    def store(self) -> Store:
        """The store, opened once per process, and returned only if it is the driver's store."""
        return proven_store(self.uri, self.storage, self.proof if isinstance(self.proof, Proof) else None)

    @contextmanager
    def proven(self, note: Callable[[str], None] = lambda text: None) -> Iterator[CatalogPlace]:
        """Provide the same location with a proof for other processes, until the end of the block."""
        with leaving(store_at(self.uri, self.storage), note) as proof:
            yield replace(self, proof=proof)

    def files(self) -> Files:
        """Open the catalog's files for a task."""
        return Files(self.store, lambda: False)

    def table_files(self) -> TableFiles:
        """Open the files of the catalog's tables, wherever they are. The caller closes the result."""
        return TableFiles(dict(self.storage), self.uri.partition("://")[0])

    def read(self, spark: SparkSession, what: str, *, columns: str | None = None, **options: object) -> DataFrame:
        """Read one of the catalog's tables through the data source, without the options that are None."""
        reader = spark.read.format("olympia").option("catalog", self.uri)
        reader = reader.options(**{STORAGE + name: value for name, value in self.storage})
        options["proof"] = self.proof.proof if isinstance(self.proof, Leaving) else self.proof
        reader = reader.options(**{name: str(value) for name, value in options.items() if value is not None})
        if columns is not None:
            reader = reader.schema(columns)
        return reader.load(what)

    def list_files(self, spark: SparkSession, partitions: int, kind: FileKind | None = None) -> DataFrame:
        """Return all files of a listing, or those of a kind: path, kind, bytes, modified_at.

        The data source returns the same rows, but Spark would start extra processes to plan it.
        """
        conditions = Conditions({} if kind is None else {"kind": kind.value})
        parts = tuple(plan_files(self.uri, conditions, partitions, cores_of(spark)))
        numbers = spark.range(0, len(parts), 1, len(parts))
        return numbers.mapInArrow(partial(_list, self, parts, conditions), ddl(COLUMNS))


@told
def _list(
    place: CatalogPlace, parts: Sequence[FilePart], conditions: Conditions, numbers: Iterable[RecordBatch]
) -> Iterator[RecordBatch]:
    own = place.proof.path if isinstance(place.proof, Proof) else None
    for row in rows_of(numbers):
        files = read_files(place.store, parts[row["id"]], conditions)
        yield from batches((file for file in files if file["path"] != own), COLUMNS)


def pieces(record_batches: Iterable[RecordBatch], most: int) -> Iterator[RecordBatch]:
    """Split Arrow batches into batches of at most `most` rows."""
    for batch in record_batches:
        for start in range(0, batch.num_rows, most):
            yield batch.slice(start, most)


def rows_of(record_batches: Iterable[RecordBatch]) -> Iterator[dict[str, Any]]:
    """Yield the rows of Arrow batches, with one batch in memory at a time."""
    for batch in record_batches:
        yield from batch.to_pylist()


def values_of(batch: RecordBatch, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Yield the rows of an Arrow batch as tuples of these columns. For millions of rows, a dict per row takes longer
    than the work."""
    return zip(*(batch.column(name).to_pylist() for name in columns), strict=True)
