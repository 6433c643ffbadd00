"""`df.write.format("olympia")`: rows appended to one Iceberg table of a catalog.

Spark makes the writer in one process, sends copies to the executors' Python, and commits or gives up with another copy,
in a process of its own. So nothing is remembered from one to the next but what is in it from the start.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from olympia_cli.errors import InvalidOption
from olympia_cli.spark.appending import Append, begin, iceberg_catalog
from olympia_cli.spark.failures import failures
from olympia_cli.spark.options import WriteOptions

if TYPE_CHECKING:
    from pyarrow import RecordBatch


@dataclass(frozen=True)
class Written(WriterCommitMessage):
    """The data files of one task."""

    files: tuple[Any, ...] = ()


@dataclass(frozen=True)
class AppendWriter(DataSourceArrowWriter):
    """`begun` is None when an append of that name is in the table already: nothing is written then."""

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
            # Spark waits until somebody takes them
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
            from olympia_cli.iceberg.appends import commit

            commit(catalog, {self.begun.destination: files}, self.options.message)

    @failures()
    def abort(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        if self.begun is None:
            return
        with iceberg_catalog(self.options) as catalog:
            from olympia_cli.iceberg.appends import give_up

            give_up(catalog, [self.begun.destination])
