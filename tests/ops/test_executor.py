"""Work mapped over threads: the order of results, and partitions of any number of items."""

from __future__ import annotations

import pytest

from olympia_cli.ops.executor import Threads, Work, divide


def squares(numbers):
    return [number * number for number in numbers]


@pytest.mark.parametrize("count", [0, 1, 2, 7, 40, 41])
def test_results_have_the_order_of_the_items(count):
    work = Work("squares", squares, cost=1, least=1, threads=4)
    assert list(Threads(at_once=10).map(work, range(count))) == squares(range(count))


def test_a_partition_of_the_next_round_waits_for_the_results_of_this_one():
    seen = []
    work = Work("notes", lambda items: [seen.append(item) for item in items], cost=1, least=1, threads=1)
    results = Threads(at_once=3).map(work, range(9))
    next(results)
    assert seen == [0, 1, 2]


def test_an_error_of_a_partition_is_raised():
    def fail(items):
        raise LookupError(items[0])

    with pytest.raises(LookupError):
        list(Threads().map(Work("fails", fail, cost=1, least=1), ["item"]))


def test_partitions_have_almost_equal_lengths():
    assert divide([], 3) == []
    assert [list(part) for part in divide(range(7), 3)] == [[0, 1], [2, 3], [4, 5, 6]]
    assert [list(part) for part in divide(range(2), 5)] == [[0], [1]]
