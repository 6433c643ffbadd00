"""Steps of a bulk load: the ids of their transactions follow from the input, so that nothing is done twice."""

from __future__ import annotations

import io

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.errors import InvalidLine
from olympia_cli.format.paths import root_path
from olympia_cli.ops.apply import ApplyStep, apply_all, apply_in_steps, digest_of, parse_lines
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog, check_versions
from tests.helpers.stores import CountingStore, CuttingStore, PowerCut

LINES = "".join(f'{{"do": "ns create", "name": "n{number}"}}\n' for number in range(6))
BY = Author(by="test")


def steps(store, text: str = LINES, every: int = 2):
    return apply_in_steps(Catalog(store), parse_lines(io.StringIO(text)), digest_of(io.StringIO(text)), every, BY, 5.0)


@pytest.fixture
def store():
    store = MemoryStore()
    Catalog.create(store)
    yield store
    check_catalog(store)


def test_a_power_cut_before_any_write_and_a_second_run(store):
    """Each object is there exactly once, wherever the first run ended."""
    counting = CuttingStore(_copy(store))
    list(steps(counting))
    for cut in range(counting.writes):
        copy = _copy(store)
        with pytest.raises(PowerCut):
            list(steps(CuttingStore(copy, cut)))
        done = list(steps(copy))
        assert sum(step.lines for step in done) == 6
        names = [name.namespace for name in Catalog(copy).snapshot().namespaces()]
        assert names == [f"n{number}" for number in range(6)]
        check_catalog(copy)
        ids = [version.info.transaction_id for version in check_versions(copy)]
        assert len(set(ids)) == len(ids) == 4


def test_two_runs_at_the_same_time(store):
    """Steps that another run committed meanwhile are found in the log, not done again."""
    first, second = steps(store), steps(store)
    assert next(first) == ApplyStep(1, 2, False)
    assert next(second) == ApplyStep(1, 2, True)
    assert next(first) == ApplyStep(2, 2, False)
    assert next(second) == ApplyStep(2, 2, True)
    assert next(second) == ApplyStep(3, 2, False)
    assert list(first) == [ApplyStep(3, 2, True)]


def test_two_concurrent_runs_apply_each_step_once(store):
    text = "".join(f'{{"do": "ns create", "name": "n{number}", "if_not_exists": true}}\n' for number in range(4))
    text += '{"do": "catalog alter", "set": {"k": "v"}}\n' * 4
    first, second = steps(store, text), steps(store, text)
    for _ in range(4):
        next(first)
        next(second)
    assert Catalog(store).snapshot().version == 3, "the last step has nothing left to change"


def test_step_without_effect_is_skipped_by_a_second_run(store):
    """At its place in the order the step had no effect; after the later steps it would have one."""
    alters = [f'{{"do": "catalog alter", "set": {{"k": "{value}"}}}}' for value in ("old", "old", "new")]
    creates = ['{"do": "ns create", "name": "n", "if_not_exists": true}'] * 2 + ['{"do": "ns drop", "name": "n"}']
    text = "\n".join([*alters, *creates, '{"do": "ns create", "name": "last"}'])
    list(apply_in_steps(Catalog(store), parse_lines(creates[:1]), digest_of(creates[:1]), 1, BY, 5.0))
    first = list(steps(store, text, 1))
    assert [step.version for step in first] == [2, 2, 3, 3, 3, 4, 5]
    again = list(steps(store, text, 1))
    assert [(step.version, step.done_before) for step in again] == [(one, True) for one in (2, 3, 3, 4, 4, 4, 5)]
    latest = Catalog(store).snapshot()
    assert (latest.version, dict(latest.definition.properties)) == (5, {"k": "new"})
    assert [name.namespace for name in latest.namespaces()] == ["last"]


def test_a_run_alone_reads_the_log_once(store):
    counting = CountingStore(store)
    run = steps(counting, every=1)
    next(run), next(run)
    counting.reset()
    assert list(run)
    assert root_path(0) not in counting.paths("read", "read_many"), "a step looks at what came since the one before"


def test_another_size_of_steps_is_another_run(store):
    list(steps(store))
    transaction_ids = {version.info.transaction_id for version in check_versions(store)}
    text = LINES.replace('"name": "n', '"name": "m')
    list(steps(store, text, 3))
    assert len({version.info.transaction_id for version in check_versions(store)}) == len(transaction_ids) + 2


def test_nothing_is_committed_for_nothing(store):
    assert list(steps(store, "\n\n")) == []
    done = apply_all(Catalog(store), parse_lines([]), BY, retry_for=1.0, atomic=False)
    assert (done.version, done.actions) == (0, ())


def test_lines_are_parsed_only_on_request():
    parsed = parse_lines(['{"do": "ns create", "name": "a"}', "", "nonsense"])
    assert next(parsed).number == 1
    with pytest.raises(InvalidLine, match="line 3"):
        next(parsed)


def _copy(store: MemoryStore) -> MemoryStore:
    copy = MemoryStore()
    for file in store.list():
        copy.create(file.path, store.read(file.path))
    return copy
