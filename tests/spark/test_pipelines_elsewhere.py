"""Each pipeline from end to end over Spark Connect, and on a cluster whose Python lacks this package."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from olympia_cli.ops.expire_plan import Planner
from olympia_cli.ops.log import log
from tests.helpers.dead_files import FLOORS, make_worn_catalog, policy_of
from tests.helpers.spark_cluster import python_without_this_package, spark_cluster, takes_minutes

pytestmark = [pytest.mark.xdist_group("spark"), takes_minutes]

PROGRAM = Path(__file__).parent / "pipelines_program.py"


def check_pipelines(folder: Path, **session) -> None:
    """Run them all, and hold what they find against what this process finds itself."""
    catalog = make_worn_catalog(folder / "lake")
    plan = Planner(catalog, FLOORS).expire(policy_of(catalog)).mark
    sweep = folder / "sweep"
    sweep.write_bytes(pickle.dumps(Planner(catalog, FLOORS).sweep(policy_of(catalog))))
    task = {"catalog": catalog.store.uri, "sweep": str(sweep), "log": str(folder / "log"), "session": session}
    done = subprocess.run(
        [sys.executable, str(PROGRAM), json.dumps(task)],
        cwd=folder,
        # a port of the server's own choice
        env={**os.environ, "SPARK_TESTING": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert "[Stage " not in done.stderr
    found = json.loads(done.stdout)
    assert [tuple(file) for file in found["dead"]] == sorted((file.path, file.bytes, file.kind) for file in plan.files)
    entries = log(catalog.snapshot(), plan.former_oldest)
    assert found["actions"] == sorted([entry.version, at] for entry in entries for at in range(len(entry.changes)))
    assert found["taken"]
    # the metadata of all of them is missing
    assert found["problems"] == sorted(name.name for name in catalog.snapshot().tables())


def test_spark_connect(tmp_path):
    check_pipelines(tmp_path, remote="local[2]")


def test_a_cluster(tmp_path):
    python = python_without_this_package(tmp_path / "python")
    with spark_cluster(tmp_path) as cluster:
        settings = {
            "spark.pyspark.python": python,
            "spark.executor.memory": "512m",
            "spark.cores.max": "2",
            "spark.sql.shuffle.partitions": "2",
        }
        check_pipelines(tmp_path, master=cluster.url, settings=settings)
