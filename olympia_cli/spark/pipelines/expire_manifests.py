"""The contents of an expire's manifests as a DataFrame: one task reads each manifest, and one task each part."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.errors import Damaged
from olympia_cli.format.paths import check_pointer
from olympia_cli.ops.expire.manifest import Doomed, ManifestPart, check_deletable, decode_part, read_head, unread
from olympia_cli.ops.expire.sweep import Sweep
from olympia_cli.spark.batches import batches, ddl
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import told
from olympia_cli.spark.pipelines.frames import keep
from olympia_cli.spark.pipelines.place import CatalogPlace, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

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
