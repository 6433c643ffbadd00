"""A catalog's location, in the form that is sent to Spark's workers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial, reduce
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions

from olympia_cli.format.paths import FileKind
from olympia_cli.iceberg import TableFiles
from olympia_cli.ops.walk import Files
from olympia_cli.spark.failures import told
from olympia_cli.spark.options import STORAGE, Conditions
from olympia_cli.spark.pins import batches, ddl, proven_store, store_at
from olympia_cli.spark.proof import Leaving, Proof, leaving
from olympia_cli.spark.rows import FILE_COLUMNS, FilePart, plan_files, read_files
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
        return Files(self.store)

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
        return numbers.mapInArrow(partial(_list, self, parts, conditions), ddl(FILE_COLUMNS))


@told
def _list(
    place: CatalogPlace, parts: Sequence[FilePart], conditions: Conditions, numbers: Iterable[RecordBatch]
) -> Iterator[RecordBatch]:
    own = place.proof.path if isinstance(place.proof, Proof) else None
    for row in rows_of(numbers):
        files = read_files(place.store, parts[row["id"]], conditions)
        yield from batches((file for file in files if file["path"] != own), FILE_COLUMNS)


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


# Operations on DataFrames of any content, and the number of tasks that a cluster runs at once.
#
# Executors keep the rows of a DataFrame together with the steps that compute them, which are few. So Spark itself
# computes again what is lost with an executor.

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
    # a Connect server tells it only by its default number of partitions
    parts = spark.range(100_000).select(functions.spark_partition_id().alias("part"))
    [row] = parts.agg(functions.max("part")).collect()
    return int(row[0]) + 1
