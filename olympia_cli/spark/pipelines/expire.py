"""An expire on Spark: the files that a Planner asks about are followed, listed, named and deleted by the executors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

from olympia_cli.ops.expire.files import Going, GoingTotals
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.ops.expire.survey import SHOWN, KeptRoots
from olympia_cli.ops.expire.sweep import FileFate, Sweep
from olympia_cli.ops.walk.facts import NodeRules
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.pipelines.expire_files import SparkFiles, frame_of
from olympia_cli.spark.pipelines.frames import Remade
from olympia_cli.spark.pipelines.sweep import SurveyedFiles, of_fate, survey_files


@contextmanager
def spark_surveyor(engine: SparkEngine) -> Iterator[SparkSurveyor]:
    """What was planned with it is of use inside the block; what Spark keeps is freed then."""
    with ExitStack() as stack:
        yield SparkSurveyor(engine, stack)


@dataclass(frozen=True, slots=True)
class SparkSurveyor:
    """What is surveyed may be lost with an executor, then or later. It is surveyed again then, by the same sweep: what
    this one keeps, what its manifests name and how old a file is do not change, so a file has the fate that it had."""

    engine: SparkEngine
    stack: ExitStack = field(repr=False)

    def survey(self, planner: Planner, sweep: Sweep, roots: KeptRoots, files: Going | None = None) -> SparkSurvey:
        """The executors read the roots themselves."""
        engine, rules = self.engine, NodeRules.of(planner.head)

        def look() -> SurveyedFiles:
            named = None if files is None else frame_of(engine, files)
            return survey_files(engine, sweep, rules, self.stack, planner.progress, files=named)

        surveyed = Remade(look, *([files.surveyed] if isinstance(files, SparkFiles) else ()))
        totals = surveyed.ask(_totals)
        notes, created = surveyed.value.notes, surveyed.value.reached.created
        return SparkSurvey(engine, surveyed, totals, notes, created)


@dataclass(frozen=True, slots=True)
class SparkSurvey:
    engine: SparkEngine
    surveyed: Remade[SurveyedFiles]
    totals: tuple[tuple[str, str, int, int], ...]
    """Fate, kind, and how many files with how many bytes."""
    notes: tuple[str, ...]
    versions: tuple[tuple[int, int], ...]

    def created(self) -> list[tuple[int, int]]:
        return list(self.versions)

    def count(self, fate: FileFate) -> int:
        return sum(files for name, _, files, _ in self.totals if name == fate.name)

    def going(self, fate: FileFate) -> SparkFiles:
        kinds = {kind: files for name, kind, files, _ in self.totals if name == fate.name}
        size = sum(size for name, _, _, size in self.totals if name == fate.name)
        return SparkFiles(self.engine, self.surveyed, fate, GoingTotals(kinds, size))

    def unknown_paths(self) -> tuple[str, ...]:
        return self.surveyed.ask(_unknown_paths)


def _totals(surveyed: SurveyedFiles) -> tuple[tuple[str, str, int, int], ...]:
    rows = surveyed.frame.groupBy("fate", "kind").agg({"files": "sum", "bytes": "sum"}).collect()
    return tuple((row["fate"], row["kind"], row["sum(files)"], row["sum(bytes)"]) for row in rows)


def _unknown_paths(surveyed: SurveyedFiles) -> tuple[str, ...]:
    unknown = of_fate(surveyed.frame, FileFate.UNKNOWN)
    return tuple(row.path for row in unknown.orderBy("path").limit(SHOWN).collect())
