"""Read and append to catalogs from Spark.

    import olympia_cli.spark
    olympia_cli.spark.register(spark)
    spark.read.format("olympia").option("catalog", "s3://lake/catalog").load("objects")

Importing this imports neither PySpark nor the data source: names in `__all__` are
loaded on first access.
"""

import os
from typing import TYPE_CHECKING, Any

from olympia_cli.errors import SparkMissing
from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.spark.appends import append
    from olympia_cli.spark.engine import SparkEngine, SparkRun, place_for, spark_engine
    from olympia_cli.spark.pipelines.expire import spark_surveyor
    from olympia_cli.spark.pipelines.export import SparkExport
    from olympia_cli.spark.pipelines.fsck import spark_fsck
    from olympia_cli.spark.pipelines.imports import SparkFooters, SparkRewriter
    from olympia_cli.spark.pipelines.inventory import data_files, save_table, spark_path, write_parquet
    from olympia_cli.spark.session import need_java, need_spark
    from olympia_cli.spark.source import register

__all__ = [
    "SparkEngine",
    "SparkExport",
    "SparkFooters",
    "SparkRewriter",
    "SparkRun",
    "append",
    "data_files",
    "need_java",
    "need_pyspark",
    "need_spark",
    "place_for",
    "register",
    "save_table",
    "spark_engine",
    "spark_fsck",
    "spark_path",
    "spark_surveyor",
    "submitted",
    "write_parquet",
]


def submitted() -> bool:
    """Return True if spark-submit runs this process, and so Spark's Java program runs already."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def need_pyspark() -> None:
    """Raise SparkMissing unless PySpark 4.0 or newer is installed."""
    try:
        import pyspark
    except ImportError:
        raise SparkMissing("PySpark is not installed", hint="install olympia-cli[spark]") from None
    if int(pyspark.__version__.partition(".")[0]) < 4:
        raise SparkMissing(f"PySpark {pyspark.__version__} is too old", hint="install olympia-cli[spark]: 4.0 or newer")


if not TYPE_CHECKING:  # mypy checks the names
    _load = lazy(__name__)

    def __getattr__(name: str) -> Any:
        try:
            return _load(name)
        except ImportError:
            # the modules import PySpark at their top
            need_pyspark()
            raise
