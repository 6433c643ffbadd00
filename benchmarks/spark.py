"""What fsck and expire cost on Spark, beside the local engine: time, the driver's memory, and what each task has to do.

    python benchmarks/spark.py [--tables 10000,100000,1000000] [--parallelism 2,4,8,16] [--folder FOLDER]
                               [--only time,memory,tasks]

Catalogs are those of maintenance.py: each table has a definition of its own, and there is a version for each hundred
tables. Every run is in a process of its own.

- time: Spark as `local[2]` against the local engine. Starting Spark, and its first job, are not counted.
- memory: on a cluster of two workers on this machine, so that the driver's Java holds nothing but what is the driver's.
  `held` is its heap after all that is garbage was thrown away.
- tasks: how many files the tasks of a step have, at the most, for different numbers of parts.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.maintenance import OFFLINE, build, half
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.storage.local import LocalStore

TABLES_A_VERSION = 100
MASTER = "local[2]"
TIGHT = {"spark.driver.memory": "1g", "spark.executor.memory": "1g", "spark.cores.max": "2"}


def command(name: str, folder: Path) -> list[str]:
    """The command line that is measured, which changes nothing."""
    if name == "fsck":
        return ["-c", str(folder), "fsck", "--level", "full", "--all-versions", "--json"]
    keep = str(Catalog(LocalStore(folder)).snapshot().version // 2)
    policy = ["--keep-last", keep, "--older-than", "0s", "--grace", "0s", "--offline"]
    return ["-c", str(folder), "expire", *policy, "--dry-run", "--json"]


def run(line: list[str]) -> tuple[float, dict[str, Any]]:
    """How long the program takes, and what it finds."""
    from typer.testing import CliRunner

    from olympia_cli.cli.app import app

    began = time.perf_counter()
    done = CliRunner().invoke(app, line)
    seconds = time.perf_counter() - began
    if done.exit_code:
        raise SystemExit(f"{line} ended with {done.exit_code}: {done.stderr}")
    return seconds, json.loads(done.stdout)


@contextmanager
def started(master: str, settings: dict[str, str]) -> Iterator[Any]:
    """Spark, and its Python workers, ready to work."""
    from olympia_cli.spark.session import spark_session

    with spark_session(master=master, settings=settings, wait=300) as spark:
        spark.range(64).repartition(2).mapInArrow(lambda batches: batches, "id long").count()
        yield spark


def measure(name: str, folder: Path, parallelism: int | None, master: str | None, settings: dict[str, str]) -> Any:
    line = command(name, folder)
    if master is None:
        seconds, found = run([*line, "--engine", "local"])
        return {"seconds": round(seconds, 1), "python_mib": _peak(), "found": _gist(found)}
    more = [] if parallelism is None else ["--parallelism", str(parallelism)]
    with started(master, settings) as spark:
        seconds, found = run([*line, "--engine", "spark", *more])
        java = spark._jvm.java.lang
        java.System.gc()
        heap = java.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage()
        return {
            "seconds": round(seconds, 1),
            "python_mib": _peak(),
            "java_mib": _peak(java.ProcessHandle.current().pid()),
            "java_held_mib": heap.getUsed() >> 20,
            "found": _gist(found),
        }


def _peak(pid: int | str = "self") -> int:
    """The most memory that a process had."""
    if pid == "self":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1024


def _gist(found: dict[str, Any]) -> Any:
    """What both engines must agree on, in short. What fsck's driver reads ahead is read once more by a worker."""
    checked = {name: number for name, number in found.get("checked", {}).items() if name != "bytes"}
    return {"checked": checked, **{name: found[name] for name in ("damaged", "files", "bytes") if name in found}}


def tasks(folder: Path, parallelism: int) -> Any:
    """The most files that one task of a step has: nodes of all levels, definitions, and dead files."""
    from pyspark.sql.functions import spark_partition_id

    from olympia_cli.spark.pipelines.place import CatalogPlace
    from olympia_cli.spark.pipelines.sweep import dead_files

    planner = Planner(Catalog(LocalStore(folder)), OFFLINE)
    found: dict[str, Any] = {"parallelism": parallelism}
    with (
        started(MASTER, {}) as spark,
        dead_files(spark, CatalogPlace.at(str(folder)), planner.sweep(half(planner)), partitions=parallelism) as swept,
    ):
        steps = {
            "nodes": swept.live.where("kind = 'node'"),
            "definitions": swept.live.where("kind = 'definition'"),
            "dead": swept.dead,
        }
        for name, frame in steps.items():
            counts = [row[1] for row in frame.groupBy(spark_partition_id()).count().collect()]
            found[name] = {"files": sum(counts), "most_a_task": max(counts, default=0)}
    return found


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", default="10000,100000,1000000")
    parser.add_argument("--parallelism", default="2,4,8,16")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", default="time,memory,tasks")
    parser.add_argument("--operations", default="fsck,expire")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        task = json.loads(asked.run)
        name, folder = task.pop("name"), Path(task.pop("folder"))
        print(json.dumps(tasks(folder, **task) if name == "tasks" else measure(name, folder, **task)))
        return
    sizes = [int(one) for one in asked.tables.split(",")]
    with tempfile.TemporaryDirectory() as made:
        for size in sizes:
            folder = (asked.folder or Path(made)) / str(size)
            if not (folder / "vn").exists():
                began = time.perf_counter()
                build(folder, size, max(10, size // TABLES_A_VERSION))
                print(f"made {size:,} tables in {time.perf_counter() - began:.0f} s", flush=True)
            for operation in asked.operations.split(","):
                if "time" in asked.only:
                    show_times(operation, folder, size)
                if "memory" in asked.only:
                    show_memory(operation, folder, size)
            if "tasks" in asked.only and size == sizes[min(1, len(sizes) - 1)]:
                for number in asked.parallelism.split(","):
                    print(json.dumps({"tables": size, **apart("tasks", folder, parallelism=int(number))}), flush=True)


def show_times(operation: str, folder: Path, size: int) -> None:
    # once before, so that neither finds a colder disk than the other
    for _ in range(2):
        here = apart(operation, folder, parallelism=None, master=None, settings={})
    there = apart(operation, folder, parallelism=16, master=MASTER, settings={})
    assert here.pop("found") == there.pop("found"), "both engines find the same"
    ratio = round(there["seconds"] / here["seconds"], 2)
    print(json.dumps({"time": operation, "tables": size, "ratio": ratio, "local": here, "spark": there}), flush=True)


def show_memory(operation: str, folder: Path, size: int) -> None:
    from tests.helpers.spark_cluster import spark_cluster

    with tempfile.TemporaryDirectory() as place, spark_cluster(Path(place), memory="2g") as cluster:
        there = apart(operation, folder, parallelism=16, master=cluster.url, settings=TIGHT)
    del there["found"]
    print(json.dumps({"memory": operation, "tables": size, **there}), flush=True)


def apart(name: str, folder: Path, **task: Any) -> dict[str, Any]:
    """A run in a process of its own."""
    given = json.dumps({"name": name, "folder": str(folder), **task})
    done = subprocess.run([sys.executable, __file__, "--run", given], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    found: dict[str, Any] = json.loads(done.stdout)
    return found


if __name__ == "__main__":
    main()
