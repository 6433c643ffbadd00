"""An expire on Spark: the files that a Planner asks about are followed, listed, named and deleted by the executors."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from olympia_cli.ops.expire.files import Going, GoingTotals
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.ops.expire.survey import SHOWN, KeptRoots, Survey
from olympia_cli.ops.expire.sweep import FileFate, Sweep
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

    def survey(self, planner: Planner, sweep: Sweep, roots: KeptRoots, files: Going | None = None) -> Survey:
        """The executors read the roots themselves."""
        engine, stack, progress = self.engine, self.stack, planner.progress
        with explained():
            walk = Walk(engine.spark, engine.catalog, sweep, stack, partitions=engine.partitions, progress=progress)
            created = tuple(walk.created())
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
            fates = _Fates(engine, judged(engine, sweep, facts, stack))
            return Survey(
                created=created,
                quarantined=fates.going(FileFate.QUARANTINED),
                purged=fates.going(FileFate.PURGED),
                young=fates.count(FileFate.YOUNG),
                unknown=fates.count(FileFate.UNKNOWN),
                unknown_paths=fates.paths(FileFate.UNKNOWN, SHOWN),
                rescued=fates.count(FileFate.RESCUED),
                notes=notes,
            )


class _Fates:
    """The files of each fate."""

    def __init__(self, engine: SparkEngine, frame: DataFrame) -> None:
        self._engine = engine
        self._frame = frame
        rows = frame.groupBy("fate", "kind").agg({"files": "sum", "bytes": "sum"}).collect()
        self._totals = [(row["fate"], row["kind"], row["sum(files)"], row["sum(bytes)"]) for row in rows]

    def count(self, fate: FileFate) -> int:
        return sum(files for name, _, files, _ in self._totals if name == fate.name)

    def paths(self, fate: FileFate, most: int) -> tuple[str, ...]:
        return tuple(row.path for row in of_fate(self._frame, fate).orderBy("path").limit(most).collect())

    def going(self, fate: FileFate) -> SparkFiles:
        kinds = {kind: files for name, kind, files, _ in self._totals if name == fate.name}
        size = sum(size for name, _, _, size in self._totals if name == fate.name)
        return SparkFiles(self._engine, of_fate(self._frame, fate), GoingTotals(kinds, size))
