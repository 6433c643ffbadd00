"""Catalogs from Spark, and the long work on it.

    import olympia_cli.spark
    olympia_cli.spark.register(spark)
    spark.read.format("olympia").option("catalog", "s3://lake/catalog").load("objects")

Importing this does not import PySpark.
"""

from olympia_cli.spark.registration import register

__all__ = ["register"]
