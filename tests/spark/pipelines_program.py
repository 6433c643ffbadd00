"""Runs each pipeline in a process of its own, since a process has one Spark; prints what they find as JSON."""

from __future__ import annotations

import json
import pickle
import sys


def main() -> None:
    from olympia_cli.errors import PathTaken
    from olympia_cli.spark.pipelines.audit import audit_log
    from olympia_cli.spark.pipelines.inventory import data_files
    from olympia_cli.spark.pipelines.place import CatalogPlace
    from olympia_cli.spark.pipelines.sweep import dead_files
    from olympia_cli.spark.session import spark_session

    task = json.loads(sys.argv[1])
    place = CatalogPlace.at(task["catalog"])
    with open(task["sweep"], "rb") as file:
        sweep = pickle.load(file)
    with spark_session(**task["session"], wait=300) as spark:
        with dead_files(spark, place, sweep, partitions=2) as swept:
            dead = sorted([row.path, row.bytes, row.kind] for row in swept.dead.collect())
        log = audit_log(spark, place, parquet=task["log"])
        actions = sorted([row.version, row.position] for row in log.collect())
        try:
            audit_log(spark, place, parquet=task["log"])
            taken = False
        except PathTaken:
            taken = True
        problems = sorted(row.name for row in data_files(spark, place, partitions=2).problems.collect())
    print(json.dumps({"dead": dead, "actions": actions, "taken": taken, "problems": problems}))


if __name__ == "__main__":
    main()
