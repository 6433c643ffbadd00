"""`table files` in this process: what each output shows, where rows are written, and tables in a bucket."""

from __future__ import annotations

import csv
import io
import json

import pyarrow.parquet as pq
import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.storage.local import LocalStore
from tests.helpers.iceberg_tables import Lake, files_of
from tests.helpers.servers.s3 import StrictS3
from tests.helpers.shelf import Shelf, make_bucket_shelf, make_shelf


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> Shelf:
    return make_shelf(tmp_path_factory.mktemp("shelf"))


@pytest.fixture
def files(run, shelf):
    return lambda *args: run("-c", shelf.uri, "table", "files", *args)


def test_each_output(files):
    rows = files("sound", "--json").ok().json["files"]
    assert [json.loads(line) for line in files("sound", "-o", "jsonl").ok().lines] == rows
    assert files("sound", "-o", "name").ok().lines == [row["location"] for row in rows]
    shown = list(csv.DictReader(io.StringIO(files("sound", "-o", "csv").ok().stdout)))
    assert [(row["name"], row["records"], row["partition"]) for row in shown] == [
        (row["name"], str(row["records"]), json.dumps(row["partition"])) for row in rows
    ]
    lines = [line.split("\t") for line in files("sound").ok().lines]
    assert [(line[0], line[1], line[2], line[-1]) for line in lines] == [
        (row["namespace"], row["name"], row["content"], row["location"]) for row in rows
    ]
    assert files("sound", "--schemas", "-o", "name").ok().lines == ["sound.again", "sound.long"]


def test_each_unreadable_table_is_a_warning(files):
    done = files("ns")
    done.failed(3, "3 tables or parts of them could not be read", "fsck --level data")
    warnings = done.stderr.splitlines()[:-1]
    assert [line.split(":")[1].strip() for line in warnings] == [
        "table ns.gone",
        "table ns.undefined",
        "table ns.wanting",
    ]
    assert "ns\twanting\tdata" in done.stdout, "what could be read of it"
    assert files("ns", "--quiet").stderr == done.stderr
    # nothing of the rows is lost by it
    assert files("ns", "-o", "jsonl").stdout.count("\n") == done.stdout.count("\n")


def test_written_rows(files, tmp_path):
    rows = files("sound", "--json").ok().json["files"]
    said = files("sound", "--to", "inventory").ok()
    assert said.lines == ["v2  12 files written to inventory"]
    assert [path.name for path in (tmp_path / "inventory").iterdir()] == ["part-00000.parquet"]
    written = pq.read_table(tmp_path / "inventory")
    assert written.column("location").to_pylist() == [row["location"] for row in rows]
    assert files("sound", "--schemas", "--to", f"file://{tmp_path}/tables").ok().lines
    assert pq.read_table(tmp_path / "tables").column("name").to_pylist() == ["again", "long"]
    (tmp_path / "file").write_text("")
    files("sound", "--to", "file").failed(11, "file already exists")
    files("sound", "--to", "file/below").failed(30, "file/below cannot be written")


def test_a_table_of_the_first_format_names_its_manifests_itself(run, tmp_path):
    lake = Lake(f"file://{tmp_path}/lake")
    table = lake.table("old", appends=2, version=1)
    named = files_of(table)
    metadata = json.loads(lake.read(named.metadata))
    snapshots = [
        {**{key: value for key, value in one.items() if key != "manifest-list"}, "manifests": named.manifests}
        for one in metadata["snapshots"]
        if one["snapshot-id"] == metadata["current-snapshot-id"]
    ]
    catalog = Catalog.create(LocalStore(str(tmp_path / "catalog")))
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("ns"))
        transaction.create_table(TableName("ns", "old"), lake.edit(named.metadata, snapshots=snapshots))
    shown = run("-c", tmp_path / "catalog", "table", "files", "-o", "name").ok()
    assert sorted(shown.lines) == sorted(named.data)


def test_tables_in_a_bucket(run, config):
    """The profile's options are for the tables there, too."""
    with StrictS3() as server:
        locations, profile = make_bucket_shelf(server)
        config(profile)
        shown = run("--profile", "lake", "table", "files", "-o", "name").ok()
        assert sorted(shown.lines) == locations
