"""What the manifests of an expire name, as a DataFrame: each manifest is read by one task, and each part by one."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from olympia_cli.errors import Damaged
from olympia_cli.format.paths import check_pointer, parse_transaction_path
from olympia_cli.ops.expire.leaving import unread
from olympia_cli.ops.expire.manifest import Doomed, Part, check_deletable, decode_part, read_head
from olympia_cli.ops.expire.sweep import own_version
from olympia_cli.spark.pipelines.live import keep
from olympia_cli.spark.pipelines.place import CatalogPlace, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_FILE = "at int, path string, bytes long, kind string, version long, held boolean"
_ROW = f"{_FILE}, part string, expected long, problem string, unreadable boolean"
_ARROW = pa.schema(
    [
        pa.field("at", pa.int32()),
        pa.field("path", pa.string()),
        pa.field("bytes", pa.int64()),
        pa.field("kind", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("held", pa.bool_()),
        pa.field("part", pa.string()),
        pa.field("expected", pa.int64()),
        pa.field("problem", pa.string()),
        pa.field("unreadable", pa.bool_()),
    ]
)
_ROWS = 4096


@dataclass(frozen=True, slots=True)
class Reading:
    """Which manifests are read, and what for."""

    manifests: tuple[str, ...]
    leaving: frozenset[str] = frozenset()
    """Those whose files are to be deleted, and are therefore looked at."""
    below: int = 0
    """Their roots are of versions below this one."""
    live_transactions: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Named:
    """The files that manifests name, each manifest by its number. Manifests that are not whole name none."""

    files: DataFrame
    """`held` says that a file is of a transaction that lives."""
    notes: tuple[str, ...]
    """What is wrong with manifests that cannot be read."""

    reading: Reading

    def of(self, manifests: Collection[str]) -> DataFrame:
        """The files of some of the manifests."""
        numbers = [str(at) for at, path in enumerate(self.reading.manifests) if path in manifests]
        return self.files.where(f"at in ({', '.join(numbers)})")


def read_manifests(
    spark: SparkSession, catalog: CatalogPlace, reading: Reading, stack: ExitStack, partitions: int
) -> Named:
    """What the manifests name; Damaged when one that is whole names, for deletion, what an expire never deletes."""
    rows = spark.createDataFrame(list(enumerate(reading.manifests)), "at int, path string")
    # a manifest may name all of its files itself, so they are shared out one by one
    rows = rows.repartition(max(1, min(partitions, len(reading.manifests))), "at")
    heads = keep(rows.mapInArrow(partial(_read_heads, catalog, reading), _ROW), stack)
    parts = heads.where("part is not null").select("at", "part", "expected").repartition(partitions, "part")
    found = heads.where("part is null").union(parts.mapInArrow(partial(_read_parts, catalog, reading), _ROW))
    found = keep(found, stack)
    problems = found.where("problem is not null").select("at", "problem", "unreadable").dropDuplicates().collect()
    broken = {row.at: row.problem for row in sorted(problems, reverse=True) if row.unreadable}
    for row in sorted(problems):
        if row.at not in broken:
            raise Damaged("", reading.manifests[row.at], row.problem)
    files = found.where("problem is null").drop("part", "expected", "problem", "unreadable")
    if broken:
        files = files.where(f"at not in ({', '.join(map(str, broken))})")
    return Named(files, tuple(broken[at] for at in sorted(broken)), reading)


# On the workers


def _read_heads(catalog: CatalogPlace, reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The files that manifests name themselves, and the parts that others have."""
    for row in rows_of(batches):
        at, path = row["at"], row["path"]
        try:
            manifest = read_head(catalog.store, check_pointer(path, path))
        except Damaged as error:
            yield _batch([_problem(at, unread(error), unreadable=True)])
            continue
        yield from _files(at, manifest.files, reading)
        if manifest.parts:
            yield _batch([{"at": at, "part": part.path, "expected": part.files} for part in manifest.parts])


def _read_parts(catalog: CatalogPlace, reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for row in rows_of(batches):
        at, part = row["at"], Part(row["part"], row["expected"])
        [(_, data)] = catalog.store.read_many([part.path])
        try:
            files = decode_part(data, part, reading.manifests[at])
        except Damaged as error:
            yield _batch([_problem(at, unread(error), unreadable=True)])
            continue
        yield from _files(at, files, reading)


def _files(at: int, files: Sequence[Doomed], reading: Reading) -> Iterator[pa.RecordBatch]:
    if reading.manifests[at] in reading.leaving:
        try:
            check_deletable(files, reading.below, reading.manifests[at])
        except Damaged as error:
            # not raised here: when a part of the manifest is lost, nothing of it is deleted, and nobody need be stopped
            yield _batch([_problem(at, error.reason, unreadable=False)])
            return
    rest = iter(files)
    while some := list(islice(rest, _ROWS)):
        yield _batch([_row(at, file, reading.live_transactions) for file in some])


def _row(at: int, file: Doomed, live: frozenset[str]) -> dict[str, Any]:
    transaction = parse_transaction_path(file.path)
    return {
        "at": at,
        "path": file.path,
        "bytes": file.bytes,
        "kind": file.kind,
        "version": own_version(file.path),
        "held": transaction is not None and transaction[0] in live,
    }


def _problem(at: int, text: str, *, unreadable: bool) -> dict[str, Any]:
    return {"at": at, "problem": text, "unreadable": unreadable}


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema=_ARROW)
