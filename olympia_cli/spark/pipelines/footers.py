"""The footers of Parquet files, read by tasks. The driver decides what they mean for tables, as without Spark.

No proof file is left beside the files: they belong to another program, and are only read. Each file is its own proof.
If a task finds another length than the driver listed, or cannot read a file, the driver reads the file itself.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from olympia_cli.errors import ExecutorUnprepared
from olympia_cli.importers.parquet import Footer, ParquetFile
from olympia_cli.importers.parquet_footers import LocalFooters, open_io
from olympia_cli.spark.batches import arrow_schema, ddl
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained, told
from olympia_cli.spark.pipelines.place import rows_of
from olympia_cli.spark.versions import split

FOOTER_WEIGHT = 16
"""Cost of a footer on the driver, in definitions: the driver opens a file, and parses its footer."""

FILES_A_TASK = 256
FILES_A_JOB = 50_000
"""The driver's memory holds the footers of this many files at once, and those of one more table."""

_ROW = {"at": "long", "host": "string", "footer": "binary"}
_ARROW = arrow_schema(_ROW)
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class SparkFooters:
    """`properties` are PyIceberg's for the files below `base`, and may hold secrets."""

    engine: SparkEngine
    base: str
    properties: Mapping[str, str] = field(repr=False)
    at_once: int = FILES_A_JOB

    def read(self, files: Sequence[ParquetFile]) -> Iterator[Footer | str]:
        here = LocalFooters(self.base, open_io(self.base, self.properties))
        if len(files) * FOOTER_WEIGHT <= self.engine.alone:
            yield from here.read(files)
            return
        for start in range(0, len(files), self.at_once):
            yield from self._by_tasks(files[start : start + self.at_once], here)

    def _by_tasks(self, files: Sequence[ParquetFile], here: LocalFooters) -> Iterator[Footer | str]:
        engine, number = self.engine, len(files)
        parts = engine.parts(number, FILES_A_TASK)
        shares = split(list(enumerate(files)), parts)
        look = partial(_look, self.base, dict(self.properties), shares)
        with explained(), engine.job("import parquet: footers"):
            rows = engine.spark.range(0, parts, 1, parts).mapInArrow(look, ddl(_ROW)).toArrow()
        footers: list[Footer | str] = [""] * number
        hosts = {}
        for row in rows_of(rows.to_batches()):
            footers[row["at"]] = pickle.loads(row["footer"])
            hosts[row["at"]] = row["host"]
        sizes = [footer.metadata.serialized_size for footer in footers if isinstance(footer, Footer)]
        engine.run.read(len(sizes), sum(sizes))
        failed = [at for at in range(number) if isinstance(footers[at], str)]
        for at, footer in zip(failed, here.read([files[at] for at in failed]), strict=True):
            if isinstance(footer, Footer):
                raise ExecutorUnprepared(
                    f"the executor on {hosts[at]} does not see the same {files[at].path} below {self.base}: "
                    f"{footers[at]}",
                    hint="let every machine reach the same files: a folder must be mounted on all of them",
                )
            footers[at] = footer
        return iter(footers)


# On the workers


@told
def _look(
    base: str,
    properties: dict[str, str],
    shares: Sequence[Sequence[tuple[int, ParquetFile]]],
    numbers: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    footers, host = LocalFooters(base, open_io(base, properties)), socket.gethostname()
    for row in rows_of(numbers):
        share = shares[row["id"]]
        for start in range(0, len(share), _AT_ONCE):
            some = share[start : start + _AT_ONCE]
            pickles = [pickle.dumps(footer) for footer in footers.read([file for _, file in some])]
            columns = {"at": [at for at, _ in some], "host": [host] * len(some), "footer": pickles}
            yield pa.RecordBatch.from_pydict(columns, schema=_ARROW)
