"""The engines on the command line: which one runs, that both say the same, and what each mistake says."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys

import pyarrow.parquet as pq
import pytest

from olympia_cli.cli import engine as engines
from tests.cli.conftest import run_here
from tests.helpers.json_schema import check
from tests.helpers.metrics import measured
from tests.helpers.places import quiet_environment
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.shelf import Shelf, make_bucket_shelf, make_shelf

ON_SPARK = ("--engine", "spark", "--parallelism", "2")


@pytest.fixture(autouse=True)
def no_settings(monkeypatch, tmp_path):
    """Remove this machine's settings."""
    quiet_environment(monkeypatch)
    monkeypatch.setenv("OLYMPIA_CONFIG", str(tmp_path / "config.toml"))
    (tmp_path / "config.toml").write_text("")
    for name in ("OLYMPIA_CATALOG", "OLYMPIA_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> Shelf:
    return make_shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture
def files(shelf):
    """Run `table files` on the shelf."""
    return lambda *args: run_here("-c", shelf.uri, "table", "files", *args)


# Both engines


def test_both_engines_list_the_same(spark, files):
    here, there = files("--json"), files("--json", *ON_SPARK)
    assert there == here
    assert here.exit_code == 3
    check(here.json, "table-files")
    assert here.error["code"] == "PartlyDone"
    assert {row["name"] for row in here.json["files"]} == {"parted", "plain", "deleting", "wanting", "long", "again"}
    assert sorted(row["name"] for row in here.json["problems"]) == ["gone", "undefined", "wanting"]


def test_both_engines_list_the_same_schemas(spark, files):
    here = files("--schemas", "--json")
    check(here.json, "table-files-schemas")
    shown = {row["name"]: row for row in here.json["tables"]}
    assert [one["name"] for one in shown["parted"]["schema"]["fields"]] == ["id", "part"]
    assert shown["parted"]["partition_spec"]["fields"][0]["name"] == "part"
    # no manifest is read, so none is missed
    assert sorted(row["name"] for row in here.json["problems"]) == ["gone", "undefined"]
    assert files("--schemas", "--json", *ON_SPARK) == here


def test_one_table_is_all_that_is_read(spark, files):
    """Damage of other tables is not noticed."""
    for narrowed in (["ns.parted", "-o", "csv"], ["sound", "-o", "name"]):
        here = files(*narrowed).ok()
        assert files(*narrowed, *ON_SPARK) == here
        # with a heading
        assert len(here.lines) == (7 if narrowed[0] == "ns.parted" else 12)
    older = files("ns.parted", "--at", "v1", "--json", *ON_SPARK).ok()
    assert (older.json["version"], len(older.json["files"])) == (1, 1)
    for missing in ("nowhere", "ns.nothing"):
        assert files(missing, *ON_SPARK) == files(missing).failed(10, missing)


def test_both_engines_write_the_same_parquet(spark, files, tmp_path):
    here, there = tmp_path / "here", tmp_path / "there"
    done = files("--to", str(here), "--json")
    assert done.exit_code == 3
    written = files("--to", str(there), "--json", *ON_SPARK)
    assert written.exit_code == 3
    assert {**measured(written.json), "location": None} == {**done.json, "location": None}
    local, sparks = pq.read_table(here), pq.read_table(there)
    assert local.num_rows == done.json["rows"] == len(files("--json").json["files"])
    assert sparks.column_names == local.column_names
    order = [("namespace", "ascending"), ("name", "ascending"), ("location", "ascending")]
    assert sparks.sort_by(order).to_pylist() == local.sort_by(order).to_pylist()
    for again in ((), ON_SPARK):
        files("sound", "--to", str(here), *again).failed(11, "already exists and is not an empty folder")


def test_a_table_of_sparks(spark, files, tmp_path):
    name = "inventory_of_files"
    spark.sql(f"drop table if exists {name}")
    try:
        files("sound", "--save-as", name, *ON_SPARK).ok()
        assert spark.table(name).count() == 12
        files("sound", "--save-as", name, *ON_SPARK).failed(11, f"Spark has a table {name} already")
    finally:
        spark.sql(f"drop table if exists {name}")


def test_only_changeable_settings_of_a_running_session_are_changed(spark, files):
    """Settings that can be changed are changed for the command.

    For the others, the error names the place to set them.
    """
    name = "spark.sql.shuffle.partitions"
    files("sound", "-o", "name", *ON_SPARK, "--conf", f"{name}=3").ok()
    assert spark.conf.get(name) == "2"
    refused = files("sound", *ON_SPARK, "--conf", "spark.executor.memory=1g")
    refused.failed(2, "'spark.executor.memory' cannot be set in a session that is running")
    for text in ("spark.executor.memory", "executor.memory=hunter2", "=hunter2", "spark.=hunter2"):
        nonsense = files("sound", *ON_SPARK, "--conf", text)
        nonsense.failed(2, "is not a setting", "write, for example, spark.executor.memory=4g")
        assert "hunter2" not in nonsense.stderr
    files("sound", *ON_SPARK, "--conf", "spark.master=local").failed(2, "use --master")
    files("sound", "--engine", "local", "--conf", "spark.x=1").failed(2, "--conf needs Spark")


def test_tables_in_a_bucket(spark, tmp_path):
    """The profile's options reach the executors."""
    with StrictS3() as server:
        locations, profile = make_bucket_shelf(server)
        (tmp_path / "config.toml").write_text(profile)
        words = ("--profile", "lake", "table", "files", "--json")
        here = run_here(*words).ok()
        assert run_here(*words, *ON_SPARK) == here
        assert sorted(row["location"] for row in here.json["files"]) == locations


# Which engine


def test_a_small_catalog_stays_here(files):
    done = files("sound", "-o", "name", "--verbose").ok()
    assert "engine: local: about" in done.stderr
    assert "Spark is for more than 3,000,000" in done.stderr
    assert files("sound", "-o", "name").ok().stderr == ""


def test_a_large_catalog_runs_on_spark_when_available(spark, files, monkeypatch, tmp_path):
    monkeypatch.setattr(engines, "AUTO_OBJECTS", 3)
    wanted = files("sound", "-o", "name", "--engine", "local").ok()
    done = files("sound", "-o", "name", "--parallelism", "2").ok()
    assert done.stdout == wanted.stdout
    assert "this runs on Spark: about" in done.stderr
    assert files("sound", "-o", "name", "--parallelism", "2", "--quiet").ok().stderr == ""
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    done = files("sound", "-o", "name", "--verbose").ok()
    assert done.stdout == wanted.stdout
    assert "engine: local: about" in done.stderr
    assert "but Spark needs Java" in done.stderr


def test_a_damaged_catalog_is_looked_at_here(shelf, tmp_path):
    shutil.copytree(shelf.uri, tmp_path / "broken")
    (tmp_path / "broken" / shelf.catalog.snapshot().file.path).write_bytes(b"nothing")
    done = run_here("-c", tmp_path / "broken", "table", "files", "--verbose")
    done.failed(40)
    assert "engine: local: the size of the catalog is unknown" in done.stderr


# Mistakes


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (["--engine", "local", "--master", "local[2]"], ["--master needs Spark"]),
        (["--engine", "local", "--remote", "sc://x"], ["--remote needs Spark"]),
        (["--engine", "local", "--parallelism", "2"], ["--parallelism needs Spark"]),
        (["--engine", "local", "--save-as", "x"], ["--save-as needs Spark"]),
        (["--save-as", "x"], ["--save-as needs Spark", "--engine spark"]),
        (["--master", "local[2]", "--remote", "sc://x"], ["do not go together"]),
        (["--to", "x", "--save-as", "y"], ["do not go together"]),
        (["--to", " "], ["--to is empty"]),
        (["--engine", "spark", "--parallelism", "0"], ["--parallelism"]),
        (["--engine", "spar"], ["--engine"]),
        (["--master", "mesos://x"], ["'mesos://x' is not a Spark master", "local[*], spark://host:port"]),
        (["--master", "spark://host:port"], ["not a Spark master"]),
        (["--master", "k8s://https://host:port"], ["not a host and a port"]),
        (["--remote", "http://x"], ["not a Spark Connect server", "use sc://host:port"]),
        (["--engine", "local", "--to", "s3://lake/x"], ["not a folder of this machine"]),
    ],
    ids=lambda value: " ".join(value) if value and value[0].startswith("--") else "",
)
def test_options_that_make_no_sense(files, args, words):
    files(*args).failed(2, *words)


def test_catalogs_that_cannot_be_sent(tmp_path):
    run_here("init", "memory://shared").ok()
    run_here("-c", "memory://shared", "table", "files", "--engine", "spark").failed(2, "use a folder or a bucket")
    (tmp_path / "config.toml").write_text(
        '[lake]\ncatalog = "s3://lake"\n[lake.storage.client_kwargs]\nverify = false\n'
    )
    done = run_here("--profile", "lake", "table", "files", "--engine", "spark")
    done.failed(2, "the storage option client_kwargs", "--engine local")


def test_missing_spark_java_or_pyspark_is_reported_with_advice(files, monkeypatch, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    unreachable = f"127.0.0.1:{port}"
    files("--master", f"spark://{unreachable}").failed(30, f"Spark does not answer at {unreachable}", "is running")
    files("--remote", f"sc://{unreachable}").failed(30, f"Spark does not answer at {unreachable}", "is running")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    files("--master", "local[2]").failed(2, "Spark needs Java", "install Java 17 or 21")
    monkeypatch.setitem(sys.modules, "pyspark", None)
    files("--engine", "spark").failed(2, "PySpark is not installed", "install olympia-cli[spark]")


def test_executors_without_a_package(spark, files, tmp_path, monkeypatch):
    """A Python that has nothing installed."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    monkeypatch.setattr(spark.sparkContext, "pythonExec", str(tmp_path / "bare" / "bin" / "python"))
    done = files("sound", *ON_SPARK)
    done.failed(2, "Spark's Python workers lack the package", "install")
    assert len(done.stderr.splitlines()) == 1
    monkeypatch.undo()
    # the source that is registered holds the Python that registered it
    assert files("sound", "-o", "name", "--engine", "spark", "--parallelism", "1").ok().lines
