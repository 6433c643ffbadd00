"""The executor of a pipeline: a Spark session, the catalog as its workers reach it, and the division of the work."""

from __future__ import annotations

import pickle
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from olympia_cli.errors import ExecutorUnprepared, InvalidOption
from olympia_cli.names import new_uuid
from olympia_cli.ops.executor import LOCAL, Doubt, P, R, SeenHere, Work, divide
from olympia_cli.spark.failures import explain, explained, told
from olympia_cli.spark.options import check_shared
from olympia_cli.spark.pins import arrow_schema, ddl
from olympia_cli.spark.pipelines.place import CatalogPlace, cores_of, rows_of
from olympia_cli.spark.session import java_classes, java_context, java_session, spark_session

if TYPE_CHECKING:
    from pyspark import SparkStageInfo
    from pyspark.sql import Column, SparkSession

# The metrics of a run as accumulators, which Spark's pages and its event log show by name.
#
# PySpark's own accumulators have no names, and a Python task reaches no others. Only the driver knows the totals of a
# step. So at the end, one query of Spark's own calls `add` of each accumulator.


def publish(spark: SparkSession, command: str, run: SparkRun) -> None:
    """Publish the metrics of a run as named accumulators, if Spark has an event log or a web UI. Do nothing over Spark
    Connect."""
    if is_connect(spark) or not _is_looked_at(spark):
        return
    numbers = named(run.metrics())
    try:
        # a separate run: its own cost is not part of the published metrics
        with SparkRun().step(spark, f"{command}: what it took"):
            spark.range(0, 1, 1, 1).select(*_additions(spark, numbers)).collect()
    except Exception as error:
        # this uses Spark's internals, which may change; the work itself is done
        run.note(f"Spark's event log has no metrics: {type(error).__name__}")


def named(metrics: Mapping[str, Any]) -> dict[str, int | float]:
    """Return the numbers by display name: `olympia: files`, `olympia fsck: definitions: failed tasks`. Steps of the
    same name are added up."""
    numbers: dict[str, int | float] = {}
    for step in ({**metrics, "step": ""}, *metrics["steps"]):
        about = f"olympia {step['step']}".rstrip()
        for name, value in step.items():
            if isinstance(value, int | float):
                key = f"{about}: {name.replace('_', ' ')}"
                numbers[key] = numbers.get(key, 0) + value
    return numbers


def _is_looked_at(spark: SparkSession) -> bool:
    context = spark.sparkContext
    return context.getConf().get("spark.eventLog.enabled") == "true" or context.uiWebUrl is not None


def _additions(spark: SparkSession, numbers: Mapping[str, int | float]) -> Iterator[Column]:
    """Yield a column per number: the task that computes it adds the number to the accumulator of that name."""
    from pyspark.sql.classic.column import Column

    jvm, context = java_classes(spark), java_context(spark.sparkContext)
    sql = jvm.org.apache.spark.sql
    objects, parse = sql.catalyst.expressions.objects, java_session(spark).sessionState().sqlParser().parseExpression
    nothing = jvm.PythonUtils.toSeq(jvm.java.util.ArrayList())
    for name, number in numbers.items():
        whole = isinstance(number, int)
        accumulator = context.longAccumulator(name) if whole else context.doubleAccumulator(name)
        kind = sql.types.ObjectType(accumulator.getClass())
        literal = sql.catalyst.expressions.Literal.fromObject(accumulator, kind)
        # the only expression that calls a method without a result
        value = parse(f"{number}L" if whole else f"{number:f}D")
        added = objects.InitializeJavaBean(literal, jvm.PythonUtils.toScalaMap({"add": value}))
        of = sql.types.DataTypes.LongType if whole else sql.types.DataTypes.DoubleType
        total = objects.Invoke(added, "sum", of, nothing, nothing, True, True, True)
        yield Column(sql.classic.ExpressionUtils.column(total)).alias(name)


# A run of a command on Spark: the descriptions of its jobs, and its metrics.
#
# A step is a group of jobs with a description, which Spark's pages and its event log show. A Connect server describes
# jobs itself: there the description is a tag, and the number of tasks is unknown.

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
class StepMetrics:
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
        java_context(self.context).listenerBus().waitUntilEmpty(_SETTLE_MILLIS)
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
        store, jvm = java_context(self.context).statusStore(), java_classes(self.context)
        words = jvm.org.apache.spark.status.api.v1
        failed = jvm.java.util.List.of(words.TaskStatus.FAILED)
        for stage in self.stages():
            for attempt in range(stage.currentAttemptId + 1 if stage.numFailedTasks else 0):
                at = (stage.stageId, attempt, 0, _MOST_TASKS)
                tasks = store.taskList(*at, words.TaskSorting.ID, failed)
                errors = (tasks.apply(number).errorMessage() for number in range(tasks.size()))
                yield from (error.get() for error in errors if error.isDefined())


@dataclass(slots=True)
class SparkRun:
    """`say` is called with messages for the user, `note` with explanations for verbose output."""

    say: Callable[[str], None] = _nobody
    note: Callable[[str], None] = _nobody
    steps: list[StepMetrics] = field(default_factory=list)
    lost: bool = False
    """True if an executor was lost."""
    began: float = field(default_factory=time.monotonic)

    @contextmanager
    def step(self, spark: SparkSession, what: str) -> Iterator[None]:
        """Run a step: jobs within are called "olympia …", and a nested step describes its own jobs. At the end, raise
        ExecutorUnprepared if an executor does not see this process's files: others did its work, but it would get more.
        """
        connect = is_connect(spark)
        step = StepMetrics(what, time.monotonic(), None if connect else spark.sparkContext)
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
def _grouped(step: StepMetrics) -> Iterator[None]:
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


ALONE = 50_000
"""The driver reads up to this many files itself: that takes as long as Spark takes to start its Python workers."""

AT_ONCE = 50_000
"""The driver's memory holds this many results of tasks at once."""

FEW_PARTS = 64
"""A step may always have this many tasks: a cluster may be small when asked for its size, and grow with the work."""


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Spark as an executor (ops/executor). `partitions` is the number of tasks per step, if the caller sets it. The
    driver reads up to `alone` files itself."""

    spark: SparkSession
    catalog: CatalogPlace
    partitions: int | None = None
    alone: int = ALONE
    run: SparkRun = field(default_factory=SparkRun)
    at_once: int = AT_ONCE

    def map(self, work: Work[P, R], items: Sequence[P]) -> Iterator[R]:
        """Yield the result of each item. This process does little work itself, and work that tasks disagree about."""
        if len(items) * work.cost <= self.alone:
            yield from LOCAL.map(work, items)
            return
        for start in range(0, len(items), self.at_once):
            yield from self._by_tasks(work, items[start : start + self.at_once])

    def _by_tasks(self, work: Work[P, R], items: Sequence[P]) -> list[R]:
        parts = self.parts(len(items), work.least)
        partitions = divide(list(enumerate(items)), parts)
        with explained(), self.job(work.what):
            numbers = self.spark.range(0, parts, 1, parts)
            rows = numbers.mapInArrow(partial(_run, work, partitions), ddl(_RESULT)).toArrow()
        results: dict[int, R] = {}
        hosts: dict[int, str] = {}
        for row in rows_of(rows.to_batches()):
            results[row["at"]], hosts[row["at"]] = pickle.loads(row["result"]), row["host"]
        if work.size is not None:
            sizes = [size for result in results.values() if (size := work.size(result)) is not None]
            self.run.read(len(sizes), sum(sizes))
        if work.doubt is not None:
            results |= _settled(work.doubt, items, results, hosts)
        return [results[at] for at in range(len(items))]

    def parts(self, rows: int, least: int) -> int:
        """Return the number of tasks for `rows` rows. `least` rows are some hundred milliseconds of work: a task with
        fewer rows costs more than its work. A task has at most about 16 times as many, which limits the work lost with
        a machine."""
        if self.partitions is not None:
            return max(1, min(self.partitions, rows))
        most = max(FEW_PARTS, 4 * cores_of(self.spark), rows // (16 * least))
        return max(1, min(-(-rows // least), most))

    def job(self, what: str) -> AbstractContextManager[None]:
        """Describe the jobs within the block, for Spark's pages, its event log and the run's metrics: `fsck: nodes,
        level 2 of 3`."""
        return self.run.step(self.spark, what)


def _settled(
    doubt: Doubt[P, R], items: Sequence[P], results: Mapping[int, R], hosts: Mapping[int, str]
) -> dict[int, R]:
    """Return the results that replace doubtful ones. Raise ExecutorUnprepared if this process sees a file that a task
    did not see."""
    doubtful = [at for at in range(len(items)) if doubt.of(results[at])]
    settled: dict[int, R] = {}
    for at, answer in zip(doubtful, doubt.again([(items[at], results[at]) for at in doubtful]), strict=True):
        if isinstance(answer, SeenHere):
            raise ExecutorUnprepared(
                f"the executor on {hosts[at]} does not see the same {answer.file}",
                hint="let every machine reach the same files: a folder must be mounted on all of them",
            )
        settled[at] = answer
    return settled


# On the workers

_RESULT = {"at": "long", "host": "string", "result": "binary"}
_RESULT_SCHEMA = arrow_schema(_RESULT)
_RESULTS_AT_ONCE = 64


@told
def _run(
    work: Work[P, R], partitions: Sequence[Sequence[tuple[int, P]]], numbers: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    host = socket.gethostname()
    for row in rows_of(numbers):
        partition = partitions[row["id"]]
        for start in range(0, len(partition), _RESULTS_AT_ONCE):
            numbered = partition[start : start + _RESULTS_AT_ONCE]
            results = [pickle.dumps(result) for result in LOCAL.map(work, [item for _, item in numbered])]
            columns = {"at": [at for at, _ in numbered], "host": [host] * len(numbered), "result": results}
            yield pa.RecordBatch.from_pydict(columns, schema=_RESULT_SCHEMA)


@contextmanager
def spark_engine(
    uri: str,
    storage: Mapping[str, object] | None = None,
    *,
    master: str | None = None,
    remote: str | None = None,
    partitions: int | None = None,
    settings: Mapping[str, str] | None = None,
    verbose: bool = False,
    command: str = "work",
    run: SparkRun | None = None,
) -> Iterator[SparkEngine]:
    """Provide Spark for the catalog at a location, and translate its errors within the block into ours. Stop a session
    that was started here at the end. Jobs without a description are named after the command."""
    place, run = place_for(uri, storage), run or SparkRun()
    with spark_session(master=master, remote=remote, settings=settings, verbose=verbose) as spark:
        with place.proven(run.note) as proven, run.step(spark, command):
            yield SparkEngine(spark, proven, partitions, ALONE, run)
        publish(spark, command, run)


def place_for(uri: str, storage: Mapping[str, object] | None = None) -> CatalogPlace:
    """Return a location in a form that can be sent to other processes."""
    check_shared(uri)
    return CatalogPlace.at(uri, {name: _text(name, value) for name, value in (storage or {}).items()})


def _text(name: str, value: object) -> str:
    """Return a storage option as text, as Spark's options are."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | float):
        return str(value)
    raise InvalidOption(
        f"the storage option {name} is not a plain value, and cannot be sent to Spark's executors",
        hint="give it to the SDKs on each machine, or use --engine local",
    )
