"""The roots of versions as fsck looks at them: as a chain, by runs of versions, and as the tops of trees to walk."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.format.node_file import decode_root
from olympia_cli.format.paths import parse_root_path
from olympia_cli.ops.fsck.chain import ROOTS_AT_ONCE, CatalogFile, Chain, ChainReader, ChainRoot
from olympia_cli.ops.fsck.findings import ranges
from olympia_cli.ops.fsck.roots import RootChecks, RootNotes
from olympia_cli.ops.walk.facts import NodeRules
from olympia_cli.ops.walk.files import Files
from olympia_cli.spark.failures import failures
from olympia_cli.spark.pipelines.place import rows_of
from olympia_cli.spark.pipelines.walk import NODES, FilesPlace, WalkBrief, node_batches, notes_batch, notes_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine


@dataclass(frozen=True, slots=True)
class ChainBrief(WalkBrief):
    """What the workers need to know of a run: which versions there are, too."""

    kept: tuple[tuple[int, int], ...]
    """The versions that count and exist, as closed ranges."""
    chain: bytes = field(repr=False)
    actions: bool

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
) -> ChainBrief:
    # the versions themselves go as ranges, and what was read before its turn is read again
    bare = replace(chain, existing=[], ahead={}, catalogs={})
    return ChainBrief(place, rules, texts, ranges(versions), pickle.dumps(bare), actions)


@dataclass(slots=True)
class ChainNotes:
    """What runs of versions said of their roots."""

    notes: RootNotes = field(default_factory=RootNotes)
    catalogs: dict[str, CatalogFile] = field(default_factory=dict)
    wanted: int | None = None
    bytes: int = 0


def look_at_roots(
    engine: SparkEngine,
    brief: ChainBrief,
    *,
    follow: bool,
    note: bool,
    wanted: Callable[[ChainRoot], bool] | None = None,
) -> DataFrame:
    """Rows for the roots of all versions asked for: with `follow` what they hold, and with what is noted of each run in
    between. `note` says whether they are looked at as a chain; `wanted` which of them somebody asked for."""
    # by their places: a file in vn/ may have any number for a name
    places = engine.spark.range(0, brief.number, 1, max(1, min(engine.partitions, brief.number)))
    return places.mapInArrow(partial(_look_at_roots, brief, follow, note, wanted), NODES)


def look_at_holders(engine: SparkEngine, brief: ChainBrief, roots: Mapping[str, bytes]) -> DataFrame:
    """Rows for roots beside the versions; they have numbers below all versions, and not next to them."""
    rows = [(path, at - len(roots) - 1, data) for at, (path, data) in enumerate(sorted(roots.items()))]
    frame = engine.spark.createDataFrame(rows, "path string, version long, data binary")
    return frame.mapInArrow(partial(_look_at_holders, brief), NODES)


def collect_chain(frame: DataFrame) -> ChainNotes:
    """What the runs of versions said, put together in their order."""
    chained = ChainNotes()
    for _, run in sorted(notes_in(frame), key=lambda pair: pair[0]):
        chained.notes.add(run.notes)
        chained.catalogs.update(run.catalogs)
        chained.wanted = run.wanted if run.wanted is not None else chained.wanted
        chained.bytes += run.bytes
    return chained


# On the workers


def _look_at_roots(
    brief: ChainBrief,
    follow: bool,
    note: bool,
    wanted: Callable[[ChainRoot], bool] | None,
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    with failures(), brief.place.files() as files:
        yield from _roots(brief, files, follow, note, wanted, batches)


def _roots(
    brief: ChainBrief,
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
            yield from node_batches(brief, ((one, parse_root_path(one.path), 0) for one in facts), 1)
    if first is not None:
        chained.catalogs = reader.chain.catalogs
        chained.bytes = files.bytes - sum(catalog.size for catalog in chained.catalogs.values())
        yield notes_batch((first, chained))


def _before(brief: ChainBrief, reader: ChainReader, place: int) -> ChainRoot | None:
    """The last root before a place that can be read."""
    for at in reversed(range(place)):
        [root] = reader.roots([brief.version(at)])
        if root.root is not None:
            return root
    return None


def _look_at_holders(brief: ChainBrief, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for row in rows_of(batches):
        facts = brief.rules.look_at_root(row["path"], decode_root(row["data"], row["path"]).node)
        yield from node_batches(brief, [(facts, row["version"], 0)], 1)
