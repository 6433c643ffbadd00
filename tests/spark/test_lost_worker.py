"""A machine dies in the middle of the work, with all that it had found so far."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from olympia_cli.ops.expire_plan import Planner
from tests.helpers.dead_files import FLOORS, make_worn_catalog, policy_of
from tests.helpers.spark_cluster import spark_cluster, takes_minutes

pytestmark = [pytest.mark.xdist_group("spark"), takes_minutes]

PROGRAM = Path(__file__).parent / "sweep_program.py"


def test_a_worker_is_killed_while_nodes_are_read(tmp_path):
    catalog = make_worn_catalog(tmp_path / "lake")
    plan = Planner(catalog, FLOORS).expire(policy_of(catalog)).mark
    where = tmp_path / "sweep"
    where.write_bytes(pickle.dumps(Planner(catalog, FLOORS).sweep(policy_of(catalog))))
    with spark_cluster(tmp_path) as cluster:
        settings = {
            "spark.executor.memory": "512m",
            "spark.cores.max": "2",
            "spark.sql.shuffle.partitions": "4",
            "spark.scheduler.minRegisteredResourcesRatio": "1.0",
            "spark.scheduler.maxRegisteredResourcesWaitingTime": "300s",
        }
        session = {"master": cluster.url, "settings": settings}
        task = {"catalog": catalog.store.uri, "sweep": str(where), "session": session}
        log = tmp_path / "program.log"
        with (
            log.open("wb") as errors,
            subprocess.Popen(
                [sys.executable, str(PROGRAM), json.dumps(task)],
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            ) as program,
        ):
            try:
                found = play(program, cluster)
            finally:
                program.kill()
    assert found is not None, log.read_text()[-4000:]
    assert [tuple(file) for file in found["dead"]] == sorted((file.path, file.bytes, file.kind) for file in plan.files)
    assert found["executors"] == 1, "the other one is gone"


def play(program: subprocess.Popen[str], cluster) -> dict | None:
    """Stop a worker before the second level of nodes is read, and kill it once it has a task of that. So it dies with
    the task, whatever the machine's speed, and with what it kept of the levels before."""
    levels = 0
    for line in program.stdout:
        said = json.loads(line)
        if "dead" in said:
            return said
        if "running" in said:
            cluster.kill_worker(0)
            continue
        levels += said["phase"] == "reading nodes"
        answer = "go"
        if said["phase"] == "reading nodes" and levels == 2:
            cluster.stop_worker(0)
            answer = "watch"
        program.stdin.write(f"{answer}\n")
        program.stdin.flush()
    return None
