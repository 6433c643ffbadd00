"""The rows of Iceberg tables as a version of the catalog has them."""

from __future__ import annotations

import datetime
import decimal
import json
import shutil
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.memory import InMemoryCatalog

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import Damaged, InvalidOption, PathMissing, Refused, TableNotFound, Unsupported
from olympia_cli.iceberg.appends import write_rows
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.spark.failures import explained
from olympia_cli.spark.iceberg_rows import IcebergReader, IcebergTable, load, spark_schema
from olympia_cli.storage.local import LocalStore

NAME = TableName("sales", "orders")
ROWS = pa.table(
    {
        "id": pa.array([1, 2, 3], pa.int64()),
        "name": pa.array(["one", None, "three"]),
        "paid": pa.array([True, False, None]),
        "price": pa.array([decimal.Decimal("1.10"), None, decimal.Decimal("3.30")], pa.decimal128(9, 2)),
        "day": pa.array([datetime.date(2026, 11, 15)] * 3),
        "at": pa.array([datetime.datetime(2026, 11, 15, 12, tzinfo=datetime.UTC)] * 3, pa.timestamp("us", tz="UTC")),
        "local": pa.array([datetime.datetime(2026, 11, 15, 12)] * 3, pa.timestamp("us")),
        "tags": pa.array([["a", "b"], [], None], pa.list_(pa.string())),
        "place": pa.array([{"x": 1.5, "y": "n"}, None, {"x": None, "y": "s"}]),
        "more": pa.array([[("k", 1)], [], None], pa.map_(pa.string(), pa.int32())),
        "key": pa.array([uuid.UUID(int=1).bytes] * 3, pa.uuid()),
    }
)


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    """A catalog with a table, registered after each of two appends and after a deletion."""
    folder: Path = tmp_path_factory.mktemp("lake")
    iceberg = InMemoryCatalog("lake", warehouse=f"file://{folder}/warehouse")
    iceberg.create_namespace("sales")
    table = iceberg.create_table("sales.orders", ROWS.schema)
    catalog = Catalog.create(LocalStore(str(folder / "catalog")))
    table.append(ROWS)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("sales"))
        transaction.create_table(NAME, table.metadata_location)
        transaction.create_table(TableName("sales", "gone"), f"{folder}/nowhere.metadata.json")
        transaction.create_table(TableName("sales", "garbage"), f"{folder}/catalog/vn/latest")
    for change in (lambda: table.append(ROWS), lambda: table.delete("id = 2")):
        change()
        with catalog.transaction() as transaction:
            transaction.alter_table(NAME, metadata_location=table.metadata_location)
    return catalog


def test_rows_as_of_versions(read, lake):
    found = [read(None, lake, table="sales.orders", version=str(version)).collect() for version in (1, 2, 3)]
    assert [sorted(row.id for row in rows) for rows in found] == [[1, 2, 3], [1, 1, 2, 2, 3, 3], [1, 1, 3, 3]]
    latest = read(None, lake, table="sales.orders")
    assert sorted(row.id for row in latest.collect()) == [1, 1, 3, 3]
    first = {row.id: row for row in found[0]}
    assert first[1].asDict(recursive=True) == {
        "id": 1,
        "name": "one",
        "paid": True,
        "price": decimal.Decimal("1.10"),
        "day": datetime.date(2026, 11, 15),
        "at": datetime.datetime(2026, 11, 15, 12),
        "local": datetime.datetime(2026, 11, 15, 12),
        "tags": ["a", "b"],
        "place": {"x": 1.5, "y": "n"},
        "more": {"k": 1},
        "key": str(uuid.UUID(int=1)),
    }
    assert (first[2].name, first[2].price, first[3].paid, first[3].tags) == (None, None, None, None)


def test_columns_and_filters(read, lake):
    options = {"table": "sales.orders", "version": "2", "columns": "name string, id long"}
    frame = read(None, lake, **options, filter="id >= 3 and paid is null")
    assert [tuple(row) for row in frame.collect()] == [("three", 3)] * 2


def test_a_scan_task_is_a_partition_and_a_filter_leaves_files_out(lake):
    table = lake.snapshot().table(NAME).definition.iceberg_metadata_location
    reader = IcebergReader(IcebergTable("sales.orders", table), spark_schema(load(IcebergTable("x", table)).schema()))
    parts = reader.partitions()
    assert len(parts) == 2
    assert len({part.value.file.file_path for part in parts}) == 2
    assert [batch.num_rows for part in parts for batch in reader.read(part)] == [2, 2]
    narrow = IcebergReader(IcebergTable("sales.orders", table, filter="id = 17"), reader.columns)
    assert narrow.partitions() == []
    for nonsense in ("id =", "nothing = 3", "id = 'x'"):
        with pytest.raises(InvalidOption, match="the filter cannot be understood"):
            IcebergReader(IcebergTable("sales.orders", table, filter=nonsense), reader.columns).partitions()


@pytest.mark.parametrize(
    ("table", "error", "said"),
    [
        ("sales.nothing", TableNotFound, "there is no table sales.nothing in version 3"),
        ("sales.gone", PathMissing, "there is no metadata of sales.gone"),
        ("sales.garbage", Damaged, "it is not the metadata of an Iceberg table"),
    ],
)
def test_a_table_that_cannot_be_read(read, lake, table, error, said):
    with pytest.raises(error, match=said), explained():
        read(None, lake, table=table).collect()


def test_missing_columns_and_other_types_are_refused(read, lake):
    for columns, said in (("nonsense string", "has no column"), ("id string", "the column id is not a string")):
        with pytest.raises(InvalidOption, match=said), explained():
            read(None, lake, table="sales.orders", columns=columns).collect()


def test_a_type_that_spark_has_not(tmp_path):
    iceberg = InMemoryCatalog("times", warehouse=f"file://{tmp_path}")
    iceberg.create_namespace("n")
    table = iceberg.create_table("n.t", pa.schema([("id", pa.int32()), ("clock", pa.time64("us"))]))
    with pytest.raises(Unsupported, match="the column clock has the Iceberg type time"):
        spark_schema(load(IcebergTable("n.t", table.metadata_location)).schema())


def test_a_table_loads_no_code_and_chooses_no_endpoint(tmp_path, monkeypatch):
    """Neither where it is read nor where executors write."""
    iceberg = InMemoryCatalog("hostile", warehouse=str(tmp_path))
    iceberg.create_namespace("n")
    location = iceberg.create_table("n.t", pa.schema([("id", pa.int64())])).metadata_location
    named = {
        "py-io-impl": "shutil.rmtree",
        "write.py-location-provider.impl": "shutil.rmtree",
        "s3.endpoint": "http://x",
    }
    document = json.loads(Path(location).read_text())
    Path(location).write_text(json.dumps({**document, "properties": named}))
    loaded = []
    monkeypatch.setattr(shutil, "rmtree", lambda *args, **more: loaded.append(args))
    table = load(IcebergTable("n.t", location))
    assert table.scan().to_arrow().num_rows == 0
    with pytest.raises(Refused, match="names code to load"):
        list(write_rows(table.metadata, table.io, f"{tmp_path}/new", pa.table({"id": [1]}).to_batches()))
    assert (loaded, "s3.endpoint" in table.io.properties) == ([], False)


def test_secrets_are_in_no_repr():
    assert "hunter2" not in repr(IcebergTable("a.b", "s3://x", (("s3.secret-access-key", "hunter2"),)))
