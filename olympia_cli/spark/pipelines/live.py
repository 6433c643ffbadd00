"""Mark: which files the versions that stay reach, found level by level from their roots.

All that is known is one DataFrame, a row a file. A step reads the nodes in it that nobody has read yet, where they are
listed, adds what they point to, and makes one row of what came more than once; so a node that many versions share is
read once. This process learns how many nodes a level has, and nothing else.

A step is made from the one before alone. Were levels joined with each other, the plan of each would hold the plans of
all before it several times over, and a tree of six levels would take Spark longer to plan than to read.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial, reduce
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from olympia_cli.errors import Damaged, PathMissing, PathOutside, StoreError
from olympia_cli.format.node_file import decode_root
from olympia_cli.format.paths import check_pointer, parse_root_path, root_path
from olympia_cli.names import Kind
from olympia_cli.ops.expire.sweep import Sweep
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.facts import NodeFacts, NodeRules, look_at_definition
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.ops.walk.reach import path_digest
from olympia_cli.spark.failures import failures
from olympia_cli.spark.pipelines.place import PARTITIONS, CatalogPlace, rows_of
from olympia_cli.tree.load import MAX_DEPTH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROOT, NODE = "root", "node"
"""Kinds of files beside the kinds of definitions, which go by the words of what they define."""

_FOUND = "path string, kind string, read boolean, created long"
"""Files that are known: whether they were read, and, of roots of versions, when these were created."""
_ARROW = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("read", pa.bool_()),
        pa.field("created", pa.int64()),
    ]
)
_ADAPTIVE = "spark.sql.adaptive.enabled"
_ROWS = 4096
_FILES_AT_ONCE = 1024
_REMEMBERED = 100_000
_KINDS = {kind.word: kind for kind in Kind}


class Walk:
    """What the versions that stay and the pins reach, all of it read and found whole; Damaged when some is not.

    With `definitions` left out, definitions are named and not read. What Spark keeps of it is freed with `stack`; when
    Spark loses some of it before, it is made again from the level above.
    """

    def __init__(
        self,
        spark: SparkSession,
        catalog: CatalogPlace,
        sweep: Sweep,
        rules: NodeRules,
        stack: ExitStack,
        *,
        partitions: int = PARTITIONS,
        definitions: bool = True,
        progress: Progress = SILENT,
    ) -> None:
        self._spark = spark
        self._place = LivePlace(catalog, rules)
        self._stack = stack
        self._partitions = partitions
        self._definitions = definitions
        self._progress = progress
        progress.phase("reading the roots of what is kept")
        roots = self._versions(sweep.oldest, sweep.latest + 1, "")
        if sweep.pins:
            pins = spark.createDataFrame([(path,) for path in sweep.pins], "path string")
            roots = roots.union(pins.mapInArrow(partial(_follow_pins, self._place), _FOUND))
        self._found = self._follow(roots)
        self.live = self._found.select("path", "kind")
        """The path and kind of each file that stays."""

    def created(self) -> list[tuple[int, int]]:
        """When each version that stays was created, the oldest first."""
        rows = self._found.where("created is not null").select("path", "created").collect()
        return sorted((parse_root_path(row.path) or 0, row.created) for row in rows)

    def with_resting(self, first: int, end: int) -> DataFrame:
        """The path and kind of each file that stays, or that versions reach which stay in quarantine. What was read
        before is not read again."""
        self._progress.phase("reading the roots of what rests")
        found = self._follow(self._found.union(self._versions(first, end, ", which is in quarantine,")))
        return found.select("path", "kind")

    def _versions(self, first: int, end: int, remark: str) -> DataFrame:
        """The roots and what they point to; the remark is what is said of one that is missing."""
        versions = self._spark.range(first, end, 1, max(1, min(self._partitions, end - first)))
        return versions.mapInArrow(partial(_follow_versions, self._place, remark), _FOUND)

    def _follow(self, found: DataFrame) -> DataFrame:
        for _ in range(MAX_DEPTH):
            found = keep(self._each_once(found), self._stack)
            number = found.where(f"kind = '{NODE}' and not read").count()
            if not number:
                break
            self._progress.phase("reading nodes", number)
            found = found.mapInArrow(partial(_read_on, self._place, NODE), _FOUND)
        else:
            raise Damaged("F210", self._place.catalog.uri, f"a tree is deeper than {MAX_DEPTH} levels")
        self._progress.phase("reading definitions" if self._definitions else "naming definitions")
        if self._definitions:
            found = keep(found.mapInArrow(partial(_read_on, self._place, None), _FOUND), self._stack)
            # now, not when it is asked for: nothing is said to be dead before all that lives was read
            found.count()
        return found

    def _each_once(self, found: DataFrame) -> DataFrame:
        # to a number of partitions that was asked for: left to itself, Spark gives one task a level of any size
        # whose names are few megabytes
        shared = found.repartition(self._partitions, "path")
        files = shared.groupBy("path", "kind").agg({"read": "max", "created": "max"})
        return files.selectExpr("path", "kind", "`max(read)` as read", "`max(created)` as created")


@dataclass(frozen=True, slots=True)
class LivePlace:
    """What tasks are told: the catalog, and what its nodes are held to."""

    catalog: CatalogPlace
    rules: NodeRules


def keep(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """Keep what a DataFrame is computed to, until the stack is closed."""
    settings = frame.sparkSession.conf
    before = settings.get(_ADAPTIVE, "true")
    # Spark writes down the plan of each query for its pages, with the plans of all that it keeps inside; of one that it
    # adapts it writes two, so what is made in ten steps would be written a thousand times over
    settings.set(_ADAPTIVE, "false")
    try:
        kept = frame.persist()
    finally:
        settings.set(_ADAPTIVE, before or "true")

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


def together(frames: Iterable[DataFrame]) -> DataFrame:
    """The rows of all of them."""
    return reduce(lambda one, other: one.union(other), frames)


# On the workers

Row = tuple[str, str, bool, int | None]


def _follow_versions(place: LivePlace, remark: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    paths = (root_path(row["id"]) for row in rows_of(batches))

    def roots() -> Iterator[Row]:
        for path, data in _read_all(place, paths):
            data = _whole("F101", path, data, f"version {parse_root_path(path)}{remark}")
            yield from _of_root(place, data, path, version=True)

    return _as_batches(roots())


def _follow_pins(place: LivePlace, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    paths = (row["path"] for row in rows_of(batches))

    def roots() -> Iterator[Row]:
        for path, data in _read_all(place, paths):
            what = "a copy of a root that a transaction or an export needs"
            # whatever its name is, it is not here as a version
            yield from _of_root(place, _whole("F201", path, data, what), path, version=False)

    return _as_batches(roots())


def _read_on(place: LivePlace, kind: str | None, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Give back all rows, those that are now read as such, and what these point to. Nodes are read, or, with no kind,
    definitions; what was read before is not."""
    for batch in batches:
        wanted = pc.equal(batch.column("kind"), NODE)
        wanted = pc.and_not(wanted if kind == NODE else pc.invert(wanted), batch.column("read"))
        known = batch.filter(pc.invert(wanted))
        if known.num_rows:
            yield known
        unread = batch.filter(wanted)
        if unread.num_rows:
            paths, words = unread.column("path").to_pylist(), unread.column("kind").to_pylist()
            found = _of_nodes(place, paths) if kind == NODE else _of_definitions(place, paths, words)
            yield from _as_batches(found)


def _of_nodes(place: LivePlace, paths: list[str]) -> Iterator[Row]:
    for path, data in _read_all(place, paths):
        yield path, NODE, True, None
        yield from _pointers(place.rules.look(path, _given(data)))


def _of_definitions(place: LivePlace, paths: list[str], words: list[str]) -> Iterator[Row]:
    """Each read and found whole."""
    for (path, data), word in zip(_read_all(place, paths), words, strict=True):
        definition = look_at_definition(_KINDS[word], _given(data), path)
        if isinstance(definition, Flaw):
            raise definition.error(path)
        yield path, word, True, None


def _read_all(place: LivePlace, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
    rest = iter(paths)
    while some := list(islice(rest, _FILES_AT_ONCE)):
        yield from place.catalog.store.read_many(some)


def _of_root(place: LivePlace, data: bytes, path: str, *, version: bool) -> Iterator[Row]:
    root = decode_root(data, path)
    yield path, ROOT, True, root.created_at_millis if version else None
    yield check_pointer(root.catalog_def, path), Kind.CATALOG.word, False, None
    yield from _pointers(place.rules.look_at_root(path, root.node))


def _pointers(facts: NodeFacts) -> Iterator[Row]:
    for path, flaw in facts.marks:
        raise flaw.error(path)
    for path, kind, _ in facts.names:
        yield path, kind.word, False, None
    for child in facts.children:
        if child is not None:
            yield child, NODE, False, None


def _as_batches(found: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    fresh = _fresh(found)
    with failures():
        while rows := list(islice(fresh, _ROWS)):
            columns = zip(*rows, strict=True)
            arrays = [pa.array(column, one.type) for column, one in zip(columns, _ARROW, strict=True)]
            yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)


def _fresh(found: Iterator[Row]) -> Iterator[Row]:
    """Without most of the pointers that came before: neighbouring versions point to nearly the same files."""
    seen: set[bytes] = set()
    for row in found:
        if not row[2]:
            digest = path_digest(f"{row[1]} {row[0]}")
            if digest in seen:
                continue
            if len(seen) >= _REMEMBERED:
                seen.clear()
            seen.add(digest)
        yield row


def _whole(code: str, path: str, data: bytes | StoreError, what: str) -> bytes:
    data = _given(data)
    if isinstance(data, PathOutside):
        raise data
    if isinstance(data, PathMissing):
        raise Damaged(code, path, f"{what} is missing")
    return data


def _given(data: bytes | StoreError) -> bytes | PathMissing | PathOutside:
    """What a file holds, or that it is missing; the store's own failure is no damage."""
    if isinstance(data, Exception) and not isinstance(data, PathMissing | PathOutside):
        raise data
    return data
