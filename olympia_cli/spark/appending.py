"""Rows of DataFrames appended to Iceberg tables: executors write the files, the driver commits once.

`append` does it for several tables in one commit; `writer` is the same for one, behind Spark's own `df.write`.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import ExecutorUnprepared, InvalidOption
from olympia_cli.spark.failures import explained, told
from olympia_cli.spark.options import ICEBERG, STORAGE, WriteOptions, parse_write_options
from olympia_cli.spark.pins import store_at
from olympia_cli.spark.proof import Proof, leave
from olympia_cli.spark.run import Run

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from olympia_cli.iceberg.appends import Destination
    from olympia_cli.iceberg.catalog import OlympiaCatalog

_FILES = "files binary"


@dataclass(frozen=True, slots=True)
class Append:
    """What tasks are sent: where they write, and what they must see there first."""

    destination: Destination
    proof: Proof

    def write(self, batches: Iterable[pa.RecordBatch]) -> tuple[Any, ...]:
        """The data files that became of the rows."""
        from olympia_cli.iceberg.appends import write_rows
        from olympia_cli.iceberg.failures import told_as_ours
        from olympia_cli.spark.iceberg_rows import IcebergTable, load

        self.proof.check(self.destination.store)
        to = self.destination
        table = load(IcebergTable(str(to.name), to.metadata_location, to.properties))
        with told_as_ours():
            return tuple(write_rows(table.metadata, table.io, to.folder, batches))


def begin(options: WriteOptions, schema: StructType) -> Append | None:
    """Look at the table and at the columns, and choose where files go. None if an append of that name is there."""
    from olympia_cli.iceberg.identifiers import identifier_of
    from olympia_cli.spark.iceberg_rows import check_rows, file_properties

    with iceberg_catalog(options) as catalog:
        from olympia_cli.iceberg.appends import destination, was_done

        table = catalog.load_table(identifier_of(options.table))
        check_rows(table.schema(), schema)
        if was_done(table.metadata, options.run):
            return None
        target = destination(table, options.table, options.run, file_properties(options))
    return Append(target, leave(target.store))


@contextmanager
def iceberg_catalog(options: WriteOptions) -> Iterator[OlympiaCatalog]:
    """The catalog for PyIceberg; what it raises within comes out as one of our errors."""
    try:
        from olympia_cli.iceberg.catalog import OlympiaCatalog
        from olympia_cli.iceberg.failures import told_as_ours
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
    """Append DataFrames to tables, `{"sales.orders": df, …}`, all in one commit; the version that it became.

    With `run`, a name for this very append, one that was committed under it before is not made again: None, as when
    there are no rows. Columns that do not fit, or a run that some of the tables have and others, which are to get rows,
    have not, are an InvalidOption before anything is written. When it fails nothing is committed, and what was written
    is removed; a CommitUnknown says where it is kept.
    """
    from olympia_cli.spark.registration import register

    if not frames:
        raise InvalidOption("there is nothing to append", hint="name tables, and a DataFrame for each")
    common_options = {f"{STORAGE}{name}": value for name, value in (storage or {}).items()}
    common_options |= {f"{ICEBERG}{name}": value for name, value in (iceberg or {}).items()}
    common_options |= {"catalog": catalog, "message": message} | ({} if run is None else {"run": run})
    options = {name: parse_write_options({**common_options, "table": name}) for name in frames}
    register(spark)
    with iceberg_catalog(next(iter(options.values()))) as opened:
        from olympia_cli.iceberg.appends import commit, give_up, partly_done

        begun: dict[str, Append] = {}
        try:
            for name, frame in frames.items():
                if (new_append := begin(options[name], frame.schema)) is not None:
                    begun[name] = new_append
            if done_tables := [options[name].table for name in frames if name not in begun]:
                # the run before may have had no rows for a table either
                with explained():
                    lacking = [options[name].table for name in begun if not frames[name].isEmpty()]
                if lacking:
                    raise partly_done(run, done_tables, lacking)
                give_up(opened, (new_append.destination for new_append in begun.values()))
                return None
            with explained():
                written = {
                    new_append.destination: _written(spark, frames[name], new_append)
                    for name, new_append in begun.items()
                }
            return commit(opened, written, message)
        except BaseException:
            give_up(opened, (new_append.destination for new_append in begun.values()))
            raise


def _written(spark: SparkSession, frame: DataFrame, begun: Append) -> list[Any]:
    """Have executors write a frame; the data files. One that does not see what is here fails it, although others could
    do its work."""
    with Run().step(spark, f"append: {begun.destination.name}"):
        rows = frame.mapInArrow(partial(_write, begun), _FILES).collect()
    return [file for row in rows for file in pickle.loads(row.files)]


@told
def _write(begun: Append, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    yield pa.RecordBatch.from_pydict({"files": pa.array([pickle.dumps(begun.write(batches))], pa.binary())})
