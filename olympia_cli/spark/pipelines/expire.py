"""An expire on Spark: executors follow, list, name and delete the files for a Planner.

The facts from listings, manifests and trees become one row per file, and the sweep decides about each row. No rule is
decided here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.format.paths import file_kind, parse_root_path
from olympia_cli.ops.expire import (
    SHOWN,
    CatalogFacts,
    FileFacts,
    FileFate,
    Going,
    GoingTotals,
    KeptRoots,
    Survey,
    Sweep,
    follow_kept,
    follow_resting,
)
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk import Files, Flaw, NodeRules, Reach
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pins import batches, ddl
from olympia_cli.spark.pipelines.expire_files import SparkFiles, files_frame, read_manifests
from olympia_cli.spark.pipelines.fsck_definitions import FILES_A_TASK
from olympia_cli.spark.pipelines.place import CatalogPlace, as_planned, keep, known, together, values_of
from olympia_cli.spark.pipelines.walk import SparkWalk, in_fewer_parts, paths_frame, settle_missing
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from olympia_cli.spark.engine import SparkEngine

# The files that the kept versions reach, for an expire. The driver walks; tasks read large levels and definitions.
#
# All of these files are read and found sound before any file counts as dead.


def strict_files(catalog: CatalogPlace) -> Files:
    """Open a catalog's files so that a failure of the store raises an error: it says nothing about a file."""
    return Files(catalog.store, patience=1)


class SparkReach(Reach):
    """A reach that can also return its files. It is usable while its stack is open."""

    # all trees at once: their levels together are large enough for jobs, and so are all definitions
    takes_all_roots = True
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


_FACTS = {
    "modified": "cast(null as timestamp)",
    "bytes": "cast(null as bigint)",
    "at": "cast(null as int)",
    "named": "cast(null as bigint)",
    "resting": "false",
    "reached": "false",
    "recallable": "false",
}
"""Default facts of a file. `at` is the number of the last manifest that leaves and names the file, and `named` the size
that this manifest states."""

_FATES = {"path": "string", "bytes": "long", "kind": "string", "version": "long", "fate": "string", "files": "long"}
_JUDGED = ("path", "resting", "reached", "recallable", "at", "bytes", "named", "files")
_LEFT_OUT = (FileFate.STAYS, FileFate.RESTS, FileFate.GONE)


@contextmanager
def spark_surveyor(engine: SparkEngine) -> Iterator[SparkSurveyor]:
    """Provide a surveyor. Its plans are usable inside the block; at its end Spark frees what it keeps."""
    with as_planned(engine.spark), ExitStack() as stack:
        yield SparkSurveyor(engine, stack)


@dataclass(frozen=True, slots=True)
class SparkSurveyor:
    """Survey files on Spark.

    If an executor is lost, Spark computes its part of a survey again with the same sweep. Neither the kept versions,
    nor the content of manifests, nor the age of a file changes. So each file gets the same fate again.
    """

    engine: SparkEngine
    stack: ExitStack = field(repr=False)

    def reach(self, store: Store, rules: NodeRules, *, definitions: bool, progress: Progress) -> SparkReach:
        return SparkReach(self.engine, self.stack, store, rules, definitions=definitions, progress=progress)

    def survey(
        self, facts: CatalogFacts, reach: Reach, sweep: Sweep, roots: KeptRoots, files: Going | None = None
    ) -> Survey:
        engine = self.engine
        assert isinstance(reach, SparkReach)
        with explained():
            created = follow_kept(facts, reach, roots)
            kept_files, mark = reach.since(), reach.mark()
            resting = follow_resting(facts, reach, sweep)
            sweep = resting.sweep
            parts = engine.parts(2 * reach.number, FILES_A_TASK)
            if files is None:
                named, notes = self._listed(reach.progress, sweep, parts)
            else:
                named, notes = [known(files_frame(engine, files), _FACTS, at="0", named="bytes")], ()
            reached = [known(kept_files, _FACTS, reached="true"), known(reach.since(mark), _FACTS, recallable="true")]
            frame = _judged(sweep, [*reached, *named], parts, self.stack)
            with engine.job("expire: the fate of each file"):
                rows = frame.groupBy("fate", "kind").agg({"files": "sum", "bytes": "sum"}).collect()
            totals = [(FileFate[row["fate"]], row["kind"], row["sum(files)"], row["sum(bytes)"]) for row in rows]
            counts: Counter[FileFate] = Counter()
            for fate, _, number, _ in totals:
                counts[fate] += number
            unknown = self._unknown_paths(frame) if counts[FileFate.UNKNOWN] else ()

        def going(own_fate: FileFate) -> SparkFiles:
            kinds = {kind: number for fate, kind, number, _ in totals if fate is own_fate}
            size = sum(size for fate, _, _, size in totals if fate is own_fate)
            return SparkFiles(engine, _of_fate(frame, own_fate), GoingTotals(kinds, size))

        quarantined, purged = going(FileFate.QUARANTINED), going(FileFate.PURGED)
        return Survey(created, counts, quarantined, purged, unknown, (*resting.notes, *notes), resting.damage)

    def _listed(self, progress: Progress, sweep: Sweep, parts: int) -> tuple[list[DataFrame], tuple[str, ...]]:
        """Return the files that manifests name and a listing shows, and the problems of unreadable manifests."""
        engine = self.engine
        facts: list[DataFrame] = []
        notes: tuple[str, ...] = ()
        if sweep.manifests:
            manifests, notes = read_manifests(engine, sweep, self.stack)
            facts.append(_named(manifests, sweep))
        progress.phase("listing files" if sweep.kinds else "listing all files")
        files = together(engine.catalog.list_files(engine.spark, parts, kind) for kind in sweep.kinds or (None,))
        return [*facts, known(files, _FACTS, modified="modified_at", bytes="bytes")], notes

    def _unknown_paths(self, frame: DataFrame) -> tuple[str, ...]:
        unknown = _of_fate(frame, FileFate.UNKNOWN)
        with self.engine.job("expire: files that the format does not know"):
            return tuple(row.path for row in unknown.orderBy("path").limit(SHOWN).collect())


def _of_fate(files: DataFrame, fate: FileFate) -> DataFrame:
    """Return path, bytes, kind and, for roots, the version of the judged files with this fate."""
    return files.where(f"fate = '{fate.name}'").select("path", "bytes", "kind", "version")


def _judged(sweep: Sweep, facts: Iterable[DataFrame], parts: int, stack: ExitStack) -> DataFrame:
    """Return the files with their fates, without the files that need no action.

    Each DataFrame of `facts` has facts about some of the files; see `known`. A row stands for several files if their
    names are not text and look alike.
    """
    from pyspark.sql.functions import count, expr, max

    columns: list[Column] = [max(name).alias(name) for name in _FACTS if name not in ("bytes", "named")]
    columns += [max("bytes").alias("bytes"), expr("max_by(named, at)").alias("named"), count("modified").alias("files")]
    rows = together(facts).repartition(parts, "path").groupBy("path").agg(*columns)
    return keep(rows.mapInArrow(partial(_judge, sweep), ddl(_FATES)), stack)


def _named(files: DataFrame, sweep: Sweep) -> DataFrame:
    numbers = [str(at) for at, path in enumerate(sweep.manifests) if path in sweep.leaving]
    leaving = f"at in ({', '.join(numbers)})" if numbers else "false"
    return known(files, _FACTS, at=f"if({leaving}, at, null)", named=f"if({leaving}, bytes, null)", resting="true")


# On the workers


def _judge(sweep: Sweep, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in record_batches:
        rows = []
        millis = batch.column("modified").cast(pa.int64()).to_pylist()
        for (path, resting, reached, recallable, at, size, named, files), micros in zip(
            values_of(batch, *_JUDGED), millis, strict=True
        ):
            file = FileFacts(
                path=path,
                kind=file_kind(path),
                modified_at_millis=None if micros is None else micros // 1000,
                reached=reached,
                recallable=recallable,
                resting=resting,
                leaving=at is not None,
            )
            fate = sweep.fate(file)
            if fate not in _LEFT_OUT:
                rows.append(
                    {
                        "path": path,
                        "bytes": size if named is None else named,
                        "kind": file.kind.value,
                        "version": parse_root_path(path),
                        "fate": fate.name,
                        "files": max(1, files),
                    }
                )
        yield from batches(rows, _FATES)
