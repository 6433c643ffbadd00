"""What a pipeline found, written where Spark can write."""

from __future__ import annotations

from typing import TYPE_CHECKING

from olympia_cli.errors import PathTaken
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
