"""The place where long work runs: threads of this process, or Spark's executors.

Work is a pure function over one partition, and a plan is the list of items that partitions are made of. An executor
divides the plan, maps the function over the partitions, and returns the results. It distributes and never decides.

All results come back to this process. Some are too many for it: the names of definitions in nodes, listings, and the
files of tables. On Spark these stay rows, which are grouped and joined there. So walks down trees have a second
protocol, `ops/walk/reach.TreeReader`, which returns facts and may keep the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from typing import Generic, Protocol, TypeVar

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")

THREADS = 16


@dataclass(frozen=True, slots=True)
class SeenHere:
    """The answer to a doubtful result: this process sees the file, so the machine of the task is wrong. `file` is the
    end of the error message.
    """

    file: str


@dataclass(frozen=True, slots=True)
class Doubt(Generic[P, R]):
    """Results that say nothing about a file until this process has looked too: the task's machine may see other files.

    `again` returns, for each doubtful item with its result, the result that counts, or `Seen`.
    """

    of: Callable[[R], bool]
    again: Callable[[Sequence[tuple[P, R]]], Iterable[R | SeenHere]]


@dataclass(frozen=True, slots=True)
class Work(Generic[P, R]):
    """A pure function over one partition, which returns a result per item in order.

    The function, items and results are sent between processes, so they can be pickled. `what` describes the work to
    users of Spark. `cost` is the cost of an item in this process, in definitions; `least` is the number of items that
    take some hundred milliseconds. `threads` partitions are processed at once in one process. `size` returns the bytes
    that were read for a result, or None if no file was read.
    """

    what: str
    over: Callable[[Sequence[P]], Iterable[R]]
    cost: float
    least: int
    threads: int = THREADS
    doubt: Doubt[P, R] | None = None
    size: Callable[[R], int | None] | None = None


class Executor(Protocol):
    @property
    def at_once(self) -> int:
        """The best number of items per call of `map`. Memory holds the results of as many."""
        ...

    def map(self, work: Work[P, R], items: Sequence[P]) -> Iterator[R]:
        """Yield the result of each item, in the order of the items."""
        ...


@dataclass(frozen=True, slots=True)
class Threads:
    """The executor of this process."""

    at_once: int = 1024

    def map(self, work: Work[P, R], items: Sequence[P]) -> Iterator[R]:
        with ThreadPoolExecutor(work.threads) as pool:
            for start in range(0, len(items), self.at_once):
                partitions = divide(items[start : start + self.at_once], work.threads)
                for results in pool.map(lambda partition: list(work.over(partition)), partitions):
                    yield from results


LOCAL = Threads()


def divide(items: Sequence[T], most: int) -> list[Sequence[T]]:
    """Divide items into at most `most` runs. Their lengths differ by at most one, and none is empty."""
    runs = min(most, len(items))
    cuts = [at * len(items) // runs for at in range(runs + 1)] if runs else []
    return [items[start:end] for start, end in pairwise(cuts)]
