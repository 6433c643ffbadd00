"""An expire on Spark: the plans of a Planner, whose files are found, named and deleted by the executors.

What decides is the planner's: which versions stay, what rests and what leaves, and the fate of a file by its name and
age. Here the trees are followed, and what they reach is joined with what a listing and the manifests show.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from olympia_cli.format.paths import FileKind
from olympia_cli.ops.expire.files import TRANSACTION, Listed
from olympia_cli.ops.expire.plan import SHOWN, Planner
from olympia_cli.ops.expire.retention import Policy, explain_kept
from olympia_cli.ops.expire.sweep import Sweep
from olympia_cli.ops.expire.values import ExpirePlan, Kept, MarkPlan, PurgePlan
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pipelines.expire_files import Elsewhere
from olympia_cli.spark.pipelines.expire_manifests import Named, Reading, read_manifests
from olympia_cli.spark.pipelines.live import Walk, apart, keep
from olympia_cli.spark.pipelines.sweep import FILE, judged_files, swept

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# no path begins with it: what keeps the files of a transaction is not that something reaches them
_SAVE = "/"


@contextmanager
def plan_expire(
    engine: SparkEngine, planner: Planner, policy: Policy, *, progress: Progress = SILENT
) -> Iterator[ExpirePlan]:
    """What `planner.expire(policy)` plans. The plan is of use inside the block; what Spark keeps is freed then."""
    with ExitStack() as stack:
        with planner.overtaken(), explained():
            oldest, limits = planner.choose(policy)
            making = _Making(engine, planner, planner.sweep_from(oldest), stack, progress)
            kept = tuple(explain_kept(making.created(), policy, limits))
            named = making.named(making.sweep.manifests)
            judged = making.judged()
            mark = making.mark(kept, named, judged)
            plan = ExpirePlan(planner.head.version, mark, making.purge(named, judged))
        yield plan


@contextmanager
def plan_purge(engine: SparkEngine, planner: Planner, *, progress: Progress = SILENT) -> Iterator[PurgePlan]:
    """What `planner.purge()` plans; see plan_expire."""
    with ExitStack() as stack:
        with planner.overtaken(), explained():
            leaving = planner.leaving
            plan = leaving.plan(Listed())
            if not leaving.is_empty:
                making = _Making(engine, planner, planner.sweep_from(planner.oldest), stack, progress)
                # what an unfinished purge has left to delete is seen in a listing of everything
                kinds = () if leaving.unfinished else (FileKind.ROOT, FileKind.TRANSACTION)
                plan = making.purge(making.named(leaving.all_manifests), making.judged(*kinds))
        yield plan


class _Making:
    """Both plans from one walk: what stays first, then what is in quarantine and stays there."""

    def __init__(
        self, engine: SparkEngine, planner: Planner, sweep: Sweep, stack: ExitStack, progress: Progress
    ) -> None:
        self._engine = engine
        self._planner = planner
        self._stack = stack
        self._progress = progress
        self.sweep = sweep
        self._walk = Walk(engine.spark, engine.catalog, sweep, stack, partitions=engine.partitions, progress=progress)
        self.created = self._walk.created

    def named(self, manifests: tuple[str, ...]) -> Named:
        """What manifests name; those that leave are looked at."""
        leaving = self._planner.leaving
        live = self.sweep.live_transactions
        reading = Reading(manifests, frozenset(leaving.all_manifests), leaving.purged, live)
        engine = self._engine
        return read_manifests(engine.spark, engine.catalog, reading, self._stack, engine.partitions)

    def judged(self, *kinds: FileKind) -> DataFrame:
        self._progress.phase("listing files" if kinds else "listing all files")
        return judged_files(self._engine.spark, self._engine.catalog, self.sweep, self._stack, *kinds)

    def mark(self, kept: tuple[Kept, ...], named: Named, judged: DataFrame) -> MarkPlan:
        found = swept(judged, self._walk.live, named.files, self._stack, self._engine.partitions)
        files = Elsewhere.of(self._engine, found.dead, self._stack)
        shown = found.unknown.orderBy("path").limit(SHOWN).collect()
        return MarkPlan(
            oldest=self.sweep.oldest,
            former_oldest=self._planner.oldest,
            kept=kept,
            files=files,
            young=found.young.count(),
            unknown=found.unknown.count(),
            unknown_paths=tuple(row.path for row in shown),
        )

    def purge(self, named: Named, judged: DataFrame) -> PurgePlan:
        leaving, partitions = self._planner.leaving, self._engine.partitions
        if leaving.is_empty:
            return leaving.plan(Listed())
        needed = self._walk.live
        if leaving.purged < self.sweep.oldest:
            # versions that stay in quarantine can be brought back, so all that they reach is kept too
            needed = self._walk.with_resting(leaving.purged, self.sweep.oldest)
        self._progress.phase("looking for what may be deleted")
        files = named.of(leaving.all_manifests)
        # roots that no manifest names: written by one that slept, and never part of history
        leftovers = judged.where(f"known and old and version < {leaving.purged}")
        leftovers = leftovers.selectExpr("-1 as at", *FILE, "false as held")
        candidates = files.select("at", *FILE, "held").union(leftovers)
        candidates = candidates.selectExpr("*", f"if(kind = '{TRANSACTION}', concat('{_SAVE}', path), path) as key")
        # kept, or Spark would join each half of it for itself
        candidates = keep(candidates.repartition(partitions, "key"), self._stack)
        # an id that was used again has a young save at an old name
        young = judged.where(f"known and not old and kind = '{TRANSACTION}'")
        safe = needed.selectExpr("path as key").union(young.selectExpr(f"concat('{_SAVE}', path) as key"))
        free = keep(candidates.where("not held").join(apart(safe), "key", "left_anti"), self._stack)
        rescued = candidates.where("at >= 0").count() - free.where("at >= 0").count()
        if leaving.unfinished:
            # an earlier purge got to delete some of those that its manifest names
            there = judged.where("known").select("path")
            free = free.repartition(partitions, "path").join(apart(there), "path", "left_semi")
        going = Elsewhere.of(self._engine, _each_once(free.repartition(partitions, "path")), self._stack)
        return leaving.plan(going, rescued, named.notes)


def _each_once(files: DataFrame) -> DataFrame:
    """Of files that several manifests name, what the last of these says."""
    from pyspark.sql.functions import expr

    found = files.groupBy("path").agg(expr("max(struct(at, bytes, kind, version))").alias("last"))
    return found.selectExpr("path", "last.bytes as bytes", "last.kind as kind", "last.version as version")
