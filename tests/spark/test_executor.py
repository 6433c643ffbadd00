"""Work mapped over Spark's executors: the same results as over threads, and files that only one machine sees."""

from __future__ import annotations

from functools import partial

import pytest

from olympia_cli.errors import Damaged, ExecutorUnprepared
from olympia_cli.ops.executor import LOCAL, Doubt, SeenHere, Work
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.pipelines.place import CatalogPlace


@pytest.fixture
def engine(spark, tmp_path):
    return SparkEngine(spark, CatalogPlace.at(str(tmp_path)), 3, alone=0, at_once=4)


def squares(numbers):
    return [number * number for number in numbers]


def test_the_results_are_those_of_threads(engine):
    work = Work("test: squares", squares, cost=1, least=1, size=lambda result: result or None)
    for count in (0, 1, 3, 10):
        assert list(engine.map(work, range(count))) == list(LOCAL.map(work, range(count)))
    assert sum(step.files for step in engine.run.steps) == 2 + 9


def test_little_work_stays_in_this_process(spark, tmp_path):
    engine = SparkEngine(spark, CatalogPlace.at(str(tmp_path)), alone=100)
    # a local function with state: it cannot be sent
    seen = []
    work = Work("test: here", lambda items: [seen.append(item) for item in items], cost=10, least=1)
    list(engine.map(work, range(10)))
    assert sorted(seen) == list(range(10))
    assert engine.run.steps == []


def half(numbers):
    return ["unread" if number % 2 else str(number) for number in numbers]


def again(answer, doubtful):
    return [answer for _ in doubtful]


def test_a_doubtful_result_is_settled_by_this_process(engine):
    work = Work("test: half", half, 1, 1, doubt=Doubt(lambda result: result == "unread", partial(again, "broken")))
    assert list(engine.map(work, range(5))) == ["0", "broken", "2", "broken", "4"]


def test_a_file_that_only_this_process_sees_is_no_fault_of_the_file(engine):
    work = Work(
        "test: half", half, 1, 1, doubt=Doubt(lambda result: result == "unread", partial(again, SeenHere("a.txt")))
    )
    with pytest.raises(ExecutorUnprepared, match=r"does not see the same a\.txt"):
        list(engine.map(work, range(5)))


def damaged(items):
    raise Damaged("F201", "a.txt", "it is missing")


def test_our_errors_come_back_as_they_are(engine):
    with pytest.raises(Damaged, match="it is missing"):
        list(engine.map(Work("test: damage", damaged, 1, 1), range(3)))
