"""Upserts and deletes of DeltaCAT merged and written by executors, and committed by the driver."""

from __future__ import annotations

import os
import shlex

import pyarrow as pa
import pytest
from pyiceberg.io import PY_IO_IMPL

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import ExecutorUnprepared
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.importers.deltacat.imports import DeltacatImport
from olympia_cli.importers.deltacat.index import FOREVER
from olympia_cli.importers.deltacat.source import DeltacatSource
from olympia_cli.importers.footers import SourceFolder
from olympia_cli.importers.objects import Renaming
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.pipelines.imports import SparkRewriter
from olympia_cli.spark.pipelines.place import CatalogPlace
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import run_here
from tests.helpers.check import check_catalog
from tests.helpers.deltacat_catalog import DeltacatWriter, numbered

SCHEMA = numbered(("day", pa.string()), ("id", pa.int64()), ("v", pa.string()), keys=["id"])
KEYS = [{"key": ["day"], "transform": {"name": "identity"}}]


@pytest.fixture
def source(tmp_path):
    """Two partitions with upserts and deletes, and one of plain files."""
    made = DeltacatWriter(tmp_path / "source")

    def rows(day, *values):
        return pa.table([[day] * len(values), [int(one[0]) for one in values], list(values)], schema=SCHEMA)

    with made.transaction() as txn:
        stream = txn.table(txn.namespace("n"), "t", SCHEMA, KEYS)
        for day in ("mo", "tu"):
            merged = txn.partition(stream, [day])
            txn.delta(merged, 1, rows(day, "1a", "2a", "3a"))
            txn.delta(merged, 2, rows(day, "1b", "4b"), type="upsert")
            txn.delta(merged, 3, rows(day, "2"), type="delete", entry_type="equality_delete")
        txn.delta(txn.partition(stream, ["we"]), 1, rows("we", "9a"))
    return made.folder


@pytest.fixture
def place(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OLYMPIA_CONFIG", str(tmp_path / "none.toml"))
    (tmp_path / "none.toml").touch()
    Catalog.create(LocalStore(str(tmp_path / "c")))
    return tmp_path / "c"


def held(place):
    table = OlympiaCatalog.of(Catalog(LocalStore(str(place)))).load_table("n.t")
    return sorted((row["day"], row["v"]) for row in table.scan().to_arrow().to_pylist()), table


def test_the_command_that_the_listing_names(spark, source, place):
    words = ("-c", place, "import", "deltacat", source, "--json")
    left = run_here(*words)
    assert (left.exit_code, held(place)[0]) == (3, [("we", "9a")])
    [table] = left.json["tables"]
    commands = {one["command"] for one in table["skipped"]}
    [command] = commands
    done = run_here(*shlex.split(command)[1:], "--json")
    assert done.exit_code == 0, done.stderr
    rows, table = held(place)
    assert rows == [(day, v) for day in ("mo", "tu") for v in ("1b", "3a", "4b")] + [("we", "9a")]
    # each partition is a file of its own, and nothing else is left in the folder
    assert [one["name"] for one in done.json["tables"]] == ["n.t"]
    assert (done.json["tables"][0]["files"], done.json["tables"][0]["rows"]) == (3, 7)
    assert sorted(task.file.partition[0] for task in table.scan().plan_files()) == ["mo", "tu", "we"]
    assert not [path for path in place.rglob("*") if path.name.startswith("tmp")]
    again = run_here(*words, "--rewrite")
    assert (again.exit_code, again.json["version"], again.json["tables"]) == (0, done.json["version"], [])
    check_catalog(LocalStore(str(place)))


def test_an_executor_that_does_not_see_the_source(spark, source, place):
    base, properties = f"file://{source}", {PY_IO_IMPL: "tests.helpers.adopting.OneProcessIO", "pid": str(os.getpid())}
    catalog = OlympiaCatalog.of(Catalog(LocalStore(str(place))))
    rewriter = SparkRewriter(SparkEngine(spark, CatalogPlace.at(str(place)), 2), base, properties, catalog.properties)
    renaming = Renaming(Catalog(LocalStore(str(place))).snapshot().sizes)
    found = DeltacatSource(LocalStore(str(source)))
    importing = DeltacatImport(found, SourceFolder(base), catalog, renaming, rewriter)
    with pytest.raises(ExecutorUnprepared, match=r"does not see the same data/.* below "):
        importing.run(FOREVER, "")
    assert Catalog(LocalStore(str(place))).snapshot().version == 0
