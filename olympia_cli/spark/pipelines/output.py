"""What a pipeline found, written where Spark can write."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from olympia_cli.errors import InvalidOption, PathTaken
from olympia_cli.spark.failures import explained

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def write_parquet(frame: DataFrame, path: str, *, overwrite: bool = False) -> None:
    """Write a DataFrame as a folder of Parquet files; PathTaken when something is there and was not to be replaced.

    `path` is Spark's: it names a store as the cluster is set up for it.
    """
    from pyspark.errors import AnalysisException

    with explained():
        try:
            # "errorifexists" means the same, and Spark Connect does not know it
            frame.write.mode("overwrite" if overwrite else "error").parquet(path)
        except AnalysisException as error:
            if error.getCondition() != "PATH_ALREADY_EXISTS":
                raise
            raise PathTaken(f"there is something at {path} already", hint="choose another place") from None


def save_table(frame: DataFrame, name: str) -> None:
    """Save a DataFrame as a table in the catalog of the Spark session; PathTaken when there is one of the name."""
    from pyspark.errors import AnalysisException

    with explained():
        try:
            frame.write.mode("error").saveAsTable(name)
        except AnalysisException as error:
            if error.getCondition() != "TABLE_OR_VIEW_ALREADY_EXISTS":
                raise
            raise PathTaken(f"Spark has a table {name} already", hint="choose another name") from None


def spark_path(path: str) -> str:
    """A path as Spark takes it; a plain one is of this machine, and does not depend on where another process runs."""
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"{path[:60]!a} is not text, and Spark's paths are", hint="choose another place") from None
    return path if "://" in path else os.path.abspath(os.path.expanduser(path))
