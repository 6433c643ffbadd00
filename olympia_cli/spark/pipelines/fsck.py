"""fsck on Spark: the walk and the verdict run on the driver, and tasks read most of the files.

The driver holds the graph of nodes, so `Growth` and `Verdict` contain all rules of trees. Levels of nodes, definitions,
the listing and the data of tables become jobs if they are too many for the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.names import TableName, ViewName
from olympia_cli.ops.fsck.definitions import Named, listed_names
from olympia_cli.ops.fsck.engine import LocalEngine
from olympia_cli.ops.fsck.findings import DataFinding, WithData
from olympia_cli.ops.fsck.fsck import FsckRequest, Report, fsck
from olympia_cli.ops.fsck.listing import Listing, Sorting, find_quarantine
from olympia_cli.ops.fsck.verdict import DATA, Examined
from olympia_cli.ops.progress import Progress
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
    with explained(), as_planned(engine.spark), ExitStack() as stack:
        return fsck(engine.catalog.store, request, SparkFsck(engine, stack))


class SparkFsck(LocalEngine):
    """The engine of a run in which Spark's executors read the files of large steps."""

    # all trees at once: their levels together are large enough for jobs
    roots_at_once = None

    def __init__(
        self, engine: SparkEngine, stack: ExitStack, open_files: OpenFiles | None = None, what: str = "fsck"
    ) -> None:
        """`open_files` opens the files in tasks, if they are not the catalog's. `stack` frees what Spark keeps."""
        self._engine = engine
        self._walk = SparkWalk(engine, open_files if open_files is not None else engine.catalog.files, what, stack)
        self._distributed = DistributedDefinitions(self._walk)
        self._tables = SparkData(engine)
        self._read_here = 0
        """Bytes of definitions that the driver read."""
        self._levels = self._names = 0
        """Number of levels, and of names in them, that `Named` has received."""
        super().__init__(self._tables, self._walk)

    def _grow(self, into: Examined, tops: Iterable[tuple[str, Node | bytes]]) -> Iterator[WithData]:
        definitions = into.definitions
        if definitions is not None and definitions.noted is None:
            definitions.noted = []
            self._walk.texts = into.depth >= DATA
        if into.named is not None and into.named.has_room():
            self._walk.kept_names = listed_names
        for _ in self._growth_of(into).add(tops):
            if into.named is not None:
                self._tell(into.named)
        if definitions is None:
            return
        assert definitions.noted is not None
        if not self._walk.levels and len(definitions.noted) <= self._engine.alone:
            counted = into.files.bytes
            yield from definitions.read()
            self._read_here += into.files.bytes - counted
            return
        before = len(self._distributed.read_frames)
        if not before:
            # tasks also read again the definitions that the driver read while they were few: count these once
            definitions.read_count = definitions.without_digest = 0
            into.files.bytes -= self._read_here
        self._distributed.read(into)
        self._tables.take(self._distributed.read_frames[before:], self._distributed.number, into)

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

    def examine_more(self, examined: Examined, versions: Sequence[int]) -> None:
        super().examine_more(examined, versions)
        self._distributed.take_tables(examined)

    def _look_at_data(self, into: Examined, tables: Iterator[WithData]) -> None:
        super()._look_at_data(into, tables)
        self._distributed.take_tables(into)

    # The listing

    def list_files(self, examined: Examined, saved: frozenset[str]) -> Listing:
        if not self._distributed.read_frames:
            return super().list_files(examined, saved)
        listing, versions = self._listed(examined, saved), len(examined.roots)
        if listing.tallies["F901"].named:
            self._follow_late(examined)
        return listing if len(examined.roots) == versions else self._listed(examined, saved)

    def _listed(self, examined: Examined, saved: frozenset[str]) -> Listing:
        chain, engine, distributed = examined.chain, self._engine, self._distributed
        examined.files.progress.phase("listing files")
        reached = [frame.select("path") for frame in distributed.read_frames]
        reached.append(paths_frame(engine, [*examined.graph.paths, *chain.catalogs]))
        number = distributed.number + len(examined.graph.paths)
        sorting = Sorting(saved, chain.oldest, chain.width)
        with engine.job(f"{self._walk.what}: the listing"):
            return list_unreached(engine, examined.files, sorting, find_quarantine(chain.reference), reached, number)


class SparkData:
    """Check the data of tables and views, whether the driver or tasks read their definitions."""

    def __init__(self, engine: SparkEngine) -> None:
        self._engine = engine
        self._frames: list[DataFrame] = []
        self._number = 0
        self.data_files = 0

    def take(self, definitions: Iterable[DataFrame], number: int, into: Examined) -> None:
        """Take the tables and views among definitions that tasks read; `number` is an upper bound of their number."""
        if into.depth >= DATA:
            self._frames += [_tables_of(frame, into.keys) for frame in definitions]
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
