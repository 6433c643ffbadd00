"""Mark: which files the versions that stay reach, found level by level from their roots.

Each level is a DataFrame, made from the one above by reading its nodes where they are listed; a node that many versions
share is read once. This process learns how many nodes a level has, and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, suppress
from functools import partial, reduce
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.errors import Damaged, PathMissing, StoreError
from olympia_cli.format.definitions import CLASSES, decode
from olympia_cli.format.keys import kind_of_key
from olympia_cli.format.node import Node
from olympia_cli.format.node_file import decode_node, decode_root
from olympia_cli.format.paths import check_pointer, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind
from olympia_cli.ops.expire_sweep import Sweep
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.reach import path_digest
from olympia_cli.spark.pipelines.place import PARTITIONS, CatalogPlace, rows_of
from olympia_cli.tree.load import MAX_DEPTH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "path string, kind string"
ROOT, NODE = "root", "node"
"""Kinds of files beside the kinds of definitions, which go by the words of what they define."""

_ARROW = pa.schema([pa.field("path", pa.string()), pa.field("kind", pa.string())])
_ROWS = 4096
_FILES_AT_ONCE = 1024
_REMEMBERED = 100_000
_KINDS = {kind.word: kind for kind in Kind}


def live_files(
    spark: SparkSession,
    catalog: CatalogPlace,
    sweep: Sweep,
    stack: ExitStack,
    *,
    partitions: int = PARTITIONS,
    definitions: bool = True,
    progress: Progress = SILENT,
) -> DataFrame:
    """The path and kind of each file that stays, all of them read and found whole; Damaged when one is not.

    With `definitions` left out, definitions are named and not read. What Spark keeps of it is freed with `stack`; when
    Spark loses some of it before, it is made again from the level above.
    """
    progress.phase("reading the roots of what is kept")
    found = keep(_roots(spark, catalog, sweep, partitions), stack)
    levels = [found]
    nodes: list[DataFrame] = []
    for _ in range(MAX_DEPTH):
        # to a number of partitions that was asked for: left to itself, Spark gives one task a level of any size whose
        # names are few megabytes
        below = found.where(f"kind = '{NODE}'").repartition(partitions, "path").dropDuplicates()
        if nodes:
            # a node may lie on another level in another version; and in what is damaged, lead back to itself
            below = below.join(apart(_together(nodes).select("path")), "path", "left_anti")
        below = keep(below, stack)
        number = below.count()
        if not number:
            break
        progress.phase("reading nodes", number)
        nodes.append(below)
        found = keep(below.mapInArrow(partial(_follow_nodes, catalog), SCHEMA), stack)
        levels.append(found)
    else:
        raise Damaged(catalog.uri, f"a tree is deeper than {MAX_DEPTH} levels")
    progress.phase("reading definitions" if definitions else "naming definitions")
    named = _together(levels).where(f"kind not in ('{ROOT}', '{NODE}')")
    named = named.repartition(partitions, "path").dropDuplicates()
    if definitions:
        named = named.mapInArrow(partial(_check_definitions, catalog), SCHEMA)
    live = keep(_together([levels[0].where(f"kind = '{ROOT}'"), *nodes, named]), stack)
    # now, not when it is asked for: nothing is said to be dead before all that lives was read
    live.count()
    return live


def _roots(spark: SparkSession, catalog: CatalogPlace, sweep: Sweep, partitions: int) -> DataFrame:
    """The roots and what they point to."""
    number = sweep.latest + 1 - sweep.oldest
    versions = spark.range(sweep.oldest, sweep.latest + 1, 1, max(1, min(partitions, number)))
    found = versions.mapInArrow(partial(_follow_versions, catalog), SCHEMA)
    if not sweep.pins:
        return found
    pins = spark.createDataFrame([(path,) for path in sweep.pins], "path string")
    return found.union(pins.mapInArrow(partial(_follow_pins, catalog), SCHEMA))


def keep(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """Keep what a DataFrame is computed to, until the stack is closed."""
    kept = frame.persist()

    def free() -> None:
        # that it cannot be freed must not hide what went wrong before
        with suppress(Exception):
            kept.unpersist()

    stack.callback(free)
    return kept


def apart(frame: DataFrame) -> DataFrame:
    """For a join in which each task has some of both sides. Left to itself Spark may send one side to all tasks, by way
    of this process: it takes the size of what a function made for that of what the function was given."""
    return frame.hint("merge")


def _together(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), frames)


# On the workers

Pointer = tuple[str, str]


def _follow_versions(catalog: CatalogPlace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    paths = (root_path(row["id"]) for row in rows_of(batches))
    return _as_batches(_read(catalog, paths, "a version that is kept", _of_root))


def _follow_pins(catalog: CatalogPlace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    paths = (row["path"] for row in rows_of(batches))
    return _as_batches(_read(catalog, paths, "a copy of a root that a transaction or an export needs", _of_root))


def _follow_nodes(catalog: CatalogPlace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    paths = (row["path"] for row in rows_of(batches))
    return _as_batches(_read(catalog, paths, "a node of the tree", _of_node))


def _check_definitions(catalog: CatalogPlace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give the definitions back as they came, each read and found whole."""
    rows = rows_of(batches)
    while batch := list(islice(rows, _FILES_AT_ONCE)):
        read = catalog.store.read_many([row["path"] for row in batch])
        for row, (path, data) in zip(batch, read, strict=True):
            kind = _KINDS[row["kind"]]
            what = "the catalog definition" if kind is Kind.CATALOG else f"the definition of a {kind.word}"
            decode(CatalogDef if kind is Kind.CATALOG else CLASSES[kind], _whole(path, data, what), path)
        yield pa.RecordBatch.from_pylist(batch, schema=_ARROW)


def _read(
    catalog: CatalogPlace, paths: Iterator[str], what: str, pointers: Callable[[bytes, str], Iterator[Pointer]]
) -> Iterator[Pointer]:
    while batch := list(islice(paths, _FILES_AT_ONCE)):
        for path, data in catalog.store.read_many(batch):
            yield from pointers(_whole(path, data, what), path)


def _of_root(data: bytes, path: str) -> Iterator[Pointer]:
    root = decode_root(data, path)
    yield path, ROOT
    yield check_pointer(root.catalog_def, path), Kind.CATALOG.word
    yield from _pointers(root.node, path)


def _of_node(data: bytes, path: str) -> Iterator[Pointer]:
    return _pointers(decode_node(data, path).node, path)


def _pointers(node: Node, holder: str) -> Iterator[Pointer]:
    for key, value in zip(node.keys, node.values, strict=True):
        if value is not None:
            yield check_pointer(value, holder), kind_of_key(key, holder).word
    for child in node.children:
        if isinstance(child, str):
            yield check_pointer(child, holder), NODE


def _as_batches(found: Iterator[Pointer]) -> Iterator[pa.RecordBatch]:
    fresh = _fresh(found)
    while batch := list(islice(fresh, _ROWS)):
        paths, kinds = zip(*batch, strict=True)
        yield pa.RecordBatch.from_arrays([pa.array(paths, pa.string()), pa.array(kinds, pa.string())], schema=_ARROW)


def _fresh(found: Iterator[Pointer]) -> Iterator[Pointer]:
    """Without most of those that came before: neighbouring versions point to nearly the same files."""
    seen: set[bytes] = set()
    for pointer in found:
        digest = path_digest(pointer[0])
        if digest not in seen:
            if len(seen) >= _REMEMBERED:
                seen.clear()
            seen.add(digest)
            yield pointer


def _whole(path: str, data: bytes | StoreError, what: str) -> bytes:
    if isinstance(data, PathMissing):
        raise Damaged(path, f"{what} is missing")
    if isinstance(data, Exception):
        raise data
    return data
