"""All nodes of some versions, each read once, level by level from their roots: a row a node, with what it holds and
what is wrong with it in itself. Roots are looked at as a chain by runs of versions.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from hashlib import blake2b
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from olympia_cli.format.node_file import decode_root
from olympia_cli.format.paths import parse_root_path
from olympia_cli.ops.fsck.chain import ROOTS_AT_ONCE, CatalogFile, Chain, ChainReader, ChainRoot
from olympia_cli.ops.fsck.findings import ranges
from olympia_cli.ops.fsck.roots import RootChecks, RootNotes
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.facts import NodeFacts, NodeRules
from olympia_cli.ops.walk.files import Files, Place
from olympia_cli.spark.batches import text
from olympia_cli.spark.failures import failures
from olympia_cli.spark.pipelines.cut import cut
from olympia_cli.spark.pipelines.live import apart
from olympia_cli.spark.pipelines.place import rows_of
from olympia_cli.tree.load import MAX_DEPTH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine

_NAME = pa.struct([("path", pa.string()), ("kind", pa.int32()), ("key", pa.int64()), ("text", pa.string())])
_MARK = pa.struct([("path", pa.string()), ("code", pa.string()), ("reason", pa.string())])
_ARROW = pa.schema(
    [
        pa.field("path", pa.string()),
        pa.field("version", pa.int64()),
        pa.field("readable", pa.bool_()),
        pa.field("verified", pa.bool_()),
        pa.field("leaf", pa.bool_()),
        pa.field("keys", pa.list_(pa.string())),
        pa.field("children", pa.list_(pa.string())),
        pa.field("has", pa.list_(pa.string())),
        pa.field("needs", pa.list_(pa.string())),
        pa.field("names", pa.list_(_NAME)),
        pa.field("marks", pa.list_(_MARK)),
        pa.field("bytes", pa.int64()),
        pa.field("level", pa.int32()),
        pa.field("seen", pa.binary()),
    ]
)
SCHEMA = (
    "path string, version long, readable boolean, verified boolean, leaf boolean, keys array<string>, "
    "children array<string>, has array<string>, needs array<string>, "
    "names array<struct<path:string,kind:int,key:bigint,text:string>>, "
    "marks array<struct<path:string,code:string,reason:string>>, bytes long, level int, seen binary"
)
_AT_ONCE = 256
# a node with its keys and the names of its definitions has tens of kilobytes
_ROWS = 64


class FilesPlace(Protocol):
    """Where files are, as it is sent to tasks."""

    def files(self) -> Files:
        """The files, for one task; to be closed at its end."""
        ...


@dataclass(frozen=True, slots=True)
class TaskBrief:
    """What the workers need to know of a run: the catalog, what it is held to, and which versions there are."""

    place: FilesPlace
    rules: NodeRules
    width: int
    kept: tuple[tuple[int, int], ...]
    """The versions that count and exist, as closed ranges."""
    chain: bytes = field(repr=False)
    actions: bool
    texts: bool
    """Whether keys are of interest, beside what tells them apart."""

    @property
    def number(self) -> int:
        """How many versions there are."""
        return sum(last + 1 - first for first, last in self.kept)

    def version(self, at: int) -> int:
        """The version at a place in their order."""
        for first, last in self.kept:
            if at <= last - first:
                return first + at
            at -= last + 1 - first
        raise IndexError(at)


def brief_for(
    place: FilesPlace, rules: NodeRules, chain: Chain, versions: Sequence[int], *, actions: bool, texts: bool
) -> TaskBrief:
    # the versions themselves go as ranges, and what was read before its turn is read again
    bare = replace(chain, existing=[], ahead={}, catalogs={})
    return TaskBrief(place, rules, chain.width, ranges(versions), pickle.dumps(bare), actions, texts)


@dataclass(slots=True)
class ChainNotes:
    """What runs of versions said of their roots."""

    notes: RootNotes = field(default_factory=RootNotes)
    catalogs: dict[str, CatalogFile] = field(default_factory=dict)
    wanted: int | None = None
    bytes: int = 0


def look_at_roots(
    engine: SparkEngine,
    brief: TaskBrief,
    *,
    follow: bool,
    note: bool,
    wanted: Callable[[ChainRoot], bool] | None = None,
) -> DataFrame:
    """Rows for the roots of all versions asked for: with `follow` what they hold, and with what was seen of each run in
    between. `note` says whether they are looked at as a chain; `wanted` which of them somebody asked for."""
    # by their places: a file in vn/ may have any number for a name
    places = engine.spark.range(0, brief.number, 1, max(1, min(engine.partitions, brief.number)))
    return places.mapInArrow(partial(_look_at_roots, brief, follow, note, wanted), SCHEMA)


def look_at_holders(engine: SparkEngine, brief: TaskBrief, roots: Mapping[str, bytes]) -> DataFrame:
    """Rows for roots beside the versions; they have numbers below all versions, and not next to them."""
    rows = [(path, at - len(roots) - 1, data) for at, (path, data) in enumerate(sorted(roots.items()))]
    frame = engine.spark.createDataFrame(rows, "path string, version long, data binary")
    return frame.mapInArrow(partial(_look_at_holders, brief), SCHEMA)


def collect_chain(frame: DataFrame) -> ChainNotes:
    """What the runs of versions said, put together in their order."""
    found = [pickle.loads(row.seen) for row in frame.where("seen is not null").select("seen").collect()]
    chained = ChainNotes()
    for _, one in sorted(found, key=lambda pair: pair[0]):
        chained.notes.add(one.notes)
        chained.catalogs.update(one.catalogs)
        chained.wanted = one.wanted if one.wanted is not None else chained.wanted
        chained.bytes += one.bytes
    return chained


def all_nodes(engine: SparkEngine, brief: TaskBrief, tops: DataFrame, progress: Progress = SILENT) -> DataFrame:
    """The rows of roots, and of all nodes that they lead to."""
    levels = [tops.where("path is not null")]
    for number_of_level in range(2, MAX_DEPTH + 3):
        below = levels[-1].selectExpr("explode(children) as path").where("path is not null")
        # to a number of partitions that was asked for: left to itself, Spark gives one task a level of any size whose
        # names are few megabytes
        below = below.repartition(engine.partitions, "path").dropDuplicates()
        # a node may lie on another level in another version; and in what is damaged, lead back to itself
        known = together([level.select("path") for level in levels])
        below = below.join(apart(known), "path", "left_anti")
        progress.phase("reading nodes")
        level = cut(below.mapInArrow(partial(_look_at_nodes, brief, number_of_level), SCHEMA))
        number = level.count()
        if not number:
            break
        progress.advance(number)
        levels.append(level)
    return together(levels)


def together(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), frames)


# On the workers


def _look_at_roots(
    brief: TaskBrief,
    follow: bool,
    note: bool,
    wanted: Callable[[ChainRoot], bool] | None,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    with failures(), brief.place.files() as files:
        yield from _roots(brief, files, follow, note, wanted, batches)


def _roots(
    brief: TaskBrief,
    files: Files,
    follow: bool,
    note: bool,
    wanted: Callable[[ChainRoot], bool] | None,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    reader = ChainReader(files, pickle.loads(brief.chain))
    chained = ChainNotes()
    checks = RootChecks(reader, chained.notes, actions=brief.actions)
    places = (row["id"] for row in rows_of(batches))
    first: int | None = None
    while batch := list(islice(places, ROOTS_AT_ONCE)):
        if first is None:
            first = batch[0]
            checks.before = _before(brief, reader, first) if note else None
        roots = list(reader.roots([brief.version(at) for at in batch]))
        for root in roots if note else ():
            checks.note(root)
            if wanted is not None and wanted(root):
                chained.wanted = root.version
        if follow:
            tops = checks.follow(roots)
            facts = [brief.rules.look_at_root(path, node) for path, node in tops]
            yield from _batches(brief, ((one, parse_root_path(one.path), 0) for one in facts), 1)
    if first is not None:
        chained.catalogs = reader.chain.catalogs
        chained.bytes = files.bytes - sum(catalog.size for catalog in chained.catalogs.values())
        yield pa.RecordBatch.from_pylist([{"seen": pickle.dumps((first, chained))}], schema=_ARROW)


def _before(brief: TaskBrief, reader: ChainReader, place: int) -> ChainRoot | None:
    """The last root before a place that can be read."""
    for at in reversed(range(place)):
        [root] = reader.roots([brief.version(at)])
        if root.root is not None:
            return root
    return None


def _look_at_holders(brief: TaskBrief, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for row in rows_of(batches):
        facts = brief.rules.look_at_root(row["path"], decode_root(row["data"], row["path"]).node)
        yield from _batches(brief, [(facts, row["version"], 0)], 1)


def _look_at_nodes(brief: TaskBrief, level: int, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    places = (Place(row["path"], level) for row in rows_of(batches))

    def look(files: Files) -> Iterator[tuple[NodeFacts, int | None, int]]:
        while batch := list(islice(places, _AT_ONCE)):
            for place, data in files.nodes(batch):
                facts = brief.rules.look(place.path, data)
                files.looked_at(place, data, facts.flaw, is_node=True)
                yield facts, None, len(data) if isinstance(data, bytes) else 0

    with failures(), brief.place.files() as files:
        yield from _batches(brief, look(files), level)


def _batches(
    brief: TaskBrief, found: Iterable[tuple[NodeFacts, int | None, int]], level: int
) -> Iterator[pa.RecordBatch]:
    rows = iter(found)
    while batch := list(islice(rows, _ROWS)):
        yield _batch(brief, batch, level)


def _batch(brief: TaskBrief, rows: Sequence[tuple[NodeFacts, int | None, int]], level: int) -> pa.RecordBatch:
    facts = [one for one, _, _ in rows]
    names = [name for one in facts for name in one.names]
    marks = [mark for one in facts for mark in one.marks]
    named = pa.StructArray.from_arrays(
        [
            pa.array([path for path, _, _ in names], pa.string()),
            pa.array([int(kind) for _, kind, _ in names], pa.int32()),
            pa.array([key_code(key) for _, _, key in names], pa.int64()),
            pa.array([key if brief.texts else None for _, _, key in names], pa.string()),
        ],
        fields=list(_NAME),
    )
    marked = pa.StructArray.from_arrays(
        [
            pa.array([text(path) for path, _ in marks], pa.string()),
            pa.array([flaw.code for _, flaw in marks], pa.string()),
            pa.array([text(flaw.reason) for _, flaw in marks], pa.string()),
        ],
        fields=list(_MARK),
    )
    columns: list[Any] = [
        pa.array([one.path for one in facts], pa.string()),
        pa.array([version for _, version, _ in rows], pa.int64()),
        pa.array([one.readable for one in facts], pa.bool_()),
        pa.array([one.verified for one in facts], pa.bool_()),
        pa.array([one.is_leaf for one in facts], pa.bool_()),
        # of a leaf only its range is of interest to others
        pa.array(
            [one.keys if not one.is_leaf else (*one.keys[:1], *one.keys[-1:]) for one in facts], pa.list_(pa.string())
        ),
        pa.array([one.children for one in facts], pa.list_(pa.string())),
        pa.array([one.has for one in facts], pa.list_(pa.string())),
        pa.array([one.needs for one in facts], pa.list_(pa.string())),
        pa.ListArray.from_arrays(_offsets(len(one.names) for one in facts), named),
        pa.ListArray.from_arrays(_offsets(len(one.marks) for one in facts), marked),
        pa.array([size for _, _, size in rows], pa.int64()),
        pa.array([level] * len(rows), pa.int32()),
        pa.nulls(len(rows), pa.binary()),
    ]
    return pa.RecordBatch.from_arrays(columns, schema=_ARROW)


def _offsets(lengths: Iterable[int]) -> pa.Array:
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    return pa.array(offsets, pa.int32())


def key_code(key: str) -> int:
    """A number that tells keys apart."""
    return int.from_bytes(blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big", signed=True)
