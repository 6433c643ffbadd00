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
from olympia_cli.importers import LocalFooters, ParquetFile, ParquetFooter, open_io
from olympia_cli.importers.deltacat import Metadata, Outcome, Piece, Rewriting, TableVersion, Unseen
from olympia_cli.ops.executor import divide
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained, told
from olympia_cli.spark.pins import arrow_schema, ddl
from olympia_cli.spark.pipelines.place import rows_of
from olympia_cli.spark.proof import Proof, leave

FOOTER_WEIGHT = 16
"""Cost of a footer on the driver, in definitions: the driver opens a file, and parses its footer."""

FILES_A_TASK = 256
FILES_A_JOB = 50_000
"""The driver's memory holds the footers of this many files at once, and those of one more table."""

_FOOTER_ROW = {"at": "long", "host": "string", "footer": "binary"}
_FOOTER_SCHEMA = arrow_schema(_FOOTER_ROW)
_AT_ONCE = 64


@dataclass(frozen=True, slots=True)
class SparkFooters:
    """`properties` are PyIceberg's for the files below `base`, and may hold secrets."""

    engine: SparkEngine
    base: str
    properties: Mapping[str, str] = field(repr=False)
    at_once: int = FILES_A_JOB

    def read(self, files: Sequence[ParquetFile]) -> Iterator[ParquetFooter | str]:
        here = LocalFooters(self.base, open_io(self.base, self.properties))
        if len(files) * FOOTER_WEIGHT <= self.engine.alone:
            yield from here.read(files)
            return
        for start in range(0, len(files), self.at_once):
            yield from self._by_tasks(files[start : start + self.at_once], here)

    def _by_tasks(self, files: Sequence[ParquetFile], here: LocalFooters) -> Iterator[ParquetFooter | str]:
        engine, number = self.engine, len(files)
        parts = engine.parts(number, FILES_A_TASK)
        shares = divide(list(enumerate(files)), parts)
        look = partial(_look, self.base, dict(self.properties), shares)
        with explained(), engine.job("import parquet: footers"):
            rows = engine.spark.range(0, parts, 1, parts).mapInArrow(look, ddl(_FOOTER_ROW)).toArrow()
        footers: list[ParquetFooter | str] = [""] * number
        hosts = {}
        for row in rows_of(rows.to_batches()):
            footers[row["at"]] = pickle.loads(row["footer"])
            hosts[row["at"]] = row["host"]
        sizes = [footer.metadata.serialized_size for footer in footers if isinstance(footer, ParquetFooter)]
        engine.run.read(len(sizes), sum(sizes))
        failed = [at for at in range(number) if isinstance(footers[at], str)]
        for at, footer in zip(failed, here.read([files[at] for at in failed]), strict=True):
            if isinstance(footer, ParquetFooter):
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
            yield pa.RecordBatch.from_pydict(columns, schema=_FOOTER_SCHEMA)


# Partitions of DeltaCAT rewritten by tasks, one by one: executors read, merge and write, and the driver commits.
#
# The destination folder has a proof file. The source is only read. If a task does not see a file as it was listed, the
# driver checks the file before it believes the task.

_REWRITE_ROW = {"at": "long", "host": "string", "files": "binary"}
_REWRITE_SCHEMA = arrow_schema(_REWRITE_ROW)


@dataclass(frozen=True, slots=True)
class SparkRewriter:
    """`source` and `dest` are PyIceberg's properties for the files below `base` and for the tables' files. They may
    hold secrets."""

    engine: SparkEngine
    base: str
    source: Mapping[str, str] = field(repr=False)
    dest: Mapping[str, str] = field(repr=False)

    def write(self, metadata: Metadata, version: TableVersion, pieces: Sequence[Piece]) -> list[Outcome]:
        work, number = Rewriting.of(self.base, self.source, self.dest, metadata, version, pieces), len(pieces)
        proof = leave(work.store)
        try:
            with explained(), self.engine.job("import deltacat: rewrite"):
                numbers = self.engine.spark.range(0, number, 1, self.engine.parts(number, 1))
                rows = numbers.mapInArrow(partial(_write, work, proof), ddl(_REWRITE_ROW)).toArrow()
        finally:
            work.store.delete_many([proof.path])
        outcomes: list[Outcome] = [""] * number
        for row in rows_of(rows.to_batches()):
            outcome = pickle.loads(row["files"])
            if isinstance(outcome, Unseen) and work.sees(outcome):
                raise ExecutorUnprepared(
                    f"the executor on {row['host']} does not see the same {outcome.path} below {self.base}",
                    hint="let every machine reach the same files: a folder must be mounted on all of them",
                )
            outcomes[row["at"]] = (
                f"{outcome.path} changed since it was listed" if isinstance(outcome, Unseen) else outcome
            )
        return outcomes


# On the workers


@told
def _write(work: Rewriting, proof: Proof, numbers: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    proof.check(work.store)
    for row in rows_of(numbers):
        files = pickle.dumps(work.write(work.pieces[row["id"]]))
        columns = {"at": [row["id"]], "host": [socket.gethostname()], "files": [files]}
        yield pa.RecordBatch.from_pydict(columns, schema=_REWRITE_SCHEMA)
