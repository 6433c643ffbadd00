"""Runs everything that this package does on Spark, in a process of its own, because a process has one Spark.

It prints a line of JSON for each result. In some phases it prints their beginning, waits for a line on stdin, and
prints when tasks are running.
"""

from __future__ import annotations

import io
import json
import sys
import threading
import time
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path


def main() -> None:
    from olympia_cli.spark import engine
    from olympia_cli.spark.session import spark_session

    task = json.loads(sys.argv[1])
    # what there is is little, and executors are to do it
    engine.ALONE = 0
    with spark_session(**task["session"], wait=300) as spark:
        say("read", read(spark, task["catalog"]))
        say("audit", audit(spark, task["catalog"], task["log"]))
        for line in task["commands"]:
            say("ran", command(line))
        for line in task.get("lost", ()):
            say("lost", heard(spark, line))
        if task.get("later"):
            say("dead", dead(spark, task["catalog"]))
            say("executors", executors(spark))
            say("later", heard(spark, task["later"]))
        for line in task.get("unseen", ()):
            say("unseen", command(line))


def say(what: str, found: object) -> None:
    # also while a command is heard, whose own output is not
    print(json.dumps({what: found}), file=sys.__stdout__, flush=True)


def read(spark, catalog: str) -> dict:
    """The data source, and where its work was done."""
    frame = spark.read.format("olympia").option("catalog", catalog).option("partitions", "4").load("objects")
    parts = frame.mapInArrow(where, "executor long, file string, names array<string>").collect()
    return {
        "names": sorted(name for row in parts for name in row.names),
        "executors": len({row.executor for row in parts}),
        "files": sorted({row.file for row in parts}),
    }


def where(batches):
    """Return the executor that ran this, and the location of its package. Its Python workers have one parent."""
    import os

    import olympia_cli

    for batch in batches:
        rows = batch.select(["type", "namespace", "name"]).to_pylist()
        names = [" ".join(row.values()) for row in rows]
        yield type(batch).from_pydict({"executor": [os.getppid()], "file": [olympia_cli.__file__], "names": [names]})


def audit(spark, catalog: str, parquet: str) -> dict:
    """The audit log, written once and refused the second time."""
    from olympia_cli.errors import PathTaken
    from olympia_cli.spark.pipelines.inventory import audit_log
    from olympia_cli.spark.pipelines.place import CatalogPlace

    log = audit_log(spark, CatalogPlace.at(catalog), parquet=parquet)
    actions = sorted([row.version, row.position] for row in log.collect())
    try:
        audit_log(spark, CatalogPlace.at(catalog), parquet=parquet)
    except PathTaken:
        return {"actions": actions, "taken": True}
    return {"actions": actions, "taken": False}


def command(line: list[str]) -> dict:
    """The program itself, which takes the session that is active."""
    from typer.testing import CliRunner

    from olympia_cli.cli.app import app

    done = CliRunner().invoke(app, line)
    return {"exit_code": done.exit_code, "stdout": done.stdout, "stderr": done.stderr}


def heard(spark, line: list[str]) -> dict:
    """Run the command, and call a listener for each line on stderr before it continues."""
    from olympia_cli.cli.app import app

    out, err = io.StringIO(), Heard(Told(spark))
    with redirect_stdout(out), redirect_stderr(err):
        code = app([*line, "--verbose"], standalone_mode=False)
    return {"exit_code": code, "stdout": out.getvalue(), "stderr": err.getvalue()}


class Heard(io.StringIO):
    def __init__(self, told: Told) -> None:
        super().__init__()
        self._told = told

    def write(self, text: str) -> int:
        if text.startswith(("reading ", "copying")):
            self._told.phase(text)
        return super().write(text)


def executors(spark) -> int:
    # the driver is among them
    return int(spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size()) - 1


def dead(spark, catalog: str) -> list:
    sys.path.insert(0, str(Path(__file__).parents[2]))
    from olympia_cli.catalog.catalog import Catalog
    from olympia_cli.ops.expire import ExpirePlanner
    from olympia_cli.spark.engine import SparkEngine
    from olympia_cli.spark.pipelines.expire import spark_surveyor
    from olympia_cli.spark.pipelines.place import CatalogPlace
    from olympia_cli.storage.local import LocalStore
    from tests.helpers.dead_files import FLOORS, policy_of

    found = Catalog(LocalStore(catalog))
    with spark_surveyor(SparkEngine(spark, CatalogPlace.at(catalog), 4, alone=0)) as surveyor:
        plan = ExpirePlanner(found, FLOORS, surveyor, progress=Told(spark)).expire(policy_of(found))
        return sorted([file.path, file.bytes, file.kind] for file in plan.mark.files)


class Told:
    """Progress that a caller controls."""

    def __init__(self, spark) -> None:
        self._spark = spark
        self._tracker = spark.sparkContext.statusTracker()

    def phase(self, what: str, total: int | None = None) -> None:
        say("phase", what)
        answer = sys.stdin.readline().strip()
        if answer == "watch":
            threading.Thread(target=self._watch, daemon=True).start()
        while answer == "await" and executors(self._spark) < 2:
            time.sleep(0.05)

    def _watch(self) -> None:
        # as many tasks as there are executors, each of which has one core: so each had a task
        while not any(map(self._is_shared_out, self._tracker.getActiveStageIds())):
            time.sleep(0.05)
        say("running", True)

    def _is_shared_out(self, number: int) -> bool:
        stage = self._tracker.getStageInfo(number)
        return stage is not None and stage.numActiveTasks > max(0, 1 - stage.numCompletedTasks)

    def advance(self, count: int = 1) -> None:
        pass


if __name__ == "__main__":
    main()
