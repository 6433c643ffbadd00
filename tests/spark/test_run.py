"""The names and the metrics of a run's jobs, in a real Spark."""

from __future__ import annotations

import pytest

from olympia_cli.spark.engine import SparkEngine, SparkRun, named, publish
from olympia_cli.spark.pipelines.place import CatalogPlace


@pytest.fixture
def engine(spark) -> SparkEngine:
    return SparkEngine(spark, CatalogPlace.at("/nowhere"))


def described(spark, group: str) -> list[tuple[str, set[str]]]:
    """The descriptions of the jobs of a group, with the names of their stages."""
    scala = spark.sparkContext._jsc.sc()
    found = []
    for number in spark.sparkContext.statusTracker().getJobIdsForGroup(group):
        job = scala.statusStore().job(number)
        stages = [job.stageIds().apply(at) for at in range(job.stageIds().size())]
        names = {scala.statusStore().lastStageAttempt(stage).name() for stage in stages}
        found.append((job.description().get(), names))
    return found


def test_steps_within_steps(spark, engine):
    context = spark.sparkContext
    context.setJobGroup("somebody's", "what somebody does")
    try:
        with engine.job("fsck"):
            spark.range(10, numPartitions=2).count()
            with engine.job("fsck: nodes, level 2 of 3"):
                # the job of a collect is named by its place in the program, unless a description is set
                spark.range(10, numPartitions=2).collect()
                spark.range(10, numPartitions=2).selectExpr("id % 2 as id").groupBy("id").count().collect()
            spark.range(10, numPartitions=2).collect()
        assert context.getLocalProperty("spark.job.description") == "what somebody does"
        assert context.getLocalProperty("spark.jobGroup.id") == "somebody's"
        assert context.getLocalProperty("callSite.short") is None
    finally:
        for name in ("spark.jobGroup.id", "spark.job.description"):
            context._jsc.setLocalProperty(name, None)
    outer, inner = engine.run.steps
    assert all(said == ("olympia fsck", {"olympia fsck"}) for said in described(spark, outer.group))
    text = "olympia fsck: nodes, level 2 of 3"
    assert described(spark, inner.group) == [(text, {text})] * 2
    metrics = engine.run.metrics()
    assert [step["step"] for step in metrics["steps"]] == ["fsck", "fsck: nodes, level 2 of 3"]
    assert [step["jobs"] for step in metrics["steps"]] == [2, 2]
    assert metrics["jobs"] == 4
    assert metrics["tasks"] == sum(step["tasks"] for step in metrics["steps"]) >= 8
    assert (metrics["failed_tasks"], metrics["restarts"]) == (0, 0)
    assert metrics["seconds"] >= metrics["steps"][0]["seconds"] >= metrics["steps"][1]["seconds"] > 0


def test_a_step_that_goes_on_is_counted_so_far(spark, engine):
    with engine.job("expire"):
        spark.range(10, numPartitions=2).count()
        [step] = engine.run.metrics()["steps"]
        assert step["jobs"] == 1
    assert engine.run.metrics()["steps"][0]["jobs"] == 1


def test_a_lost_executor_is_one_line():
    said: list[str] = []
    run = SparkRun(say=said.append)
    run.executor_lost()
    run.executor_lost()
    assert said == ["an executor was lost: other executors repeat its work"]


def test_steps_of_one_name_count_together():
    step = {"step": "expire: files", "seconds": 0.5, "jobs": None, "failed_tasks": 1}
    metrics = {"seconds": 2.0, "jobs": None, "failed_tasks": 2, "steps": [step, step]}
    assert named(metrics) == {
        "olympia: seconds": 2.0,
        "olympia: failed tasks": 2,
        "olympia expire: files: seconds": 1.0,
        "olympia expire: files: failed tasks": 2,
    }


def test_metrics_are_published_when_spark_is_observed(spark, engine, monkeypatch):
    notes: list[str] = []
    engine.run.note = notes.append
    with engine.job("fsck: definitions"):
        spark.range(10, numPartitions=2).count()
        engine.run.read(20_000, 3_000_000_000)
    jobs = spark.sparkContext._jsc.sc().statusStore
    before = jobs().jobsList(None).size()
    publish(spark, "fsck", engine.run)
    assert jobs().jobsList(None).size() == before, "nobody looks at this one"
    monkeypatch.setattr(type(spark.sparkContext), "uiWebUrl", "http://127.0.0.1")
    publish(spark, "fsck", engine.run)
    assert notes == []
    job = jobs().jobsList(None).head()
    assert job.description().get() == "olympia fsck: what it took"
    stage = jobs().lastStageAttempt(job.stageIds().head())
    told = [stage.accumulatorUpdates().apply(at) for at in range(stage.accumulatorUpdates().size())]
    metrics = engine.run.metrics()
    expected = {name: value for name, value in named(metrics).items() if "seconds" not in name}
    assert expected["olympia fsck: definitions: bytes"] == 3_000_000_000
    assert {one.name(): int(one.value()) for one in told if one.name() in expected} == expected
    assert float(next(one.value() for one in told if one.name() == "olympia: seconds")) > 0
    # it is no part of what it tells
    assert [step["step"] for step in metrics["steps"]] == ["fsck: definitions"]
    # and that it could not be done is no error
    monkeypatch.setattr(spark, "_jvm", None)
    publish(spark, "fsck", engine.run)
    assert notes == ["Spark's event log has no metrics: AttributeError"]
