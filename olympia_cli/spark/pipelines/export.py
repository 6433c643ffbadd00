"""Exports on Spark: tasks copy files from store to store, read them back, and compare.

The steps of an export, and what is refused, are those of `ops.export`, which is given this engine for the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import OlympiaError, OutcomeUnknown, PathTaken
from olympia_cli.format.node import Root
from olympia_cli.format.node_file import decode_root
from olympia_cli.format.paths import FileKind
from olympia_cli.ops.export.checks import FileChecks, Problem, copy_failure, failure
from olympia_cli.ops.export.copy import Counted, check_number, create_all, not_created, own_definition_file
from olympia_cli.ops.export.engine import CheckCopy, Surveyed
from olympia_cli.ops.export.note import Note
from olympia_cli.ops.progress import Progress
from olympia_cli.spark.batches import batches
from olympia_cli.spark.conditions import Conditions
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained
from olympia_cli.spark.files import plan_files
from olympia_cli.spark.pipelines.export_walk import Reading, SparkWalk
from olympia_cli.spark.pipelines.live import keep
from olympia_cli.spark.pipelines.place import CatalogPlace, rows_of
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

_CREATING: dict[str, type[PathTaken] | type[OutcomeUnknown]] = {
    error.__name__: error for error in (PathTaken, OutcomeUnknown)
}


@dataclass(frozen=True, slots=True)
class SparkExport:
    """The tasks of a Spark session. `dest` is the destination as they reach it."""

    engine: SparkEngine
    dest: CatalogPlace

    def copy(self, snapshot: Snapshot, note: Note, dest: Store, fresh: bool, progress: Progress) -> CheckCopy:
        replaced = None if note.definition is None else snapshot.root.catalog_def
        reading = Reading(note.scope, self.engine.catalog, self.dest, copying=True, replaced=replaced)
        with explained(), ExitStack() as stack:
            there = None if fresh else self.listed(stack)
            walk = SparkWalk(self.engine, reading, stack, progress, there=there, strict=True)
            walk.run(snapshot.file.path, snapshot.root)
            if walk.totals.wrong:
                [first] = walk.wrong(1)
                assert first.problem is not None
                raise _error(first.path, first.problem, note, dest)
            totals = walk.totals
            wrong = walk.wrong(1, of_copy=True) if totals.wrong_copies else ()
        if note.definition is not None and (fresh or not dest.exists(note.definition)):
            create_all(dest, {note.definition: own_definition_file(snapshot, note.definition)}, note)

        def check(path: str, data: bytes) -> Counted:
            # the tasks have read back what they copied
            for seen in wrong:
                assert seen.problem is not None
                raise copy_failure(dest.uri, seen.path, seen.problem)
            counted, expected = Counted().plus(len(data)) + totals.copied, totals.to_copy + 1
            if note.definition is not None:
                counted, expected = counted.plus(_read_definition(dest, note.definition)), expected + 1
            check_number(counted.files, expected, dest.uri)
            return counted

        return check

    def check(self, path: str, data: bytes, note: Note, dest: Store, progress: Progress) -> Counted:
        reading = Reading(note.scope, None, self.dest)
        with explained(), ExitStack() as stack:
            walk = SparkWalk(self.engine, reading, stack, progress, copied_only=True, strict=True)
            walk.run(path, decode_root(data, path))
            for seen in walk.wrong(1) if walk.totals.wrong else ():
                assert seen.problem is not None
                raise copy_failure(dest.uri, seen.path, seen.problem)
            return Counted().plus(len(data)) + walk.totals.copied

    def survey(
        self, path: str, root: Root, note: Note, dest: Store, source: Store | None, limit: int, progress: Progress
    ) -> Surveyed:
        reading = Reading(note.scope, None if source is None else self.engine.catalog, self.dest)
        with explained(), ExitStack() as stack:
            walk = SparkWalk(self.engine, reading, stack, progress)
            walk.run(path, root)
            wrong = walk.wrong(limit) if walk.totals.wrong else ()
            return Surveyed(walk.totals.copied, walk.totals.shared, wrong, walk.totals.wrong)

    def listed(self, stack: ExitStack) -> DataFrame:
        """What the destination has of the files that are copied, as tasks list them."""
        kinds = (FileKind.NODE, FileKind.DEFINITION)
        parts = [part for kind in kinds for part in plan_files(self.dest.uri, Conditions({"kind": kind.value}), None)]
        prefixes = [(prefix,) for part in parts for prefix in part.prefixes]
        asked = self.engine.spark.createDataFrame(prefixes, "prefix string")
        asked = asked.repartition(min(self.engine.partitions, len(prefixes)))
        return keep(asked.mapInArrow(partial(_list, self.dest), "path string"), stack)


def _error(path: str, problem: Problem, note: Note, dest: Store) -> OlympiaError:
    if problem.code in _CREATING:
        return not_created(_CREATING[problem.code](problem.reason), note, dest.uri)
    return failure(path, problem)


def _read_definition(dest: Store, path: str) -> int:
    """The size of the definition that an export has of its own."""
    [(_, data)] = dest.read_many([path])
    problem = FileChecks().definition(path, None, data)
    if problem is not None:
        raise copy_failure(dest.uri, path, problem)
    assert isinstance(data, bytes)
    return len(data)


# On the workers


def _list(place: CatalogPlace, prefixes: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    found = ({"path": file.path} for row in rows_of(prefixes) for file in place.store.list(row["prefix"]))
    return batches(found, {"path": "string"})
