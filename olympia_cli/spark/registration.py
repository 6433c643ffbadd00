"""Making the data source known to a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession) -> None:
    """Make `format("olympia")` known to a session, classic or Connect, and ship this package's code to its workers."""
    from olympia_cli.errors import SparkMissing
    from olympia_cli.spark.failures import explained
    from olympia_cli.spark.package import package_zip

    if not hasattr(type(spark), "dataSource"):
        raise SparkMissing(f"Spark {spark.version} has no data sources in Python", hint="use Spark 4.0 or newer")
    with explained():
        from olympia_cli.spark.source import OlympiaDataSource

        spark.addArtifacts(package_zip(), pyfile=True)
        spark.dataSource.register(OlympiaDataSource)
