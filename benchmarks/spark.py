"""What fsck and expire cost on Spark with its defaults, beside the local engine and beside Spark that does nothing.

    python benchmarks/spark.py [--tables 3000,30000,200000,1000000] [--operations fsck,expire] [--folder FOLDER]
                               [--only time,memory]

Catalogs are those of maintenance.py: each table has a definition of its own, and there is a version for each hundred
tables. Every run is a process of its own, and is measured from its start to its end.

- time: Spark as `local[2]`, as ratios to a program that starts Spark, counts `range(1)` and stops, and to the local
  engine; with the number of jobs and tasks, and how long the tasks took.
- memory: on a cluster of two workers on this machine, so that the driver's Java holds nothing but what is the driver's.
  `held` is its heap after all that is garbage was thrown away.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.maintenance import build
from olympia_cli.catalog.catalog import Catalog
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


def run(line: list[str]) -> Any:
    """What the program finds."""
    from typer.testing import CliRunner

    from olympia_cli.cli.app import app

    done = CliRunner().invoke(app, line)
    if done.exit_code:
        raise SystemExit(f"{line} ended with {done.exit_code}: {done.stderr}")
    return json.loads(done.stdout)


def measure(name: str, folder: Path, master: str | None, settings: dict[str, str]) -> Any:
    """One run, in this process: `start` is Spark that does nothing."""
    if master is None:
        return {"found": _gist(run([*command(name, folder), "--engine", "local"])), "python_mib": _peak()}
    from olympia_cli.spark.session import spark_session

    with spark_session(master=master, settings=settings, wait=300) as spark:
        if name == "start":
            return {"found": spark.range(1).count()}
        found = run([*command(name, folder), "--engine", "spark"])
        java = spark._jvm.java.lang
        java.System.gc()
        heap = java.management.ManagementFactory.getMemoryMXBean().getHeapMemoryUsage()
        return {
            "found": _gist(found),
            "python_mib": _peak(),
            "java_mib": _peak(java.ProcessHandle.current().pid()),
            "java_held_mib": heap.getUsed() >> 20,
        }


def _peak(pid: int | str = "self") -> int:
    """The most memory that a process had."""
    if pid == "self":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) // 1024


def _gist(found: dict[str, Any]) -> Any:
    """What both engines must agree on, in short."""
    return {name: found[name] for name in ("checked", "damaged", "files", "bytes") if name in found}


def logged(folder: Path) -> dict[str, Any]:
    """The jobs and tasks of Spark's event log."""
    jobs, tasks = 0, []
    for path in (path for path in folder.rglob("*") if path.is_file()):
        for line in path.read_text(errors="replace").splitlines():
            event = json.loads(line) if line.startswith("{") else {}
            jobs += event.get("Event") == "SparkListenerJobStart"
            if event.get("Event") == "SparkListenerTaskEnd":
                info = event["Task Info"]
                tasks.append(info["Finish Time"] - info["Launch Time"])
    return {"jobs": jobs, "tasks": len(tasks), "median_ms": statistics.median(tasks) if tasks else None}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", default="3000,30000,200000,1000000")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", default="time,memory")
    parser.add_argument("--operations", default="fsck,expire")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        task = json.loads(asked.run)
        print(json.dumps(measure(task.pop("name"), Path(task.pop("folder")), **task)))
        return
    with tempfile.TemporaryDirectory() as made:
        for size in (int(one) for one in asked.tables.split(",")):
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


def show_times(operation: str, folder: Path, size: int) -> None:
    # once before, so that neither finds a colder disk than the other
    for _ in range(2):
        here = apart(operation, folder, master=None, settings={})
    start = apart("start", folder, master=MASTER, settings={})
    with tempfile.TemporaryDirectory() as log:
        events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": log, "spark.eventLog.compress": "false"}
        there = apart(operation, folder, master=MASTER, settings=events)
        there |= logged(Path(log))
    assert here.pop("found") == there.pop("found"), "both engines find the same"
    ratios = {
        "to_start": round(there["seconds"] / start["seconds"], 2),
        "to_local": round(there["seconds"] / here["seconds"], 2),
    }
    shown = {"time": operation, "tables": size, **ratios, "start": start["seconds"], "local": here, "spark": there}
    print(json.dumps(shown), flush=True)


def show_memory(operation: str, folder: Path, size: int) -> None:
    from tests.helpers.spark_cluster import spark_cluster

    with tempfile.TemporaryDirectory() as place, spark_cluster(Path(place), memory="2g") as cluster:
        there = apart(operation, folder, master=cluster.url, settings=TIGHT)
    del there["found"]
    print(json.dumps({"memory": operation, "tables": size, **there}), flush=True)


def apart(name: str, folder: Path, **task: Any) -> dict[str, Any]:
    """A run in a process of its own, and how long it took."""
    given = json.dumps({"name": name, "folder": str(folder), **task})
    began = time.perf_counter()
    done = subprocess.run([sys.executable, __file__, "--run", given], capture_output=True, text=True)
    seconds = time.perf_counter() - began
    if done.returncode:
        raise SystemExit(done.stderr[-4000:])
    return {"seconds": round(seconds, 1), **json.loads(done.stdout)}


if __name__ == "__main__":
    main()
