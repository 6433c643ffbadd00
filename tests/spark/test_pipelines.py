"""The audit log, and the inventory of data files."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.snapshot import expired_before
from olympia_cli.errors import PathTaken, VersionNotFound
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.manifests import data_files as local_data_files
from olympia_cli.names import AtExport, TableName
from olympia_cli.ops.expire import ExpirePlanner, mark
from olympia_cli.ops.inspect import describe_action, log
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pipelines.inventory import audit_log, data_files
from olympia_cli.spark.pipelines.place import CatalogPlace
from tests.helpers.dead_files import FLOORS, make_worn_catalog, policy_of
from tests.helpers.shelf import APPENDS, Shelf, make_shelf


def place_of(catalog: Catalog) -> CatalogPlace:
    return CatalogPlace.at(catalog.store.uri)


# The audit log


def test_the_audit_log_has_every_action_in_order(spark, sample, tmp_path):
    expected = [
        (entry.version, at, describe_action(action)["type"])
        for entry in sorted(log(sample.snapshot(), 0), key=lambda entry: entry.version)
        for at, action in enumerate(entry.changes)
    ]
    frame = audit_log(spark, place_of(sample), partitions=3)
    assert [(row.version, row.position, row.type) for row in frame.collect()] == expected
    where = str(tmp_path / "log")
    written = audit_log(spark, place_of(sample), since="3", reference="7", partitions=2, parquet=where)
    assert written.schema == frame.schema
    rows = sorted((row.version, row.position, row.type) for row in written.collect())
    assert rows == [row for row in expected if 3 <= row[0] <= 7]
    assert list(Path(where).glob("*.parquet"))
    with pytest.raises(PathTaken, match="already exists and is not an empty folder"):
        audit_log(spark, place_of(sample), parquet=where)


def test_the_audit_log_of_a_missing_version_fails(spark, sample):
    with pytest.raises(VersionNotFound), explained():
        audit_log(spark, place_of(sample), reference="1234")


# The inventory


@pytest.fixture(scope="module")
def shelf(tmp_path_factory) -> Shelf:
    return make_shelf(tmp_path_factory.mktemp("shelf"))


def test_the_files_of_all_tables_with_statistics(spark, shelf):
    catalog, locations = shelf.catalog, shelf.locations
    inventory = data_files(spark, place_of(catalog), partitions=2)
    inventory.rows.persist()
    try:
        files, tables = inventory.files.collect(), inventory.tables.collect()
    finally:
        inventory.rows.unpersist()
    assert inventory.version == 2
    for name in ("parted", "plain", "empty", "deleting"):
        with closing(TableFiles()) as store:
            expected = list(local_data_files(store, locations[name]))
        rows = {row.location: row for row in files if row.name == name}
        assert len(rows) == len(expected)
        for file in expected:
            row = rows[file.location]
            assert (row.content, row.format, row.records, row.bytes, row.spec_id) == (
                file.content.value,
                file.format,
                file.records,
                file.size,
                file.spec_id,
            )
            assert row.partition == {key: str(value) for key, value in file.partition.items()}
            assert row.equality_ids == list(file.equality_ids)
            assert {
                one.id: (one.size, one["values"], one.nulls, one.nans, one.lower, one.upper) for one in row.columns
            } == {
                id: (one.size, one.values, one.nulls, one.nans, one.lower, one.upper)
                for id, one in file.columns.items()
            }
    parted = [row for row in files if row.name == "parted" and row.namespace == "ns"]
    assert sorted(row.partition["part"] for row in parted) == ["0", "0", "1", "1", "2", "2"]
    assert {(one.name, one.type) for row in parted for one in row.columns} == {("id", "long"), ("part", "long")}
    assert sorted(row.content for row in files if row.name == "deleting") == [
        "data",
        "equality-deletes",
        "position-deletes",
    ]
    shown = {row.name: row for row in tables}
    assert set(shown) == {"parted", "plain", "empty", "deleting", "wanting", "long", "again"}
    assert [one["name"] for one in json.loads(shown["parted"].schema)["fields"]] == ["id", "part"]
    assert json.loads(shown["parted"].partition_spec)["fields"][0]["name"] == "part"
    assert (shown["plain"].format_version, shown["empty"].snapshot_id) == (1, None)
    assert shown["parted"].id == catalog.snapshot().table(TableName("ns", "parted")).id


def test_an_unreadable_table_is_reported_and_stops_no_others(spark, shelf):
    locations = shelf.locations
    problems = {row.name: row for row in data_files(spark, place_of(shelf.catalog), partitions=1).problems.collect()}
    assert {name: row.error for name, row in problems.items()} == {
        "gone": "PathMissing",
        "undefined": "Damaged",
        "wanting": "PathMissing",
    }
    assert "there is no metadata at" in problems["gone"].reason
    assert "there is no manifest at" in problems["wanting"].reason
    assert problems["wanting"].metadata_location == locations["wanting"]


def test_the_manifests_of_one_table_are_shared_out(spark, shelf):
    from pyspark.sql.functions import spark_partition_id

    parts = 3
    inventory = data_files(spark, place_of(shelf.catalog), within=TableName("sound", "long"), partitions=parts)
    files = inventory.rows.where("row = 'file'").groupBy(spark_partition_id().alias("part")).count().collect()
    assert sum(row["count"] for row in files) == APPENDS
    # the table's own row takes the place of a manifest in one of them
    share = APPENDS // parts
    assert len(files) == parts
    assert all(share - 1 <= row["count"] <= share + 1 for row in files)


def test_an_older_version_and_no_statistics(spark, shelf):
    inventory = data_files(spark, place_of(shelf.catalog), "1", statistics=False, partitions=1)
    rows = inventory.files.collect()
    assert inventory.version == 1
    assert [(row.name, row.content, row.partition, row.columns) for row in rows] == [("parted", "data", None, None)]
    assert inventory.problems.count() == 0


def test_an_expired_version_that_an_export_keeps(spark, tmp_path):
    catalog = make_worn_catalog(tmp_path)
    names = sorted(name.name for name in catalog.snapshot(AtExport("shared")).tables())
    assert mark(catalog, ExpirePlanner(catalog, FLOORS).expire(policy_of(catalog)).mark) is not None
    inventory = data_files(spark, place_of(catalog), "shared", partitions=1)
    assert inventory.version < expired_before(catalog.snapshot().definition)
    # the metadata of all of them is missing
    assert sorted(row.name for row in inventory.problems.collect()) == names
