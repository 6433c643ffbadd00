"""Files to delete, listed on Spark. The driver knows how many there are, and iterates over roots and files of
transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.errors import Damaged
from olympia_cli.format.paths import check_pointer
from olympia_cli.ops.expire import (
    PART_FILES,
    ROOT,
    TRANSACTION,
    Doomed,
    Going,
    GoingTotals,
    Manifest,
    ManifestPart,
    Sweep,
    check_deletable,
    decode_part,
    delete_checked,
    encode_part,
    new_part_path,
    read_head,
    unread,
)
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained, told
from olympia_cli.spark.pins import batches, ddl
from olympia_cli.spark.pipelines.place import CatalogPlace, keep, rows_of
from olympia_cli.spark.pipelines.walk import frame_of
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# The contents of an expire's manifests as a DataFrame: one task reads each manifest, and one task each part.

_ROW = {
    "at": "int",
    "path": "string",
    "bytes": "long",
    "part": "string",
    "expected": "long",
    "problem": "string",
    "unreadable": "boolean",
}
_COLUMNS = ddl(_ROW)


def read_manifests(engine: SparkEngine, sweep: Sweep, stack: ExitStack) -> tuple[DataFrame, tuple[str, ...]]:
    """Return the files that the manifests of a sweep name, and the problems of unreadable manifests, whose files are
    left out. The columns are `at` (the number of the manifest), path and bytes.

    Raise Damaged if a sound manifest that leaves names a file that an expire never deletes.
    """
    manifests, catalog = sweep.manifests, engine.catalog
    # one manifest at a time: a manifest may name all of its files itself
    number = len(manifests)
    heads = engine.spark.range(0, number, 1, engine.parts(number, 1))
    heads = keep(heads.mapInArrow(partial(_read_heads, catalog, sweep), _COLUMNS), stack)
    parts = heads.where("part is not null").select("at", "part", "expected").repartition("part")
    entries = heads.where("part is null").union(parts.mapInArrow(partial(_read_parts, catalog, sweep), _COLUMNS))
    entries = keep(entries, stack)
    with engine.job("expire: manifests"):
        rows = entries.where("problem is not null").select("at", "problem", "unreadable").collect()
    problems = sorted(set(rows))
    broken = {row.at: row.problem for row in reversed(problems) if row.unreadable}
    for row in problems:
        if row.at not in broken:
            raise Damaged("", manifests[row.at], row.problem)
    files = entries.where("problem is null").select("at", "path", "bytes")
    if broken:
        files = files.where(f"at not in ({', '.join(map(str, broken))})")
    return files, tuple(broken[at] for at in sorted(broken))


# On the workers


@told
def _read_heads(
    catalog: CatalogPlace, sweep: Sweep, record_batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the files that manifests name themselves, and the parts of the other manifests."""
    for row in rows_of(record_batches):
        at, path = row["id"], sweep.manifests[row["id"]]
        try:
            manifest = read_head(catalog.store, check_pointer(path, path))
        except Damaged as error:
            yield from _problem(at, unread(error), unreadable=True)
            continue
        yield from _files(at, manifest.files, sweep)
        yield from batches(({"at": at, "part": part.path, "expected": part.files} for part in manifest.parts), _ROW)


@told
def _read_parts(
    catalog: CatalogPlace, sweep: Sweep, record_batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for row in rows_of(record_batches):
        at, part = row["at"], ManifestPart(row["part"], row["expected"])
        [(_, data)] = catalog.store.read_many([part.path])
        try:
            files = decode_part(data, part, sweep.manifests[at])
        except Damaged as error:
            yield from _problem(at, unread(error), unreadable=True)
            continue
        yield from _files(at, files, sweep)


def _files(at: int, files: Sequence[Doomed], sweep: Sweep) -> Iterator[pa.RecordBatch]:
    if sweep.manifests[at] in sweep.leaving:
        try:
            check_deletable(files, sweep.purged, sweep.manifests[at])
        except Damaged as error:
            # not raised here: if a part of the manifest is lost, none of its files is deleted, and the expire can go on
            yield from _problem(at, error.reason, unreadable=False)
            return
    yield from batches(({"at": at, "path": file.path, "bytes": file.bytes} for file in files), _ROW)


def _problem(at: int, text: str, *, unreadable: bool) -> Iterator[pa.RecordBatch]:
    return batches([{"at": at, "problem": text, "unreadable": unreadable}], _ROW)


_AT_ONCE = 10_000
"""Highest number of files that the driver holds at once."""

_PARTS = {"path": "string", "files": "long"}
_COUNTS = {"files": "long"}


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """Files that are listed on Spark, usable as long as Spark keeps the list or can compute it again."""

    engine: SparkEngine
    frame: DataFrame
    """Path, bytes, kind and, for roots, the version."""
    totals: GoingTotals

    def __iter__(self) -> Iterator[Doomed]:
        return self._passing("true", "path")

    def _passing(self, condition: str, order: str) -> Iterator[Doomed]:
        """Yield the files a batch at a time. Each batch starts after the last file of the one before, even if Spark has
        to compute the list again."""
        from pyspark.sql.functions import col

        rest = col(order).isNotNull()
        while True:
            with explained(), self.engine.job("expire: files that go, one after the other"):
                rows = self.frame.where(condition).where(rest).orderBy(order).limit(_AT_ONCE).collect()
            yield from (Doomed(row.path, row.bytes, row.kind) for row in rows)
            if len(rows) < _AT_ONCE:
                return
            rest = col(order) > rows[-1][order]

    def manifest(self, store: Store, path: str, oldest: int, former_oldest: int) -> Manifest:
        """Write the parts of a manifest in tasks. If a task runs twice, only the parts that it returned to the driver
        count."""
        if not self.totals.files:
            return Manifest(path, oldest, former_oldest, ())
        number = self.engine.parts(self.totals.files, PART_FILES)
        write = partial(_write_parts, self.engine.catalog, path)
        with explained(), self.engine.job("expire: the parts of a manifest"):
            rows = self.frame.coalesce(number).mapInArrow(write, ddl(_PARTS)).collect()
        parts = tuple(sorted((ManifestPart(row.path, row.files) for row in rows), key=lambda part: part.path))
        return Manifest(path, oldest, former_oldest, (), parts)

    def roots(self) -> Iterator[Doomed]:
        return self._passing(f"kind = '{ROOT}'", "version")

    def saves(self) -> Iterator[Doomed]:
        # the names of one transaction's files share a prefix, so this order keeps them together
        return self._passing(f"kind = '{TRANSACTION}'", "path")

    def delete_others(self, store: Store, below: int, progress: Progress) -> None:
        """Delete the other files in tasks, which return their numbers of files."""
        delete = partial(_delete, self.engine.catalog, below)
        others = self.frame.where(f"kind not in ('{ROOT}', '{TRANSACTION}')")
        with explained(), self.engine.job("expire: deleting files"):
            rows = others.mapInArrow(delete, ddl(_COUNTS)).collect()
        progress.advance(sum(row.files for row in rows))


def files_frame(engine: SparkEngine, files: Going) -> DataFrame:
    """Return the paths and bytes of files, whether Spark or the driver lists them."""
    if isinstance(files, SparkFiles):
        return files.frame
    return frame_of(engine, [(file.path, file.bytes) for file in files], {"path": "string", "bytes": "long"})


# On the workers


def _doomed(record_batches: Iterable[pa.RecordBatch]) -> Iterator[Doomed]:
    return (Doomed(row["path"], row["bytes"], row["kind"]) for row in rows_of(record_batches))


@told
def _write_parts(
    catalog: CatalogPlace, manifest: str, record_batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    files = _doomed(record_batches)
    while some := list(islice(files, PART_FILES)):
        path = new_part_path(manifest)
        catalog.store.create(path, encode_part(manifest, some))
        yield from batches([{"path": path, "files": len(some)}], _PARTS)


@told
def _delete(catalog: CatalogPlace, below: int, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    deleted = delete_checked(catalog.store, _doomed(record_batches), below, SILENT)
    yield from batches([{"files": deleted}], _COUNTS)
