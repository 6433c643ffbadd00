"""An expire on Spark: executors follow, list, name and delete the files for an ExpirePlanner.

The facts from listings, manifests and trees become one row per file, and the sweep decides about each row. No rule is
decided here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions

from olympia_cli.errors import Damaged
from olympia_cli.format.paths import check_pointer, file_kind, parse_root_path
from olympia_cli.ops.expire import (
    PART_FILES,
    ROOT,
    SHOWN,
    TRANSACTION,
    CatalogFacts,
    Doomed,
    ExpireManifest,
    FileFacts,
    FileFate,
    Going,
    GoingTotals,
    KeptRoots,
    ManifestPart,
    Survey,
    Sweep,
    check_deletable,
    decode_part,
    delete_checked,
    encode_part,
    follow_kept,
    follow_resting,
    new_part_path,
    read_head,
    unread,
)
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk import Files, Flaw, NodeRules, ReachedFiles
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained, told
from olympia_cli.spark.pins import batches, ddl
from olympia_cli.spark.pipelines.fsck_definitions import FILES_A_TASK
from olympia_cli.spark.pipelines.place import CatalogPlace, as_planned, keep, known, rows_of, together, values_of
from olympia_cli.spark.pipelines.walk import SparkWalk, frame_of, in_fewer_parts, paths_frame, settle_missing
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


class SparkReach(ReachedFiles):
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
        self, facts: CatalogFacts, reach: ReachedFiles, sweep: Sweep, roots: KeptRoots, files: Going | None = None
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
    columns: list[Column] = [functions.max(name).alias(name) for name in _FACTS if name not in ("bytes", "named")]
    columns += [
        functions.max("bytes").alias("bytes"),
        functions.expr("max_by(named, at)").alias("named"),
        functions.count("modified").alias("files"),
    ]
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


# Files to delete, listed on Spark. The driver knows how many there are, and iterates over roots and files of
# transactions.

# The contents of an expire's manifests as a DataFrame: one task reads each manifest, and one task each part.

_ROW = {
    "at": "int",
    "path": "string",
    "bytes": "long",
    "part": "string",
    "expected": "long",
    "problem": "string",
    "unreadable": "boolean",
}
_COLUMNS = ddl(_ROW)


def read_manifests(engine: SparkEngine, sweep: Sweep, stack: ExitStack) -> tuple[DataFrame, tuple[str, ...]]:
    """Return the files that the manifests of a sweep name, and the problems of unreadable manifests, whose files are
    left out. The columns are `at` (the number of the manifest), path and bytes.

    Raise Damaged if a sound manifest that leaves names a file that an expire never deletes.
    """
    manifests, catalog = sweep.manifests, engine.catalog
    # one manifest at a time: a manifest may name all of its files itself
    number = len(manifests)
    heads = engine.spark.range(0, number, 1, engine.parts(number, 1))
    heads = keep(heads.mapInArrow(partial(_read_heads, catalog, sweep), _COLUMNS), stack)
    parts = heads.where("part is not null").select("at", "part", "expected").repartition("part")
    entries = heads.where("part is null").union(parts.mapInArrow(partial(_read_parts, catalog, sweep), _COLUMNS))
    entries = keep(entries, stack)
    with engine.job("expire: manifests"):
        rows = entries.where("problem is not null").select("at", "problem", "unreadable").collect()
    problems = sorted(set(rows))
    broken = {row.at: row.problem for row in reversed(problems) if row.unreadable}
    for row in problems:
        if row.at not in broken:
            raise Damaged("", manifests[row.at], row.problem)
    files = entries.where("problem is null").select("at", "path", "bytes")
    if broken:
        files = files.where(f"at not in ({', '.join(map(str, broken))})")
    return files, tuple(broken[at] for at in sorted(broken))


# On the workers


@told
def _read_heads(
    catalog: CatalogPlace, sweep: Sweep, record_batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Yield the files that manifests name themselves, and the parts of the other manifests."""
    for row in rows_of(record_batches):
        at, path = row["id"], sweep.manifests[row["id"]]
        try:
            manifest = read_head(catalog.store, check_pointer(path, path))
        except Damaged as error:
            yield from _problem(at, unread(error), unreadable=True)
            continue
        yield from _files(at, manifest.files, sweep)
        yield from batches(({"at": at, "part": part.path, "expected": part.files} for part in manifest.parts), _ROW)


@told
def _read_parts(
    catalog: CatalogPlace, sweep: Sweep, record_batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for row in rows_of(record_batches):
        at, part = row["at"], ManifestPart(row["part"], row["expected"])
        [(_, data)] = catalog.store.read_many([part.path])
        try:
            files = decode_part(data, part, sweep.manifests[at])
        except Damaged as error:
            yield from _problem(at, unread(error), unreadable=True)
            continue
        yield from _files(at, files, sweep)


def _files(at: int, files: Sequence[Doomed], sweep: Sweep) -> Iterator[pa.RecordBatch]:
    if sweep.manifests[at] in sweep.leaving:
        try:
            check_deletable(files, sweep.purged, sweep.manifests[at])
        except Damaged as error:
            # not raised here: if a part of the manifest is lost, none of its files is deleted, and the expire can go on
            yield from _problem(at, error.reason, unreadable=False)
            return
    yield from batches(({"at": at, "path": file.path, "bytes": file.bytes} for file in files), _ROW)


def _problem(at: int, text: str, *, unreadable: bool) -> Iterator[pa.RecordBatch]:
    return batches([{"at": at, "problem": text, "unreadable": unreadable}], _ROW)


_AT_ONCE = 10_000
"""Highest number of files that the driver holds at once."""

_PARTS = {"path": "string", "files": "long"}
_COUNTS = {"files": "long"}


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """Files that are listed on Spark, usable as long as Spark keeps the list or can compute it again."""

    engine: SparkEngine
    frame: DataFrame
    """Path, bytes, kind and, for roots, the version."""
    totals: GoingTotals

    def __iter__(self) -> Iterator[Doomed]:
        return self._passing("true", "path")

    def _passing(self, condition: str, order: str) -> Iterator[Doomed]:
        """Yield the files a batch at a time. Each batch starts after the last file of the one before, even if Spark has
        to compute the list again."""
        rest = functions.col(order).isNotNull()
        while True:
            with explained(), self.engine.job("expire: files that go, one after the other"):
                rows = self.frame.where(condition).where(rest).orderBy(order).limit(_AT_ONCE).collect()
            yield from (Doomed(row.path, row.bytes, row.kind) for row in rows)
            if len(rows) < _AT_ONCE:
                return
            rest = functions.col(order) > rows[-1][order]

    def manifest(self, store: Store, path: str, oldest: int, former_oldest: int) -> ExpireManifest:
        """Write the parts of a manifest in tasks. If a task runs twice, only the parts that it returned to the driver
        count."""
        if not self.totals.files:
            return ExpireManifest(path, oldest, former_oldest, ())
        number = self.engine.parts(self.totals.files, PART_FILES)
        write = partial(_write_parts, self.engine.catalog, path)
        with explained(), self.engine.job("expire: the parts of a manifest"):
            rows = self.frame.coalesce(number).mapInArrow(write, ddl(_PARTS)).collect()
        parts = tuple(sorted((ManifestPart(row.path, row.files) for row in rows), key=lambda part: part.path))
        return ExpireManifest(path, oldest, former_oldest, (), parts)

    def roots(self) -> Iterator[Doomed]:
        return self._passing(f"kind = '{ROOT}'", "version")

    def saves(self) -> Iterator[Doomed]:
        # the names of one transaction's files share a prefix, so this order keeps them together
        return self._passing(f"kind = '{TRANSACTION}'", "path")

    def delete_others(self, store: Store, below: int, progress: Progress) -> None:
        """Delete the other files in tasks, which return their numbers of files."""
        delete = partial(_delete, self.engine.catalog, below)
        others = self.frame.where(f"kind not in ('{ROOT}', '{TRANSACTION}')")
        with explained(), self.engine.job("expire: deleting files"):
            rows = others.mapInArrow(delete, ddl(_COUNTS)).collect()
        progress.advance(sum(row.files for row in rows))


def files_frame(engine: SparkEngine, files: Going) -> DataFrame:
    """Return the paths and bytes of files, whether Spark or the driver lists them."""
    if isinstance(files, SparkFiles):
        return files.frame
    return frame_of(engine, [(file.path, file.bytes) for file in files], {"path": "string", "bytes": "long"})


# On the workers


def _doomed(record_batches: Iterable[pa.RecordBatch]) -> Iterator[Doomed]:
    return (Doomed(row["path"], row["bytes"], row["kind"]) for row in rows_of(record_batches))


@told
def _write_parts(
    catalog: CatalogPlace, manifest: str, record_batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    files = _doomed(record_batches)
    while some := list(islice(files, PART_FILES)):
        path = new_part_path(manifest)
        catalog.store.create(path, encode_part(manifest, some))
        yield from batches([{"path": path, "files": len(some)}], _PARTS)


@told
def _delete(catalog: CatalogPlace, below: int, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    deleted = delete_checked(catalog.store, _doomed(record_batches), below, SILENT)
    yield from batches([{"files": deleted}], _COUNTS)
