"""The files that the kept versions reach, for an expire. The driver walks; tasks read large levels and definitions.

All of these files are read and found sound before any file counts as dead.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk.facts import NodeRules
from olympia_cli.ops.walk.files import Files
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.ops.walk.reach import Reach
from olympia_cli.spark.pipelines.frames import together
from olympia_cli.spark.pipelines.place import CatalogPlace
from olympia_cli.spark.pipelines.walk import SparkWalk, in_fewer_parts, paths_frame, settle_missing
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine


def strict_files(catalog: CatalogPlace) -> Files:
    """Open a catalog's files so that a failure of the store raises an error: it says nothing about a file."""
    return Files(catalog.store, lambda: False, patience=1)


class SparkReach(Reach):
    """A reach that can also return its files. It is usable while its stack is open."""

    # all trees at once: their levels together are large enough for jobs, and so are all definitions
    roots_at_once = None
    definitions_at_once = float("inf")

    def __init__(
        self,
        engine: SparkEngine,
        stack: ExitStack,
        store: Store,
        rules: NodeRules,
        *,
        definitions: bool,
        progress: Progress,
    ) -> None:
        self._walk = SparkWalk(engine, partial(strict_files, engine.catalog), "expire", stack)
        super().__init__(store, rules, definitions=definitions, progress=progress, mapper=self._walk)
        self._paths: list[str] = []
        self._frames: list[DataFrame] = []
        self._levels = self._named = 0
        """Number of levels, and of names in them, that the frames contain."""

    @property
    def number(self) -> int:
        """The highest possible number of reached files."""
        return len(self._paths) + self._named

    def mark(self) -> tuple[int, int]:
        """Return the current position, for `since`."""
        return len(self._paths), len(self._frames)

    def since(self, mark: tuple[int, int] = (0, 0)) -> DataFrame:
        """Return the paths that were reached since a mark. A path may occur more than once."""
        paths, frames = mark
        ours = paths_frame(self._walk.engine, self._paths[paths:])
        return together([ours, *(frame.select("path") for frame in self._frames[frames:])])

    def _portion(self) -> list[str]:
        portion = super()._portion()
        self._paths += portion
        return portion

    def _read_definitions(self) -> None:
        walk = self._walk
        levels = [_unflawed(level) for level in walk.levels[self._levels :]]
        if not levels and len(self._waiting) <= walk.engine.alone:
            super()._read_definitions()
            return
        waiting, self._waiting = self._waiting, []
        number = len(waiting) + walk.named - self._named
        self._levels, self._named = len(walk.levels), walk.named
        names = walk.names(((place, True, (place.path, kind, "")) for place, kind in waiting), levels)
        if not self._definitions:
            self._frames.append(names)
            return
        self._files.progress.phase("reading definitions", number)
        frame = walk.read_definitions(names, number, self._frames)
        with walk.engine.job(f"{walk.what}: definitions"):
            # the first by path, so that the result does not depend on the order of the tasks
            flaw = "min(if(code is null, null, struct(path, kind, code, reason, hint, host))) as flaw"
            [totals] = frame.selectExpr("count(bytes) as files", "coalesce(sum(bytes), 0) as bytes", flaw).collect()
        walk.engine.run.read(totals.files, totals.bytes)
        if (row := totals.flaw) is not None:
            if row.host is not None:
                settle_missing(self._files, {row.path: row.host})
            raise Flaw(row.code, row.reason, hint=row.hint).error(row.path)
        self._frames.append(in_fewer_parts(walk.engine, frame, number))


def _unflawed(level: DataFrame) -> DataFrame:
    """Return the nodes of a level, which were sound when the driver examined them. If a machine is lost, Spark reads
    its nodes again. They must still be sound: otherwise the definitions that they name would count as dead."""
    error = "raise_error(concat('a node is no longer sound: ', path))"
    names = f"if(flawed, cast({error} as array<struct<path:string,kind:int,code:long,key:string>>), names) as names"
    return level.selectExpr("path", "level", "readable", names)
