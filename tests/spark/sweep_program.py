"""Looks for dead files on a cluster in a process of its own, since a process has one Spark. It says each phase on
stdout and waits for a line on stdin before it begins it; then it says when tasks of it are running."""

from __future__ import annotations

import json
import pickle
import sys
import threading
import time


class Told:
    """Progress that somebody else decides."""

    def __init__(self, spark) -> None:
        self._tracker = spark.sparkContext.statusTracker()

    def phase(self, what: str, total: int | None = None) -> None:
        print(json.dumps({"phase": what}), flush=True)
        if sys.stdin.readline().strip() == "watch":
            threading.Thread(target=self._watch, daemon=True).start()

    def _watch(self) -> None:
        # as many tasks as there are executors, each of which has one core: so each has a task
        while sum(self._tracker.getStageInfo(stage).numActiveTasks for stage in self._stages()) < 2:
            time.sleep(0.05)
        print(json.dumps({"running": True}), flush=True)

    def _stages(self) -> list[int]:
        return [stage for stage in self._tracker.getActiveStageIds() if self._tracker.getStageInfo(stage) is not None]

    def advance(self, count: int = 1) -> None:
        pass


def main() -> None:
    from olympia_cli.spark.pipelines.place import CatalogPlace
    from olympia_cli.spark.pipelines.sweep import dead_files
    from olympia_cli.spark.session import spark_session

    task = json.loads(sys.argv[1])
    with open(task["sweep"], "rb") as file:
        sweep = pickle.load(file)
    with spark_session(**task["session"], wait=300) as spark:
        place = CatalogPlace.at(task["catalog"])
        with dead_files(spark, place, sweep, partitions=4, progress=Told(spark)) as swept:
            dead = sorted([row.path, row.bytes, row.kind] for row in swept.dead.collect())
        # the driver is among them
        executors = spark.sparkContext._jsc.sc().getExecutorMemoryStatus().size() - 1
        print(json.dumps({"dead": dead, "executors": executors}), flush=True)


if __name__ == "__main__":
    main()
