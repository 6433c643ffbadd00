"""Append rows of DataFrames to Iceberg tables: executors write the files, the driver commits once.

`append` handles several tables in one commit. `writer` handles one table, for Spark's `df.write`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import ExecutorUnprepared, InvalidOption
from olympia_cli.spark.engine import SparkRun
from olympia_cli.spark.failures import explained, failures, told
from olympia_cli.spark.options import ICEBERG, STORAGE, WriteOptions, parse_write_options
from olympia_cli.spark.pins import store_at
from olympia_cli.spark.proof import Proof, leave

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import RecordBatch
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from olympia_cli.iceberg import Destination, OlympiaCatalog

_FILES = "files binary"


@dataclass(frozen=True, slots=True)
class Append:
    """The work that tasks receive: the destination, and the proof that an executor must see there first."""

    destination: Destination
    proof: Proof

    def write(self, batches: Iterable[pa.RecordBatch]) -> tuple[Any, ...]:
        """Write the rows, and return the data files."""
        from olympia_cli.iceberg import told_as_ours, write_rows
        from olympia_cli.spark.iceberg_rows import IcebergTable, load

        self.proof.check(self.destination.store)
        to = self.destination
        table = load(IcebergTable(str(to.name), to.metadata_location, to.properties))
        with told_as_ours():
            return tuple(write_rows(table.metadata, table.io, to.folder, batches))


def begin(options: WriteOptions, schema: StructType) -> Append | None:
    """Check the table and the columns, and choose where the files go. Return None if the table already has an append of
    that name."""
    from olympia_cli.iceberg import identifier_of
    from olympia_cli.spark.iceberg_rows import check_rows, file_properties

    with iceberg_catalog(options) as catalog:
        from olympia_cli.iceberg import destination, was_done

        table = catalog.load_table(identifier_of(options.table))
        check_rows(table.schema(), schema)
        if was_done(table.metadata, options.run):
            return None
        target = destination(table, options.table, options.run, file_properties(options))
    return Append(target, leave(target.store))


@contextmanager
def iceberg_catalog(options: WriteOptions) -> Iterator[OlympiaCatalog]:
    """Open the catalog for PyIceberg, and translate its errors within the block into ours."""
    try:
        from olympia_cli.iceberg import OlympiaCatalog, told_as_ours
    except ImportError as error:
        raise ExecutorUnprepared(
            f"writing Iceberg tables needs PyIceberg, and Spark's Python lacks {error.name or 'it'}",
            hint="install olympia-cli[iceberg] where Spark's Python runs",
        ) from None
    from olympia_cli.spark.iceberg_rows import file_properties

    with told_as_ours():
        yield OlympiaCatalog.of(Catalog(store_at(options.catalog, options.storage)), **file_properties(options))


def append(
    spark: SparkSession,
    catalog: str,
    frames: Mapping[str, DataFrame],
    *,
    message: str = "",
    run: str | None = None,
    storage: Mapping[str, str] | None = None,
    iceberg: Mapping[str, str] | None = None,
) -> int | None:
    """Append DataFrames to tables, `{"sales.orders": df, …}`, in one commit, and return the new version.

    `run` names this append. If the tables already have an append of that name, nothing is written and the result is
    None. The result is also None if there are no rows. Raise InvalidOption before any file is written if columns do not
    fit. Raise it, too, if only some of the tables have the run, and the others would get rows. A failure commits
    nothing and removes the written files; a CommitUnknown names where they are kept.
    """
    from olympia_cli.spark.source import register

    if not frames:
        raise InvalidOption("there is nothing to append", hint="name tables, and a DataFrame for each")
    common_options = {f"{STORAGE}{name}": value for name, value in (storage or {}).items()}
    common_options |= {f"{ICEBERG}{name}": value for name, value in (iceberg or {}).items()}
    common_options |= {"catalog": catalog, "message": message} | ({} if run is None else {"run": run})
    options = {name: parse_write_options({**common_options, "table": name}) for name in frames}
    register(spark)
    with iceberg_catalog(next(iter(options.values()))) as opened:
        from olympia_cli.iceberg import commit_append, give_up_append, partly_done

        begun: dict[str, Append] = {}
        try:
            for name, frame in frames.items():
                if (new_append := begin(options[name], frame.schema)) is not None:
                    begun[name] = new_append
            if done_tables := [options[name].table for name in frames if name not in begun]:
                # the earlier run may have had no rows for these tables either
                with explained():
                    lacking = [options[name].table for name in begun if not frames[name].isEmpty()]
                if lacking:
                    raise partly_done(run, done_tables, lacking)
                give_up_append(opened, (new_append.destination for new_append in begun.values()))
                return None
            with explained():
                written = {
                    new_append.destination: _written(spark, frames[name], new_append)
                    for name, new_append in begun.items()
                }
            return commit_append(opened, written, message)
        except BaseException:
            give_up_append(opened, (new_append.destination for new_append in begun.values()))
            raise


def _written(spark: SparkSession, frame: DataFrame, begun: Append) -> list[Any]:
    """Have executors write a frame, and return its data files. Raise ExecutorUnprepared if an executor does not see the
    driver's files, even if others could do its work."""
    with SparkRun().step(spark, f"append: {begun.destination.name}"):
        rows = frame.mapInArrow(partial(_write, begun), _FILES).collect()
    return [file for row in rows for file in pickle.loads(row.files)]


@told
def _write(begun: Append, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"files": pa.array([pickle.dumps(begun.write(batches))], pa.binary())})


# `df.write.format("olympia")`: append rows to one Iceberg table of a catalog.
#
# Spark makes the writer in one process, and sends copies to the executors' Python. It commits or aborts with another
# copy, in a separate process. So a writer carries only the state that it has from its creation.


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The data files of one task."""

    files: tuple[Any, ...] = ()


@dataclass(frozen=True)
class AppendWriter(DataSourceArrowWriter):
    """`begun` is None if the table already has an append of that name: nothing is written then."""

    options: WriteOptions
    begun: Append | None

    @classmethod
    def begin(cls, options: WriteOptions, schema: StructType, overwrite: bool) -> AppendWriter:
        if overwrite:
            raise InvalidOption("rows are appended here, and none overwritten", hint='use mode("append")')
        return cls(options, begin(options, schema))

    @failures()
    def write(self, iterator: Iterator[RecordBatch]) -> Written:
        if self.begun is None:
            # Spark waits until the rows are consumed
            for _ in iterator:
                pass
            return Written()
        return Written(self.begun.write(iterator))

    @failures()
    def commit(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        if self.begun is None:
            return
        files = [file for message in messages if isinstance(message, Written) for file in message.files]
        with iceberg_catalog(self.options) as catalog:
            from olympia_cli.iceberg import commit_append

            commit_append(catalog, {self.begun.destination: files}, self.options.message)

    @failures()
    def abort(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        if self.begun is None:
            return
        with iceberg_catalog(self.options) as catalog:
            from olympia_cli.iceberg import give_up_append

            give_up_append(catalog, [self.begun.destination])
