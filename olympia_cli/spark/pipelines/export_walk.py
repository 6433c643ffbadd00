"""All files of one version or export, level by level, each read in some task and found whole or not.

A level is a DataFrame of pointers, made from the nodes of the level above. What one file shows a task finds out; what
takes several files (a node with two places, leaves on different levels) is a question to the DataFrame. This process
learns numbers, and the first few of the files with which something is wrong.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import partial, reduce
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.format.node import Root
from olympia_cli.ops.export.checks import OTHER_LEVEL, Place, Problem, root_pointers, too_deep
from olympia_cli.ops.export.copy import Counted
from olympia_cli.ops.export.note import Scope
from olympia_cli.ops.export.part import FILE, POINTER, WRONG, Asked, Part, Row, pointer_rows
from olympia_cli.ops.export.walk import Order, Seen
from olympia_cli.ops.progress import Progress
from olympia_cli.spark.batches import arrow_schema
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.pipelines.live import apart, keep
from olympia_cli.spark.pipelines.place import CatalogPlace, rows_of
from olympia_cli.tree import load

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TYPES = {"is_node": "boolean", "level": "int", "at": "int", "copied": "boolean", "leaf": "boolean"}
_TYPES |= {"size": "long", "of_copy": "boolean", "second": "boolean", "there": "boolean"}
_COLUMNS = {name: _TYPES.get(name, "string") for name in Row._fields}
_ASKED = {name: _TYPES.get(name, "string") for name in Asked._fields}
_SCHEMA = ", ".join(f"{name} {word}" for name, word in _COLUMNS.items())
_ROWS = 4096

_FILES = f"what = '{FILE}'"
_TOTALS = {
    "copied_files": f"count_if({_FILES} and copied and size > 0)",
    "copied_bytes": f"coalesce(sum(size) filter (where {_FILES} and copied), 0)",
    "shared_files": f"count_if({_FILES} and not copied and size > 0)",
    "shared_bytes": f"coalesce(sum(size) filter (where {_FILES} and not copied), 0)",
    "to_copy": f"count_if({_FILES} and copied)",
    "wrong": "count_if(code is not null and not of_copy)",
    "wrong_copies": "count_if(of_copy)",
    "children": f"count_if(what = '{POINTER}' and is_node)",
    "leaves": f"count_if({_FILES} and leaf)",
    "inner": f"count_if({_FILES} and not leaf)",
    # all nodes of a level are what the first of them is
    "leaf": f"min_by(leaf, rank) filter (where {_FILES} and leaf is not null)",
}


@dataclass(frozen=True, slots=True)
class Reading:
    """What tasks are told: how much of a version is copied, and where from and where to.

    Without `copying` what is copied is read at the destination, and what is shared in the catalog.
    """

    scope: Scope
    source: CatalogPlace | None
    dest: CatalogPlace
    copying: bool = False
    replaced: str | None = None


@dataclass(frozen=True, slots=True)
class Totals:
    """Numbers of rows, and what kind of node the first of a level is."""

    copied_files: int = 0
    copied_bytes: int = 0
    shared_files: int = 0
    shared_bytes: int = 0
    to_copy: int = 0
    wrong: int = 0
    wrong_copies: int = 0
    children: int = 0
    leaves: int = 0
    inner: int = 0
    leaf: bool | None = None

    def __add__(self, other: Totals) -> Totals:
        names = [field.name for field in fields(self) if field.name != "leaf"]
        return Totals(**{name: getattr(self, name) + getattr(other, name) for name in names})

    @property
    def copied(self) -> Counted:
        return Counted(self.copied_files, self.copied_bytes)

    @property
    def shared(self) -> Counted:
        return Counted(self.shared_files, self.shared_bytes)


class SparkWalk:
    """The files that a root leads to. What Spark keeps meanwhile is freed with `stack`.

    `there` has the paths at the destination. With `copied_only` what an export shares is left out; with `strict` the
    walk ends at the first level in which something is wrong.
    """

    def __init__(
        self,
        engine: SparkEngine,
        reading: Reading,
        stack: ExitStack,
        progress: Progress,
        *,
        there: DataFrame | None = None,
        copied_only: bool = False,
        strict: bool = False,
    ) -> None:
        self._engine = engine
        self._reading = reading
        self._stack = stack
        self._progress = progress
        self._there = there
        self._copied_only = copied_only
        self._strict = strict
        self._doing = "copying" if reading.copying else "reading"
        self.found: list[DataFrame] = []
        """The rows of each level, and then those of the definitions."""
        self._deep: list[Seen] = []
        self.totals = Totals()

    def run(self, path: str, root: Root) -> None:
        """Look at all files; what is found is asked for afterwards."""
        totals = self._begin(list(pointer_rows(root_pointers(root, path), Place(path), 1, True, None)))
        level = 1
        while totals.children and not self._ends:
            below = self._pointers().where(f"is_node and level = {level}")
            level += 1
            unread = self._copied_only and not self._reading.scope.copies_nodes(level)
            if level > load.MAX_DEPTH:
                self._end(below, level)
                unread = True
            if unread:
                # nodes that have two places are wrong all the same
                below = below.where("second")
            self._progress.phase(f"{self._doing} nodes", totals.children)
            totals = self._take(self._visit(below.withColumn("level", below.level + 1)))
            self._progress.advance(totals.leaves + totals.inner)
            if unread:
                break
        if not self._ends:
            self._definitions()

    def wrong(self, limit: int, *, of_copy: bool = False) -> tuple[Seen, ...]:
        """The first files with which something is wrong, in the order of the local engine."""
        found = _together(self.found).where(f"code is not null and of_copy = {of_copy}")
        found = found.orderBy("level", found.is_node.desc(), "rank", "at").limit(limit)
        columns = ("path", "is_node", "copied", "code", "reason", "key", "level", "rank", "at")
        seen = [
            Seen(
                row.path,
                row.is_node,
                row.copied,
                b"",
                Problem(row.code, row.reason),
                row.key,
                Order(row.level, not row.is_node, row.rank, row.at),
            )
            for row in found.select(*columns).collect()
        ]
        deep = [] if of_copy else self._deep
        return tuple(sorted([*seen, *deep], key=lambda one: one.order)[:limit])

    @property
    def _ends(self) -> bool:
        return self._strict and self.totals.wrong > 0

    def _begin(self, rows: list[Row]) -> Totals:
        """What the root points to, which is one file and was read already."""
        self.found.append(self._engine.spark.createDataFrame([tuple(row) for row in rows], _SCHEMA))
        wrong = sum(row.what == WRONG for row in rows)
        self.totals += Totals(wrong=wrong)
        return Totals(wrong=wrong, children=sum(row.what == POINTER and row.is_node for row in rows))

    def _take(self, found: DataFrame) -> Totals:
        """Let Spark do what a level takes; what came of it."""
        found = keep(found, self._stack)
        totals = _totals(found)
        if totals.leaves and totals.inner:
            found = _on_one_level(found, "true" if totals.leaf else "false")
            totals = _totals(found)
        self.found.append(found)
        self.totals += totals
        return totals

    def _pointers(self) -> DataFrame:
        """All pointers so far. Of several to one file the first is the one that counts."""
        columns = [name for name in Asked._fields if name in Row._fields]
        found = _together(found.where(f"what = '{POINTER}'").select(*columns) for found in self.found)
        found = found.repartition(self._engine.partitions, "path")
        return found.selectExpr("*", "row_number() over (partition by path order by level, rank, at) > 1 as second")

    def _visit(self, pointers: DataFrame) -> DataFrame:
        if self._there is None:
            pointers = pointers.selectExpr("*", "false as there")
        else:
            there = apart(self._there.selectExpr("path", "true as listed"))
            pointers = pointers.join(there, "path", "left").selectExpr("*", "listed is not null as there")
        return pointers.select(*Asked._fields).mapInArrow(partial(_visit, self._reading), _SCHEMA)

    def _end(self, below: DataFrame, level: int) -> None:
        copied = self._reading.scope.copies_nodes(level)
        for row in below.where("not second").orderBy("rank", "at").limit(1).collect():
            self._deep.append(Seen(row.path, True, copied, b"", too_deep(), order=Order(level)))
            self.totals += Totals(wrong=1)

    def _definitions(self) -> None:
        """Those of all levels at once: no level waits for the definitions of another."""
        named = self._pointers().where("not is_node and not second")
        if self._copied_only:
            copies = self._reading.scope.copies_definitions
            levels = [str(level) for level in range(1, len(self.found) + 1) if copies(level)]
            if not levels:
                return
            named = named.where(f"level in ({', '.join(levels)})")
        self._progress.phase(f"{self._doing} definitions")
        totals = self._take(self._visit(named))
        self._progress.advance(totals.copied_files + totals.shared_files)


def _totals(found: DataFrame) -> Totals:
    [row] = found.selectExpr(*(f"{text} as {name}" for name, text in _TOTALS.items())).collect()
    return Totals(**row.asDict())


def _on_one_level(found: DataFrame, leaf: str) -> DataFrame:
    """Nodes that are not what the first of their level is are wrong, and what they point to is left alone."""
    other = f"leaf is not null and leaf <> {leaf}"
    code, reason = (f"if({other}, '{text}', {name})" for name, text in zip(Problem._fields, OTHER_LEVEL, strict=True))
    found = found.where(f"{_FILES} or not coalesce({other}, false)")
    texts = {"code": code, "reason": reason}
    return found.selectExpr(*(f"{texts.get(name, name)} as {name}" for name in _COLUMNS))


def _together(frames: Iterable[DataFrame]) -> DataFrame:
    return reduce(lambda one, other: one.union(other), frames)


# On the workers


def _visit(reading: Reading, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    source = None if reading.source is None else reading.source.store
    part = Part(reading.scope, source, reading.dest.store, copying=reading.copying, replaced=reading.replaced)
    rows = part.visit(Asked(**row) for row in rows_of(batches))
    schema = arrow_schema(_COLUMNS)
    while batch := list(islice(rows, _ROWS)):
        columns = zip(*batch, strict=True)
        arrays = [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)
