"""What pipelines do with DataFrames, whatever is in them.

Spark keeps with each DataFrame all the steps that lead to it, and looks at all of them for each further step; where one
level is made from another, that doubles with every level. So long pipelines are cut. What executors keep after a cut is
lost with them, and Spark cannot make it again: whoever cuts does so `with_losses`, and what is used later is `Remade`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import reduce
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from olympia_cli.errors import SparkFailed
from olympia_cli.spark.failures import explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRIES = 3
_LOST = ("Checkpoint block", "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND")
_ADAPTIVE = "spark.sql.adaptive.enabled"

T = TypeVar("T")
U = TypeVar("U")


def cut(frame: DataFrame) -> DataFrame:
    """What a DataFrame is computed to, now, without how."""
    with _as_planned(frame):
        return frame.localCheckpoint(eager=True)


def cut_and_count(frame: DataFrame) -> tuple[DataFrame, int]:
    """As `cut`, in one job, with the number of rows."""
    with _as_planned(frame):
        level = frame.localCheckpoint(eager=False)
        return level, level.count()


def keep(frame: DataFrame, stack: ExitStack) -> DataFrame:
    """Keep what a DataFrame is computed to, until the stack is closed."""
    with _as_planned(frame):
        kept = frame.persist()

    def free() -> None:
        # that it cannot be freed must not hide what went wrong before
        with suppress(Exception):
            kept.unpersist()

    stack.callback(free)
    return kept


@contextmanager
def _as_planned(frame: DataFrame) -> Iterator[None]:
    """Spark adapts no plan within: it would make a job of each step whose number of tasks is given already. And of a
    plan that it adapts it writes down two for its pages, with the plans of all that it keeps inside, so what is made in
    ten steps would be written a thousand times over."""
    settings = frame.sparkSession.conf
    before = settings.get(_ADAPTIVE, "true")
    settings.set(_ADAPTIVE, "false")
    try:
        yield
    finally:
        settings.set(_ADAPTIVE, before or "true")


def apart(frame: DataFrame) -> DataFrame:
    """For a join in which each task has some of both sides. Left to itself Spark may send one side to all tasks, by way
    of this process: it takes the size of what a function made for that of what the function was given."""
    return frame.hint("merge")


def together(frames: Iterable[DataFrame]) -> DataFrame:
    """The rows of all of them."""
    return reduce(lambda one, other: one.union(other), frames)


def is_loss(error: SparkFailed) -> bool:
    """Whether an executor is gone with what it kept."""
    return any(text in error.message for text in _LOST)


def with_losses(work: Callable[[], T], forget: Callable[[], None] = lambda: None) -> T:
    """The result of work that cuts its pipelines. When an executor is lost with what it keeps, it is done once more,
    after what was made of that is forgotten."""
    for left in reversed(range(TRIES)):
        try:
            with explained():
                return work()
        except SparkFailed as error:
            if not is_loss(error) or not left:
                raise
            forget()
    raise AssertionError


class Remade(Generic[T]):
    """What is made on Spark now and used later, with what it is made of: made again when an executor is lost."""

    def __init__(self, make: Callable[[], T], *sources: Remade[Any]) -> None:
        self._make = make
        self._sources = sources
        self._value: T | None = None

    @property
    def value(self) -> T:
        if self._value is None:
            self._value = self._make()
        return self._value

    def ask(self, work: Callable[[T], U]) -> U:
        return with_losses(lambda: work(self.value), self.forget)

    def forget(self) -> None:
        self._value = None
        for source in self._sources:
            source.forget()
