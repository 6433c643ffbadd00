"""The footers of Parquet files, read by tasks: what comes of them is what this process finds, and who sees other files
is told."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest
from pyiceberg.io import PY_IO_IMPL

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import ExecutorUnprepared
from olympia_cli.format.node import Sizes
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.importers.footers import LocalFooters, open_io
from olympia_cli.importers.objects import Renaming
from olympia_cli.importers.parquet import find_folders
from olympia_cli.importers.parquet_tables import ParquetImport
from olympia_cli.importers.result import ImportResult
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.pipelines.imports import SparkFooters
from olympia_cli.spark.pipelines.place import CatalogPlace
from olympia_cli.storage.local import LocalStore
from tests.cli.conftest import run_here
from tests.helpers.adopting import write_parquet
from tests.helpers.metrics import measured


@pytest.fixture
def raw(tmp_path):
    folder = tmp_path / "raw"
    for number in range(5):
        write_parquet(folder / "t" / f"day={number}" / "p.parquet", v=pa.array([number], pa.int32()), w=["x"])
    write_parquet(folder / "t" / "day=5" / "p.parquet", v=pa.array([2**40]))
    write_parquet(folder / "t" / "day=6" / "p.parquet", v=["text"])
    (folder / "t" / "day=7").mkdir()
    (folder / "t" / "day=7" / "p.parquet").write_bytes(b"PAR1 junk PAR1")
    write_parquet(folder / "u" / "p.parquet", v=[1])
    return folder


def found_below(raw):
    folders, left_out = find_folders(LocalStore(str(raw)).list())
    assert left_out == []
    return folders


def engine_for(spark, raw):
    return SparkEngine(spark, CatalogPlace.at(str(raw)), 3, alone=0)


def read_by_tasks(engine):
    return sum(step.files for step in engine.run.steps)


def told(footers):
    return [one if isinstance(one, str) else (one.file, one.schema, one.metadata.to_dict()) for one in footers]


def test_footers_read_by_tasks_equal_those_read_locally(spark, raw):
    folders, base = found_below(raw), f"file://{raw}"
    files = [file for folder in folders for file in folder.files]
    local = LocalFooters(base, open_io(base, {}))
    expected = told(local.read(files))
    assert sum(isinstance(one, str) for one in expected) == 1
    engine = engine_for(spark, raw)
    assert told(SparkFooters(engine, base, {}).read(files)) == expected
    assert read_by_tasks(engine) == len(files) - 1
    # several jobs, whose files do not come out even
    assert told(SparkFooters(engine_for(spark, raw), base, {}, at_once=4).read(files)) == expected
    assert list(SparkFooters(engine_for(spark, raw), base, {}).read([])) == []
    # nothing was left at the source
    assert [path for path in raw.rglob("*") if path.is_file() and path.suffix != ".parquet"] == []


def test_both_engines_make_the_same_tables(spark, raw, tmp_path):
    base, results = f"file://{raw}", []
    for number, footers in enumerate(
        [LocalFooters(base, open_io(base, {})), SparkFooters(engine_for(spark, raw), base, {}, at_once=2)]
    ):
        catalog = OlympiaCatalog.of(Catalog.create(LocalStore(str(tmp_path / f"c{number}"))))
        done = ImportResult()
        importing = ParquetImport(base, footers, Renaming(Sizes(128, 100, 100, 100)), catalog)
        version = importing.run(found_below(raw), done, "", dry_run=False)
        scans = [catalog.load_table(f"raw.{name}").scan().to_arrow().sort_by("v").to_pydict() for name in "tu"]
        results.append((version, done, scans))
    assert results[0] == results[1]
    assert [one.files for one in results[0][1].created] == [6, 1]


def test_an_executor_that_does_not_see_the_files(spark, raw):
    properties = {PY_IO_IMPL: "tests.helpers.adopting.OneProcessIO", "pid": str(os.getpid())}
    files = [file for folder in found_below(raw) for file in folder.files]
    with pytest.raises(ExecutorUnprepared, match=r"does not see the same t/day=0/p\.parquet below "):
        list(SparkFooters(engine_for(spark, raw), f"file://{raw}", properties).read(files))


def test_the_command(spark, raw, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OLYMPIA_CONFIG", str(tmp_path / "none.toml"))
    (tmp_path / "none.toml").touch()
    Catalog.create(LocalStore(str(tmp_path / "c")))
    words = ("-c", tmp_path / "c", "import", "parquet", raw, "--dry-run", "--json", "--engine")
    local, on_spark = run_here(*words, "local"), run_here(*words, "spark")
    assert local.exit_code == on_spark.exit_code == 3
    assert measured(on_spark.json) == local.json
    assert len(local.json["tables"]) == 2
    assert run_here("import", "parquet", raw, "--inspect", "--json", "--engine", "spark").exit_code == 3
