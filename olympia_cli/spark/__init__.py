"""Read and append to catalogs from Spark.

    import olympia_cli.spark
    olympia_cli.spark.register(spark)
    spark.read.format("olympia").option("catalog", "s3://lake/catalog").load("objects")

Importing this does not import PySpark.
"""

from typing import TYPE_CHECKING, Any

from olympia_cli.spark.source import register

if TYPE_CHECKING:
    from olympia_cli.spark.appends import append

__all__ = ["append", "register"]


def __getattr__(name: str) -> Any:
    if name != "append":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from olympia_cli.spark.appends import append

    return append
