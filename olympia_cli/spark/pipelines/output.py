"""Write the results of pipelines where Spark can write."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from olympia_cli.errors import InvalidOption, PathTaken
from olympia_cli.spark.failures import explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_parquet(frame: DataFrame, path: str) -> None:
    """Write a DataFrame as a folder of Parquet files. Raise PathTaken if the path exists.

    `path` is Spark's: the cluster's settings define the store that it names.
    """
    error = PathTaken(f"{path} already exists and is not an empty folder", hint="choose another folder")
    with _refused("PATH_ALREADY_EXISTS", error):
        # "errorifexists" means the same, and Spark Connect does not know it
        frame.write.mode("error").parquet(path)


def save_table(frame: DataFrame, name: str) -> None:
    """Save a DataFrame as a table in the catalog of the Spark session. Raise PathTaken if the table exists."""
    error = PathTaken(f"Spark has a table {name} already", hint="choose another name")
    with _refused("TABLE_OR_VIEW_ALREADY_EXISTS", error):
        frame.write.mode("error").saveAsTable(name)


@contextmanager
def _refused(condition: str, meaning: PathTaken) -> Iterator[None]:
    """Raise `meaning` if Spark refuses with this error condition."""
    from pyspark.errors import AnalysisException

    with explained():
        try:
            yield
        except AnalysisException as error:
            raise error if error.getCondition() != condition else meaning from None


def spark_path(path: str) -> str:
    """Return a path for Spark. A plain path becomes absolute on this machine, independent of the working directories of
    other processes."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"{path[:60]!a} is not text, and Spark's paths are", hint="choose another place") from None
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))
