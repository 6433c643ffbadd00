"""An expire on Spark: the files that a Planner asks about are followed, listed, named and deleted by the executors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from olympia_cli.ops.expire.files import Going, GoingTotals
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.ops.expire.survey import SHOWN, KeptRoots, follow_kept, follow_resting
from olympia_cli.ops.expire.sweep import FileFate, Sweep
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk.facts import NodeRules
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pipelines.expire_files import SparkFiles, files_frame
from olympia_cli.spark.pipelines.frames import as_planned
from olympia_cli.spark.pipelines.reach import SparkReach
from olympia_cli.spark.pipelines.sweep import SurveyedFiles, of_fate, survey_files
from olympia_cli.storage.protocol import Store


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

    def survey(self, planner: Planner, sweep: Sweep, roots: KeptRoots, files: Going | None = None) -> SparkSurvey:
        engine, reach = self.engine, planner.reach
        assert isinstance(reach, SparkReach)
        with explained():
            created = follow_kept(planner, roots)
            kept, mark = reach.since(), reach.mark()
            follow_resting(planner, sweep.resting_versions)
            named = None if files is None else files_frame(engine, files)
            surveyed = survey_files(
                engine, sweep, kept, reach.since(mark), reach.number, self.stack, planner.progress, named
            )
            with engine.job("expire: the fate of each file"):
                rows = surveyed.frame.groupBy("fate", "kind").agg({"files": "sum", "bytes": "sum"}).collect()
        totals = tuple((row["fate"], row["kind"], row["sum(files)"], row["sum(bytes)"]) for row in rows)
        return SparkSurvey(engine, surveyed, totals, tuple(created))


@dataclass(frozen=True, slots=True)
class SparkSurvey:
    engine: SparkEngine
    surveyed: SurveyedFiles
    totals: tuple[tuple[str, str, int, int], ...]
    """Fate, kind, and how many files with how many bytes."""
    versions: tuple[tuple[int, int], ...]

    @property
    def notes(self) -> tuple[str, ...]:
        return self.surveyed.notes

    def created(self) -> list[tuple[int, int]]:
        return list(self.versions)

    def count(self, fate: FileFate) -> int:
        return sum(files for name, _, files, _ in self.totals if name == fate.name)

    def going(self, fate: FileFate) -> SparkFiles:
        kinds = {kind: files for name, kind, files, _ in self.totals if name == fate.name}
        size = sum(size for name, _, _, size in self.totals if name == fate.name)
        return SparkFiles(self.engine, of_fate(self.surveyed.frame, fate), GoingTotals(kinds, size))

    def unknown_paths(self) -> tuple[str, ...]:
        if not self.count(FileFate.UNKNOWN):
            return ()
        unknown = of_fate(self.surveyed.frame, FileFate.UNKNOWN)
        with explained(), self.engine.job("expire: files that the format does not know"):
            return tuple(row.path for row in unknown.orderBy("path").limit(SHOWN).collect())
