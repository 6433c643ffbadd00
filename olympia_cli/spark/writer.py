"""`df.write.format("olympia")`: append rows to one Iceberg table of a catalog.

Spark makes the writer in one process, and sends copies to the executors' Python. It commits or aborts with another
copy, in a separate process. So a writer carries only the state that it has from its creation.
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
            from olympia_cli.iceberg.appends import commit

            commit(catalog, {self.begun.destination: files}, self.options.message)

    @failures()
    def abort(self, messages: Iterable[WriterCommitMessage | None]) -> None:
        if self.begun is None:
            return
        with iceberg_catalog(self.options) as catalog:
            from olympia_cli.iceberg.appends import give_up

            give_up(catalog, [self.begun.destination])
