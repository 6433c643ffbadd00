"""Which files the versions that stay reach, for an expire: a fold over the rows of the walk, all of it read and found
whole before anything is said to be dead.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa

from olympia_cli.errors import Damaged, PathMissing, StoreError
from olympia_cli.format.paths import FileKind, root_path
from olympia_cli.ops.expire.sweep import Sweep
from olympia_cli.ops.fsck.examined import OutOfPlace
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.facts import NodeFacts, NodeRules
from olympia_cli.ops.walk.files import Files
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.ops.walk.reach import ROOTS_AT_ONCE
from olympia_cli.spark.failures import failures
from olympia_cli.spark.pipelines.frames import cut
from olympia_cli.spark.pipelines.place import CatalogPlace, rows_of
from olympia_cli.spark.pipelines.walk import (
    NODES,
    NodeRow,
    WalkBrief,
    all_nodes,
    named_by,
    node_batches,
    notes_batch,
    notes_in,
    read_definitions,
)
from olympia_cli.tree.load import MAX_DEPTH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine

_PIN = "a copy of a root that a transaction or an export needs"


@dataclass(frozen=True, slots=True)
class ReachedFiles:
    """Path and kind of files; one may be there more than once."""

    kept: DataFrame
    """What the versions that stay reach, and the pins."""
    resting: DataFrame | None
    """What versions reach beside that which stay in quarantine."""
    created: tuple[tuple[int, int], ...]
    """When each version that stays was created, the oldest first."""


def find_reached(
    engine: SparkEngine, sweep: Sweep, rules: NodeRules, progress: Progress = SILENT, *, definitions: bool = True
) -> ReachedFiles:
    """Damaged when something is not whole. With `definitions` left out, definitions are named and not read."""
    brief = WalkBrief(StrictPlace(engine.catalog), rules, texts=False)
    progress.phase("reading the roots of what is kept")
    roots = _versions(engine, brief, range(sweep.oldest, sweep.latest + 1), "")
    if sweep.pins:
        pins = engine.spark.createDataFrame([(path,) for path in sweep.pins], "path string")
        roots = roots.union(pins.mapInArrow(partial(_look_at_pins, brief), NODES))
    tops = cut(roots)
    resting: DataFrame | None = None
    try:
        nodes = every = all_nodes(engine, brief, tops, progress)
        if sweep.resting_versions:
            progress.phase("reading the roots of what rests")
            at_rest = cut(_versions(engine, brief, sweep.resting_versions, ", which is in quarantine,"))
            resting = all_nodes(engine, brief, at_rest, progress, known=[nodes])
            every = nodes.union(resting)
    except OutOfPlace:
        raise Damaged("F210", engine.catalog.uri, f"a tree is deeper than {MAX_DEPTH} levels") from None
    progress.phase("reading definitions" if definitions else "naming definitions")
    named = read_definitions(engine, brief.place, every) if definitions else None
    _raise_first_flaw(every, named)
    created = tuple(sorted(pair for pairs in notes_in(tops) for pair in pairs))
    if resting is not None:
        return ReachedFiles(_paths(nodes, named_by(nodes)), _paths(resting, named_by(resting)), created)
    return ReachedFiles(_paths(nodes, named_by(nodes) if named is None else named), None, created)


def _versions(engine: SparkEngine, brief: WalkBrief, versions: range, remark: str) -> DataFrame:
    """The remark is what is said of a version whose root is missing."""
    parts = max(1, min(engine.partitions, len(versions)))
    numbers = engine.spark.range(versions.start, versions.stop, 1, parts)
    return numbers.mapInArrow(partial(_look_at_versions, brief, remark), NODES)


def _paths(nodes: DataFrame, named: DataFrame) -> DataFrame:
    root, node, definition = FileKind.ROOT.value, FileKind.NODE.value, FileKind.DEFINITION.value
    files = nodes.selectExpr("path", f"if(level = 1, '{root}', '{node}') as kind")
    return files.union(named.selectExpr("path", f"'{definition}' as kind"))


def _raise_first_flaw(nodes: DataFrame, definitions: DataFrame | None) -> None:
    """The first by path, so that it does not depend on which task came first."""
    flaws = nodes.where("size(marks) > 0").selectExpr("path as at", "0 as kind", "marks[0] as mark")
    if definitions is not None:
        bad = definitions.where("code is not null")
        flaws = flaws.union(bad.selectExpr("path", "kind", "struct(path, code, reason, false as newer, hint)"))
    for row in flaws.orderBy("at", "kind").limit(1).collect():
        path, *flaw = row.mark
        raise Flaw(*flaw).error(path)


# On the workers


@dataclass(frozen=True, slots=True)
class StrictPlace:
    """A catalog whose store must not fail: that it does says nothing of a file."""

    catalog: CatalogPlace

    def files(self) -> Files:
        return Files(self.catalog.store, lambda: False, patience=1)


class LiveRoot(NamedTuple):
    """A root to follow, its version if it is here as one, and what is said if it is missing."""

    path: str
    version: int | None
    code: str
    what: str


def _look_at_versions(brief: WalkBrief, remark: str, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    versions = (row["id"] for row in rows_of(batches))
    return _root_batches(brief, (LiveRoot(root_path(at), at, "F101", f"version {at}{remark}") for at in versions))


def _look_at_pins(brief: WalkBrief, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    # whatever its name is, it is not here as a version
    return _root_batches(brief, (LiveRoot(row["path"], None, "F201", _PIN) for row in rows_of(batches)))


def _root_batches(brief: WalkBrief, roots: Iterator[LiveRoot]) -> Iterator[pa.RecordBatch]:
    created: list[tuple[int, int]] = []

    def look(files: Files) -> Iterator[NodeRow]:
        while batch := list(islice(roots, ROOTS_AT_ONCE)):
            for root, (_, data) in zip(batch, files.read_many(root.path for root in batch), strict=True):
                facts, millis = _facts(brief, root, data)
                if root.version is not None and millis is not None:
                    created.append((root.version, millis))
                yield facts, root.version, 0

    with failures(), brief.place.files() as files:
        yield from node_batches(brief, look(files), 1)
        yield notes_batch(created)


def _facts(brief: WalkBrief, root: LiveRoot, data: bytes | StoreError) -> tuple[NodeFacts, int | None]:
    if isinstance(data, PathMissing):
        return NodeFacts(root.path, False, marks=((root.path, Flaw(root.code, f"{root.what} is missing")),)), None
    if isinstance(data, Exception):
        raise data
    return brief.rules.look_at_root_file(root.path, data)
