"""An engine that is a library, in its own environment: `python worker.py CLASS SETTINGS`.

Each line on stdin is a call as JSON, {"do": method, …}. Each line on stdout is its answer: {"rows": …} or {"error": …}.
The first line holds the names of the methods.
"""

from __future__ import annotations

import json
import os
import sys
from importlib import import_module
from inspect import signature
from pathlib import Path


class Spark:
    def __init__(self, settings):
        from pyspark.sql import SparkSession

        self.session = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
        self.session.sparkContext.setLogLevel("OFF")

    def run(self, text):
        return [list(row) for row in self.session.sql(text).collect()]


class DuckDB:
    def __init__(self, settings):
        import duckdb

        self.connection = duckdb.connect(config={"allow_unsigned_extensions": "true"} | settings)
        for name in ("avro", "httpfs", "iceberg"):
            package = Path(import_module(f"duckdb_extension_{name}").__file__).parent
            [extension] = package.rglob("*.duckdb_extension")
            self.connection.execute(f"load '{extension}'")

    def run(self, text):
        return self.connection.execute(text).fetchall()


class PyIceberg:
    """The steps of the scenario. `c` is the name of a catalog, `ns` of a namespace and `t` of a table in it."""

    def __init__(self, settings):
        self.catalogs = {}

    def connect(self, c, code):
        names = {}
        exec(code, names)
        [self.catalogs[c]] = (value for value in names.values() if hasattr(value, "load_table"))

    def table(self, c, ns, t):
        return self.catalogs[c].load_table((ns, t))

    def arrow(self, rows):
        import pyarrow

        names = ("id", "name", "n")[: len(rows[0])]
        columns = dict(zip(names, map(list, zip(*rows, strict=True)), strict=True))
        types = {"id": pyarrow.int64(), "name": pyarrow.string(), "n": pyarrow.int32()}
        return pyarrow.table({name: pyarrow.array(values, types[name]) for name, values in columns.items()})

    def namespaces(self, c):
        return self.catalogs[c].list_namespaces()

    def tables(self, c, ns):
        return self.catalogs[c].list_tables(ns)

    def create(self, c, ns):
        self.catalogs[c].create_namespace(ns)
        self.catalogs[c].create_table((ns, "t"), self.arrow([(1, "a")]).schema)

    def append(self, c, ns, t, rows):
        self.table(c, ns, t).append(self.arrow(rows))

    def read(self, c, ns, t):
        return self.table(c, ns, t).scan(selected_fields=("id", "name")).to_arrow().to_pylist()

    def update(self, c, ns, t):
        self.table(c, ns, t).overwrite(self.arrow([(1, "x")]), "id = 1")

    def delete(self, c, ns, t):
        self.table(c, ns, t).delete("id = 2")

    def merge(self, c, ns, t):
        self.table(c, ns, t).upsert(self.arrow([(3, "m"), (4, "n")]), join_cols=["id"])

    def alter(self, c, ns, t):
        from pyiceberg.types import IntegerType

        with self.table(c, ns, t).update_schema() as change:
            change.add_column("n", IntegerType())

    def upkeep(self, c, ns, t):
        table = self.table(c, ns, t)
        table.maintenance.expire_snapshots().by_ids([table.history()[0].snapshot_id]).commit()

    def drop(self, c, ns):
        self.catalogs[c].drop_table((ns, "t"))
        self.catalogs[c].drop_namespace(ns)


class Polars(PyIceberg):
    merge = upkeep = update = None

    def frame(self, rows):
        import polars

        return polars.from_arrow(self.arrow(rows))

    def guide(self, c, code):
        exec(code, {"catalog": self.catalogs[c]})

    def append(self, c, ns, t, rows):
        self.frame(rows).write_iceberg(self.table(c, ns, t), mode="append")

    def read(self, c, ns, t):
        import polars

        return polars.scan_iceberg(self.table(c, ns, t)).select("id", "name").collect().to_dicts()

    def delete(self, c, ns, t):
        import polars

        polars.delete_iceberg(self.table(c, ns, t), polars.col("id") == 2)


class Daft(PyIceberg):
    merge = upkeep = delete = None
    guide = Polars.guide

    def frame(self, rows):
        import daft

        return daft.from_arrow(self.arrow(rows))

    def append(self, c, ns, t, rows):
        self.frame(rows).write_iceberg(self.table(c, ns, t), mode="append")

    def read(self, c, ns, t):
        import daft

        return daft.read_iceberg(self.table(c, ns, t)).select("id", "name").to_pylist()

    def update(self, c, ns, t):
        change = self.frame([(1, "x")])
        change.write_iceberg(self.table(c, ns, t), mode="overwrite", overwrite_filter="id = 1")


def answer(engine, call):
    try:
        method = getattr(engine, call["do"])
        rows = method(**{name: call[name] for name in signature(method).parameters}) or []
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:2000]}
    return {"rows": [list(row.values()) if isinstance(row, dict) else row for row in rows]}


def main():
    # an engine may print: its words go to stderr
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    engine = globals()[sys.argv[1]](json.loads(sys.argv[2]))
    print(json.dumps([name for name in dir(engine) if getattr(engine, name)]), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(engine, json.loads(line)), default=str), file=answers, flush=True)


main()
