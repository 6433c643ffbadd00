"""Long pipelines in pieces. Spark keeps with each DataFrame all the steps that lead to it, and looks at all of them for
each further step; where one level is made from another, that doubles with every level."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from olympia_cli.errors import SparkFailed

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

TRIES = 3
_LOST = "Checkpoint block"
_LOST_BLOCK = "CHECKPOINT_RDD_BLOCK_ID_NOT_FOUND"

T = TypeVar("T")


def cut(frame: DataFrame) -> DataFrame:
    """What a DataFrame is computed to, now, without how. The executors keep it; see `with_losses`."""
    return frame.localCheckpoint(eager=True)


def is_loss(error: SparkFailed) -> bool:
    """Whether an executor is gone with what it kept."""
    return _LOST in error.message or _LOST_BLOCK in error.message


def with_losses(work: Callable[[], T]) -> T:
    """The result of work that cuts its pipelines. When an executor is lost with what it keeps, it is done once more."""
    for left in reversed(range(TRIES)):
        try:
            return work()
        except SparkFailed as error:
            if not is_loss(error) or not left:
                raise
    raise AssertionError
