"""A run of a command on Spark: the descriptions of its jobs, and its metrics.

A step is a group of jobs with a description, which Spark's pages and its event log show. A Connect server describes
jobs itself: there the description is a tag, and the number of tasks is unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from olympia_cli.errors import ExecutorUnprepared
from olympia_cli.spark.failures import explain
from olympia_cli.uuids import new_uuid

if TYPE_CHECKING:
    from pyspark import SparkStageInfo
    from pyspark.sql import SparkSession

_DESCRIPTION = ("spark.jobGroup.id", "spark.job.description", "spark.job.interruptOnCancel", "callSite.short")
_SETTLE_MILLIS = 10_000
"""Longest wait until Spark has counted what its tasks did."""
_MOST_TASKS = 100
_COUNTS = ("jobs", "tasks", "failed_tasks", "restarts")
_LOST = "ExecutorLostFailure"


def is_connect(spark: SparkSession) -> bool:
    """Return True for a session of a Connect server, which gives no access to Spark's internals."""
    return type(spark).__module__.startswith("pyspark.sql.connect.")


def _nobody(text: str) -> None:
    pass


@dataclass(slots=True)
class Step:
    """The metrics of a step so far. Spark retried most of the failed tasks."""

    what: str
    began: float
    context: Any = None
    """The SparkContext, which counts tasks; None for a Connect server."""
    group: str = field(default_factory=new_uuid)
    ended: float | None = None
    counts: dict[str, int | None] = field(default_factory=dict)
    files: int = 0
    bytes: int = 0
    """Files and bytes of the catalog that the step's tasks read."""

    def count(self) -> dict[str, int | None]:
        if self.context is None:
            return dict.fromkeys(_COUNTS)
        stages = self.stages()
        return {
            "jobs": len(self.context.statusTracker().getJobIdsForGroup(self.group)),
            "tasks": sum(stage.numTasks for stage in stages),
            "failed_tasks": sum(stage.numFailedTasks for stage in stages),
            "restarts": sum(stage.currentAttemptId for stage in stages),
        }

    def stages(self) -> list[SparkStageInfo]:
        """Return the stages that had tasks to run."""
        self.context._jsc.sc().listenerBus().waitUntilEmpty(_SETTLE_MILLIS)
        tracker = self.context.statusTracker()
        jobs = map(tracker.getJobInfo, tracker.getJobIdsForGroup(self.group))
        numbers = sorted({number for job in jobs if job is not None for number in job.stageIds})
        stages = map(tracker.getStageInfo, numbers)
        return [stage for stage in stages if stage is not None and stage.numCompletedTasks + stage.numFailedTasks]

    def check(self) -> bool:
        """Return True if an executor was lost. Raise ExecutorUnprepared if a task failed with it, even if another
        executor did its work."""
        messages = list(self._failures())
        for error in (explain(RuntimeError(message)) for message in messages):
            if isinstance(error, ExecutorUnprepared):
                raise error
        return any(_LOST in message for message in messages)

    def _failures(self) -> Iterator[str]:
        """Yield the error messages of failed tasks."""
        store, jvm = self.context._jsc.sc().statusStore(), self.context._jvm
        words = jvm.org.apache.spark.status.api.v1
        failed = jvm.java.util.List.of(words.TaskStatus.FAILED)
        for stage in self.stages():
            for attempt in range(stage.currentAttemptId + 1 if stage.numFailedTasks else 0):
                at = (stage.stageId, attempt, 0, _MOST_TASKS)
                tasks = store.taskList(*at, words.TaskSorting.ID, failed)
                errors = (tasks.apply(number).errorMessage() for number in range(tasks.size()))
                yield from (error.get() for error in errors if error.isDefined())


@dataclass(slots=True)
class Run:
    """`say` is called with messages for the user, `note` with explanations for verbose output."""

    say: Callable[[str], None] = _nobody
    note: Callable[[str], None] = _nobody
    steps: list[Step] = field(default_factory=list)
    lost: bool = False
    """True if an executor was lost."""
    began: float = field(default_factory=time.monotonic)

    @contextmanager
    def step(self, spark: SparkSession, what: str) -> Iterator[None]:
        """Run a step: jobs within are called "olympia …", and a nested step describes its own jobs. At the end, raise
        ExecutorUnprepared if an executor does not see this process's files: others did its work, but it would get more.
        """
        connect = is_connect(spark)
        step = Step(what, time.monotonic(), None if connect else spark.sparkContext)
        self.steps.append(step)
        with _tagged(spark, f"olympia {what}") if connect else _grouped(step):
            yield
        step.ended = time.monotonic()
        if step.counts.get("failed_tasks") and step.check():
            self.executor_lost()

    def executor_lost(self) -> None:
        """Tell the user of a lost executor, once per run."""
        if not self.lost:
            self.lost = True
            self.say("an executor was lost: other executors repeat its work")

    def read(self, files: int, size: int) -> None:
        """Add files and bytes of the catalog that tasks of the last step read."""
        if self.steps:
            self.steps[-1].files += files
            self.steps[-1].bytes += size

    def metrics(self) -> dict[str, Any]:
        """Return the metrics so far; `seconds` includes the start of Spark."""
        now = time.monotonic()
        steps: list[dict[str, Any]] = [
            {
                "step": step.what,
                "seconds": round((step.ended or now) - step.began, 3),
                **(step.counts or step.count()),
                "files": step.files,
                "bytes": step.bytes,
            }
            for step in self.steps
        ]
        counted_steps = [step for step in steps if step["jobs"] is not None]
        sums = {name: sum(step[name] for step in counted_steps) if counted_steps else None for name in _COUNTS}
        sums |= {name: sum(step[name] for step in steps) for name in ("files", "bytes")}
        return {"seconds": round(now - self.began, 3), **sums, "steps": steps}


@contextmanager
def _tagged(spark: SparkSession, text: str) -> Iterator[None]:
    # a comma ends a tag
    tag = text.replace(",", "")
    spark.addTag(tag)
    try:
        yield
    finally:
        spark.removeTag(tag)


@contextmanager
def _grouped(step: Step) -> Iterator[None]:
    from pyspark.traceback_utils import SCCallSiteSync

    context, text = step.context, f"olympia {step.what}"
    before = {name: context.getLocalProperty(name) for name in _DESCRIPTION}
    context.setJobGroup(step.group, text)
    try:
        # within this block PySpark does not rename stages
        with SCCallSiteSync(context):  # type: ignore[no-untyped-call]
            context.setLocalProperty("callSite.short", text)
            yield
        # counted now: Spark may have stopped when the metrics are read
        step.counts = step.count()
    finally:
        for name, value in before.items():
            context.setLocalProperty(name, value)
