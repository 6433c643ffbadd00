"""An expire on Spark: the files that a Planner asks about are followed, listed, named and deleted by the executors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from olympia_cli.ops.expire.files import Going, GoingTotals
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.ops.expire.survey import SHOWN, KeptRoots, Survey, follow_kept, follow_resting
from olympia_cli.ops.expire.sweep import FileFate, Sweep
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk.facts import NodeRules
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pipelines.expire_files import SparkFiles, files_frame
from olympia_cli.spark.pipelines.frames import as_planned
from olympia_cli.spark.pipelines.reach import SparkReach
from olympia_cli.spark.pipelines.sweep import of_fate, survey_files
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def spark_surveyor(engine: SparkEngine) -> Iterator[SparkSurveyor]:
    """What was planned with it is of use inside the block; what Spark keeps is freed then."""
    with as_planned(engine.spark), ExitStack() as stack:
        yield SparkSurveyor(engine, stack)


@dataclass(frozen=True, slots=True)
class SparkSurveyor:
    """Some of what was surveyed may be lost with an executor, then or later. Spark makes it again, by the same sweep:
    what this one keeps, what its manifests name and how old a file is do not change, so a file has the fate that it
    had."""

    engine: SparkEngine
    stack: ExitStack = field(repr=False)

    def reach(self, store: Store, rules: NodeRules, *, definitions: bool, progress: Progress) -> SparkReach:
        return SparkReach(self.engine, self.stack, store, rules, definitions=definitions, progress=progress)

    def survey(self, planner: Planner, sweep: Sweep, roots: KeptRoots, files: Going | None = None) -> Survey:
        engine, reach = self.engine, planner.reach
        assert isinstance(reach, SparkReach)
        with explained():
            created = follow_kept(planner, roots)
            kept, mark = reach.since(), reach.mark()
            follow_resting(planner, sweep.resting_versions)
            named = None if files is None else files_frame(engine, files)
            frame, notes = survey_files(
                engine, sweep, kept, reach.since(mark), reach.number, self.stack, planner.progress, named
            )
            with engine.job("expire: the fate of each file"):
                rows = frame.groupBy("fate", "kind").agg({"files": "sum", "bytes": "sum"}).collect()
            totals = [(FileFate[row["fate"]], row["kind"], row["sum(files)"], row["sum(bytes)"]) for row in rows]
            counts: Counter[FileFate] = Counter()
            for fate, _, number, _ in totals:
                counts[fate] += number
            unknown = self._unknown_paths(frame) if counts[FileFate.UNKNOWN] else ()

        def going(wanted: FileFate) -> SparkFiles:
            kinds = {kind: number for fate, kind, number, _ in totals if fate is wanted}
            size = sum(size for fate, _, _, size in totals if fate is wanted)
            return SparkFiles(engine, of_fate(frame, wanted), GoingTotals(kinds, size))

        return Survey(created, counts, going(FileFate.QUARANTINED), going(FileFate.PURGED), unknown, notes)

    def _unknown_paths(self, frame: DataFrame) -> tuple[str, ...]:
        unknown = of_fate(frame, FileFate.UNKNOWN)
        with self.engine.job("expire: files that the format does not know"):
            return tuple(row.path for row in unknown.orderBy("path").limit(SHOWN).collect())
