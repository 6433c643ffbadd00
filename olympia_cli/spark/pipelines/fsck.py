"""fsck on Spark: the walk and the verdict run on the driver, and tasks read most of the files.

The driver holds the graph of nodes, so `Trees` and `Verdict` contain all rules of trees. Levels of nodes, definitions,
the listing and the data of tables become jobs if they are too many for the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from olympia_cli.format.keys import KeyCodec
from olympia_cli.names import TableName, ViewName
from olympia_cli.ops.fsck import (
    DATA,
    Chain,
    DataFinding,
    FsckRequest,
    Listing,
    LocalEngine,
    Named,
    Report,
    Sorting,
    TableData,
    Trees,
    Verified,
    WithData,
    find_quarantine,
    fsck,
    listed_names,
)
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk import Files, NodeFacts, NodeRules, Place
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pins import batches, ddl
from olympia_cli.spark.pipelines.fsck_definitions import DistributedDefinitions, list_unreached
from olympia_cli.spark.pipelines.place import as_planned, rows_of, together
from olympia_cli.spark.pipelines.walk import OpenFiles, SparkWalk, frame_of, no_names, paths_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine

_TABLE = dict.fromkeys(("kind", "namespace", "name", "location"), "string")
"""Columns of a table or view whose data is checked."""


def spark_fsck(engine: SparkEngine, request: FsckRequest) -> Report:
    return fsck(engine.catalog.store, request, SparkFsck(engine))


class SparkFsck(AbstractContextManager["SparkFsck"]):
    """The engine of a check in which Spark's executors read the files of large steps. Small steps run on the driver."""

    # all trees at once: their levels together are large enough for jobs
    takes_all_roots = True

    def __init__(self, engine: SparkEngine, open_files: OpenFiles | None = None, what: str = "fsck") -> None:
        """`open_files` opens the files in tasks, if they are not the catalog's."""
        self._engine = engine
        self._stack = ExitStack()
        open_files = open_files if open_files is not None else engine.catalog.files
        self._walk = SparkWalk(engine, open_files, what, self._stack)
        self._distributed = DistributedDefinitions(self._walk)
        self._tables = SparkData(engine)
        self._here = LocalEngine(self._tables)
        self._bytes_here = 0
        """Bytes of definitions that the driver read."""
        self._levels = self._names = 0
        """Number of levels, and of names in them, that `Named` has received."""
        self._wrong_metadata: frozenset[str] = frozenset()
        """Metadata locations that lead to wrong files."""

    def __enter__(self) -> SparkFsck:
        self._stack.enter_context(explained())
        self._stack.enter_context(as_planned(self._engine.spark))
        return self

    def __exit__(self, *error: Any) -> bool | None:
        return self._stack.__exit__(*error)

    def trees(self, files: Files, chain: Chain, depth: int, verified: Verified | None = None) -> Trees:
        trees = Trees(self, files, chain, depth, verified)
        if trees.definitions is not None:
            trees.definitions.noted = []
            self._walk.texts = depth >= DATA
        if trees.named is not None:
            self._walk.kept_names = listed_names
        return trees

    @property
    def at_once(self) -> int | None:
        return self._walk.at_once

    def nodes(self, files: Files, rules: NodeRules, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        return self._walk.nodes(files, rules, places)

    def read_definitions(self, trees: Trees, *, last: bool) -> Iterator[WithData]:
        if trees.named is not None and not last:
            self._tell(trees.named)
        definitions = trees.definitions
        if definitions is None or not last:
            return
        assert definitions.noted is not None
        if not self._walk.levels and len(definitions.noted) <= self._engine.alone:
            counted = trees.files.bytes
            yield from self._here.read_definitions(trees, last=True)
            self._bytes_here += trees.files.bytes - counted
            return
        before = len(self._distributed.read_frames)
        if not before:
            # tasks also read again the definitions that the driver read while they were few: count these once
            definitions.read_count = definitions.without_digest = 0
            trees.files.bytes -= self._bytes_here
        self._distributed.read(trees)
        self._tables.take(self._distributed.read_frames[before:], self._distributed.number, trees)
        self._distributed.take_tables(trees, self._wrong_metadata)

    def _tell(self, named: Named) -> None:
        """Send the names in nodes that tasks read to the driver's `Named`, unless they exceed its limit."""
        walk = self._walk
        levels, number = walk.levels[self._levels :], walk.named - self._names
        self._levels, self._names = len(walk.levels), walk.named
        if not named.has_room(number):
            named.leave(number)
            walk.kept_names = no_names
        elif number:
            with self._engine.job(f"{walk.what}: the names of definitions"):
                rows = together(levels).selectExpr("path", "names.path as names").toArrow().to_pydict()
            for node, names in zip(rows["path"], rows["names"], strict=True):
                named.add(node, tuple(names))

    def check_data(self, trees: Trees, tables: Iterator[WithData]) -> TableData:
        data = self._here.check_data(trees, tables)
        self._wrong_metadata = frozenset(location for hit in data.findings for location in hit.locations)
        self._distributed.take_tables(trees, self._wrong_metadata)
        return data

    # The listing

    def list_files(self, trees: Trees, saved: frozenset[str]) -> Listing:
        if not self._distributed.read_frames:
            return self._here.list_files(trees, saved)
        listing, versions = self._listed(trees, saved), len(trees.roots)
        if listing.tallies["F901"].named:
            trees.add_late()
        return listing if len(trees.roots) == versions else self._listed(trees, saved)

    def _listed(self, trees: Trees, saved: frozenset[str]) -> Listing:
        chain, engine, distributed = trees.chain, self._engine, self._distributed
        trees.files.progress.phase("listing files")
        reached = [frame.select("path") for frame in distributed.read_frames]
        reached.append(paths_frame(engine, [*trees.graph.paths, *chain.catalogs]))
        number = distributed.number + len(trees.graph.paths)
        sorting = Sorting(saved, chain.oldest, chain.width)
        with engine.job(f"{self._walk.what}: the listing"):
            return list_unreached(engine, trees.files, sorting, find_quarantine(chain.reference), reached, number)


class SparkData:
    """Check the data of tables and views, whether the driver or tasks read their definitions."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine
        self._frames: list[DataFrame] = []
        self._number = 0
        self.data_files = 0

    def take(self, definitions: Iterable[DataFrame], number: int, trees: Trees) -> None:
        """Take the tables and views among definitions that tasks read; `number` is an upper bound of their number."""
        if trees.depth >= DATA:
            self._frames += [_tables_of(frame, trees.keys) for frame in definitions]
            self._number += number

    def check(self, objects: Iterable[WithData], progress: Progress) -> Iterator[DataFinding]:
        from olympia_cli.spark.pipelines.fsck_data import check_data

        # taking the objects completes the walk
        rows = [
            (name.kind.word, name.namespace, name.name, definition.iceberg_metadata_location)
            for name, definition in objects
        ]
        frames = [*([frame_of(self._engine, rows, _TABLE)] if rows else []), *self._frames]
        if frames:
            number = len(rows) + self._number
            findings, checked = check_data(self._engine, together(frames), number, progress=progress)
            self.data_files = checked["data_files"]
            yield from findings


def _tables_of(definitions: DataFrame, keys: KeyCodec | None) -> DataFrame:
    """Return the kind, the names and the metadata location of each definition that has a location."""
    tables = definitions.where("location is not null").selectExpr("location", "explode(keys) as key").distinct()
    return tables.mapInArrow(partial(_names, keys), ddl(_TABLE))


# On the workers


def _names(keys: KeyCodec | None, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    named = ((keys.name(row["key"]), row["location"]) for row in rows_of(record_batches)) if keys is not None else ()
    rows = (
        (name.kind.word, name.namespace, name.name, location)
        for name, location in named
        if isinstance(name, TableName | ViewName)
    )
    yield from batches((dict(zip(_TABLE, row, strict=True)) for row in rows), _TABLE)
