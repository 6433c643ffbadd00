"""Read and append to catalogs from Spark.

    import olympia_cli.spark
    olympia_cli.spark.register(spark)
    spark.read.format("olympia").option("catalog", "s3://lake/catalog").load("objects")

Importing this imports neither PySpark nor the data source.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from olympia_cli.spark.appends import append
    from olympia_cli.spark.source import register

__all__ = ["append", "register", "submitted"]

_HOMES = {"append": "appends", "register": "source"}


def submitted() -> bool:
    """Return True if spark-submit runs this process, and so Spark's Java program runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
