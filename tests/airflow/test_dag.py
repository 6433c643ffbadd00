"""The example for Airflow, run by Airflow itself in an environment of its own, with spark-submit on this machine:
OLYMPIA_TEST_AIRFLOW names that environment."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.storage.local import LocalStore
from tests.helpers.spark_cluster import SHORT_LIVED

EXAMPLE = Path(__file__).parents[2] / "examples" / "airflow_dag.py"


@pytest.fixture(scope="module")
def airflow(tmp_path_factory):
    """Runs one of Airflow's commands, where it knows the example and nothing else."""
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    shutil.copy(EXAMPLE, home / "dags")
    (home / "spark-defaults.conf").write_text(f"spark.driver.extraJavaOptions {SHORT_LIVED}\nspark.ui.enabled false\n")
    subprocess.run([sys.executable, "-m", "olympia_cli.spark.job", "--files", home / "job"], check=True)
    environment = {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps({"conn_type": "spark", "host": "local[2]"}),
        "OLYMPIA_JOB": str(home / "job"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    program = f"{os.environ['OLYMPIA_TEST_AIRFLOW']}/bin/airflow"

    def run(*words: str, **more: str) -> str:
        done = subprocess.run(
            [program, *words], env={**os.environ, **environment, **more}, cwd=home, capture_output=True, text=True
        )
        return done.stdout + done.stderr

    assert "Database migration done" in run("db", "migrate")
    return run


def states(said: str) -> list[str]:
    """Return the end states of the tasks that began."""
    return re.findall(r"new_state=(success|failed)", said)


def test_expire_runs_only_after_fsck_found_the_catalog_sound(airflow, tmp_path):
    catalog = Catalog.create(LocalStore(str(tmp_path / "lake")))
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("ns"))
        transaction.create_table(TableName("ns", "t"), "s3://lake/t")
    said = airflow("dags", "test", "olympia_nightly", OLYMPIA_CATALOG=catalog.store.uri)
    assert states(said) == ["success", "success"], said[-4000:]
    assert "olympia-fsck" in said, "as which it was submitted"
    (tmp_path / "lake" / str(catalog.snapshot().find(TableName("ns", "t")))).unlink()
    said = airflow("dags", "test", "olympia_nightly", OLYMPIA_CATALOG=catalog.store.uri)
    assert states(said) == ["failed"], said[-4000:]
    assert "Error code is: 50" in said
