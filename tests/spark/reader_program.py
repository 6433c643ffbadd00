"""Reads a catalog through Spark in a process of its own, since a process has one Spark; prints its findings as JSON."""

from __future__ import annotations

import json
import sys


def where(batches):
    """Which executor ran this, and where it has the package from. Its Python workers have one parent."""
    import os

    import olympia_cli

    for batch in batches:
        yield type(batch).from_pydict(
            {"executor": [os.getppid()], "file": [olympia_cli.__file__], "rows": [len(batch)]}
        )


def main() -> None:
    from olympia_cli.spark.session import spark_session

    task = json.loads(sys.argv[1])
    with spark_session(**task["session"], wait=300) as spark:
        reader = spark.read.format("olympia").option("catalog", task["catalog"]).option("partitions", "4")
        frame = reader.load("objects")
        names = [[row.type, row.namespace, row.name, row.id] for row in frame.where("namespace = 'ns2'").collect()]
        parts = frame.mapInArrow(where, "executor long, file string, rows long").collect()
        found = {
            "names": sorted(names),
            "rows": sum(row.rows for row in parts),
            "executors": len({row.executor for row in parts}),
            "files": sorted({row.file for row in parts}),
        }
    print(json.dumps(found))


if __name__ == "__main__":
    main()
