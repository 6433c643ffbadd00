"""Register the data source with a Spark session."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(spark: SparkSession, catalog: str | None = None, *, views: bool = False, **options: str) -> None:
    """Register `format("olympia")` with a session, classic or Connect, and ship this package's code to its workers.

    With `views`, create a temporary view for each relation of the catalog as it is now: `olympia_objects`,
    `olympia_versions`, `olympia_actions`, `olympia_nodes`, `olympia_files`. The view `olympia_names` has the objects
    without the columns that need their definitions. `options` are those of the reader.
    """
    from olympia_cli.errors import InvalidOption, SparkMissing
    from olympia_cli.spark.failures import explained
    from olympia_cli.spark.package import package_zip

    if views and catalog is None:
        raise InvalidOption("views are of a catalog, and none is given", hint="add catalog=URI")
    if not hasattr(type(spark), "dataSource"):
        raise SparkMissing(f"Spark {spark.version} has no data sources in Python", hint="use Spark 4.0 or newer")
    with explained():
        from olympia_cli.spark.source import OlympiaDataSource

        spark.addArtifacts(package_zip(), pyfile=True)
        spark.dataSource.register(OlympiaDataSource)
        if views and catalog is not None:
            _make_views(spark, {"catalog": catalog, **options})


def _make_views(spark: SparkSession, options: dict[str, str]) -> None:
    from olympia_cli.spark import objects
    from olympia_cli.spark.batches import ddl
    from olympia_cli.spark.tables import COLUMNS

    reader = spark.read.format("olympia").options(**options)
    for what in COLUMNS:
        reader.load(what).createOrReplaceTempView(f"olympia_{what}")
    in_tree = {name: word for name, word in objects.COLUMNS.items() if name not in objects.IN_DEFINITIONS}
    reader.schema(ddl(in_tree)).load("objects").createOrReplaceTempView("olympia_names")
