"""The same reading over Spark Connect, and on a cluster of several processes whose Python lacks this package."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from olympia_cli.names import Kind
from tests.helpers.spark_cluster import python_without_this_package, spark_cluster, takes_minutes

pytestmark = [pytest.mark.xdist_group("spark"), takes_minutes]

PROGRAM = Path(__file__).parent / "reader_program.py"


def read_elsewhere(catalog, folder: Path, **session) -> dict:
    task = {"catalog": catalog.store.uri, "session": session}
    # a port of the server's own choice
    environment = {**os.environ, "SPARK_TESTING": "1"}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(task)], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr[-4000:]
    return json.loads(done.stdout)


def expected(catalog) -> list[list[str]]:
    snapshot = catalog.snapshot()
    found = [one for kind in list(Kind)[1:] for one in snapshot.objects(kind) if one.name.namespace == "ns2"]
    return sorted([one.name.kind.word, "ns2", one.name.name or "ns2", one.id] for one in found)


def test_spark_connect(sample, tmp_path):
    found = read_elsewhere(sample, tmp_path, remote="local[2]")
    assert found["names"] == expected(sample)
    assert found["rows"] == 129


def test_a_cluster(sample, tmp_path):
    python = python_without_this_package(tmp_path / "python")
    with spark_cluster(tmp_path) as cluster:
        settings = {
            "spark.pyspark.python": python,
            "spark.executor.memory": "512m",
            "spark.cores.max": "2",
            # nothing starts before both are there
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
        }
        found = read_elsewhere(sample, tmp_path, master=cluster.url, settings=settings)
    assert found["names"] == expected(sample)
    assert found["rows"] == 129
    assert found["executors"] == 2, "both workers had their part of it"
    assert all(".zip" in path for path in found["files"]), "the package came with the work"
