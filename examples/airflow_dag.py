"""Airflow: each night an fsck of a catalog on Spark and, if the catalog is sound, an expire.

For Airflow 3 with apache-airflow-providers-apache-spark and a connection `spark_default`, which names Spark's master.
OLYMPIA_JOB is the folder that `python -m olympia_cli.spark.job --files` wrote, and OLYMPIA_CATALOG is the catalog.
"""

from __future__ import annotations

import os
from datetime import datetime

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

JOB = os.environ.get("OLYMPIA_JOB", "/opt/olympia")
CATALOG = os.environ.get("OLYMPIA_CATALOG", "s3://lake/catalog")


def olympia(name: str, *words: str) -> SparkSubmitOperator:
    """Return a command as a Spark job. Any exit code but 0 is a failure."""
    return SparkSubmitOperator(
        task_id=f"olympia_{name}",
        conn_id="spark_default",
        py_files=f"{JOB}/olympia_cli.zip",
        name=f"olympia-{name}",
        application=f"{JOB}/olympia_job.py",
        application_args=[name, "-c", CATALOG, *words],
        # a retry would find the same damage
        retries=0,
    )


with DAG("olympia_nightly", schedule="0 3 * * *", start_date=datetime(2026, 1, 1), catchup=False, max_active_runs=1):
    fsck = olympia("fsck", "--level", "full")
    # only after a successful fsck: a repair may need files that an expire would delete
    expire = olympia("expire", "--older-than", "30d", "--yes")
    fsck >> expire
