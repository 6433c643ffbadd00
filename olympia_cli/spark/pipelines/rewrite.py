"""Partitions of DeltaCAT rewritten by tasks, one by one: executors read, merge and write, and the driver commits.

The destination folder has a proof file. The source is only read. If a task does not see a file as it was listed, the
driver checks the file before it believes the task.
"""

from __future__ import annotations

import pickle
import socket
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import pyarrow as pa

from olympia_cli.errors import ExecutorUnprepared
from olympia_cli.importers.deltacat.bodies import TableVersion
from olympia_cli.importers.deltacat.rewriting import Metadata, Outcome, Piece, Rewriting, Unseen
from olympia_cli.spark.batches import arrow_schema, ddl
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained, told
from olympia_cli.spark.pipelines.place import rows_of
from olympia_cli.spark.proof import Proof, leave

_ROW = {"at": "long", "host": "string", "files": "binary"}
_ARROW = arrow_schema(_ROW)


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
                rows = numbers.mapInArrow(partial(_write, work, proof), ddl(_ROW)).toArrow()
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
        yield pa.RecordBatch.from_pydict(columns, schema=_ARROW)
