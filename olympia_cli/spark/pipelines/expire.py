"""An expire on Spark: the files that a Planner asks about are followed, listed, named and deleted by the executors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from olympia_cli.ops.expire.files import Going, GoingTotals
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.ops.expire.survey import SHOWN, KeptRoots
from olympia_cli.ops.expire.sweep import FileFate, Sweep
from olympia_cli.ops.walk.facts import NodeRules
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pipelines.expire_files import SparkFiles, frame_of
from olympia_cli.spark.pipelines.expire_manifests import read_manifests
from olympia_cli.spark.pipelines.live import Walk
from olympia_cli.spark.pipelines.sweep import judged, known, listed, named, of_fate

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@contextmanager
def spark_surveyor(engine: SparkEngine) -> Iterator[SparkSurveyor]:
    """What was planned with it is of use inside the block; what Spark keeps is freed then."""
    with ExitStack() as stack:
        yield SparkSurveyor(engine, stack)


@dataclass(frozen=True, slots=True)
class SparkSurveyor:
    engine: SparkEngine
    stack: ExitStack = field(repr=False)

    def survey(self, planner: Planner, sweep: Sweep, roots: KeptRoots, files: Going | None = None) -> SparkSurvey:
        """The executors read the roots themselves."""
        engine, stack, progress = self.engine, self.stack, planner.progress
        with explained():
            rules = NodeRules.of(planner.head)
            walk = Walk(
                engine.spark, engine.catalog, sweep, rules, stack, partitions=engine.partitions, progress=progress
            )
            notes: tuple[str, ...] = ()
            facts = [known(walk.live, reached="true")]
            if resting := sweep.resting_versions:
                facts.append(known(walk.with_resting(resting.start, resting.stop), recallable="true"))
            if files is not None:
                facts.append(known(frame_of(engine, files), at="0", named="bytes"))
            else:
                manifests = read_manifests(engine, sweep, stack)
                notes = manifests.notes
                progress.phase("listing files" if sweep.kinds else "listing all files")
                facts += [listed(engine, sweep), named(manifests.files, sweep)]
            frame = judged(engine, sweep, facts, stack)
            rows = frame.groupBy("fate", "kind").agg({"files": "sum", "bytes": "sum"}).collect()
            totals = tuple((row["fate"], row["kind"], row["sum(files)"], row["sum(bytes)"]) for row in rows)
            return SparkSurvey(engine, frame, totals, notes, walk)


@dataclass(frozen=True, slots=True)
class SparkSurvey:
    engine: SparkEngine
    frame: DataFrame
    totals: tuple[tuple[str, str, int, int], ...]
    """Fate, kind, and how many files with how many bytes."""
    notes: tuple[str, ...]
    walk: Walk

    def created(self) -> list[tuple[int, int]]:
        with explained():
            return self.walk.created()

    def count(self, fate: FileFate) -> int:
        return sum(files for name, _, files, _ in self.totals if name == fate.name)

    def going(self, fate: FileFate) -> SparkFiles:
        kinds = {kind: files for name, kind, files, _ in self.totals if name == fate.name}
        size = sum(size for name, _, _, size in self.totals if name == fate.name)
        return SparkFiles(self.engine, of_fate(self.frame, fate), GoingTotals(kinds, size))

    def unknown_paths(self) -> tuple[str, ...]:
        with explained():
            rows = of_fate(self.frame, FileFate.UNKNOWN).orderBy("path").limit(SHOWN).collect()
        return tuple(row.path for row in rows)
