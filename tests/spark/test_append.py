"""Rows that executors write and the driver commits: behind `df.write`, and to several tables at once."""

from __future__ import annotations

import datetime
import decimal
import shutil
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.partitioning import PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import (
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampType,
    TimestamptzType,
    UUIDType,
)
from pyspark.sql import types

import olympia_cli.spark
from olympia_cli import Catalog
from olympia_cli.errors import ExecutorUnprepared, InvalidOption, SparkFailed, TableNotFound
from olympia_cli.format.actions import commit_info
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.iceberg import OlympiaCatalog
from olympia_cli.spark import append, proof
from olympia_cli.spark.appends import AppendWriter, begin
from olympia_cli.spark.failures import explained
from olympia_cli.spark.options import parse_write_options
from tests.helpers.check import check_catalog

FLAT = Schema(
    NestedField(1, "id", LongType(), required=True),
    NestedField(2, "name", StringType(), required=False),
)
BY_NAME = PartitionSpec(
    PartitionField(2, 1000, IdentityTransform(), "name"), PartitionField(1, 1001, BucketTransform(4), "id_bucket")
)
ALL = Schema(
    *(
        NestedField(number, name, type, required=False)
        for number, (name, type) in enumerate(
            {
                "flag": BooleanType(),
                "small": IntegerType(),
                "large": LongType(),
                "real": DoubleType(),
                "price": DecimalType(9, 2),
                "day": DateType(),
                "at": TimestamptzType(),
                "local": TimestampType(),
                "text": StringType(),
                "key": UUIDType(),
                "four": FixedType(4),
                "tags": ListType(101, StringType(), element_required=False),
                "more": MapType(102, StringType(), 103, IntegerType(), value_required=False),
                "place": StructType(
                    NestedField(104, "x", DoubleType(), required=False),
                    NestedField(105, "y", StringType(), required=False),
                ),
                "absent": StringType(),
            }.items(),
            1,
        )
    )
)


@pytest.fixture
def lake(tmp_path: Path):
    """A catalog with an empty table of each kind; it is sound at the end."""
    Catalog.create(str(tmp_path / "lake"))
    found = OlympiaCatalog("lake", warehouse=str(tmp_path / "lake"))
    found.create_namespace("n")
    found.create_table("n.flat", FLAT)
    found.create_table("n.parts", FLAT, partition_spec=BY_NAME)
    found.create_table("n.all", ALL)
    yield found
    check_catalog(found.store_catalog.store)


@pytest.fixture(scope="module")
def registered(spark) -> None:
    olympia_cli.spark.register(spark)


def uri(lake: OlympiaCatalog) -> str:
    return lake.properties["warehouse"]


def save(frame, lake: OlympiaCatalog, table: str, **options: str) -> None:
    with explained():
        frame.write.format("olympia").mode("append").options(table=table, **options).save(uri(lake))


def rows(lake: OlympiaCatalog, table: str) -> list[int]:
    return sorted(lake.load_table(table).scan().to_arrow()["id"].to_pylist())


def files(lake: OlympiaCatalog, table: str) -> list[str]:
    """Return the files in the folder of a table's data, and those that its current snapshot names."""
    found = lake.load_table(table)
    there = sorted(str(path) for path in Path(found.location(), "data").rglob("*") if path.is_file())
    assert there == sorted(task.file.file_path for task in found.scan().plan_files())
    return there


def actions(lake: OlympiaCatalog) -> list[str]:
    found = lake.store_catalog.snapshot().actions()
    return [action.type_name for action in found if action.type != ActionType.COMMIT_INFO]


def test_rows_are_appended_in_one_commit(spark, lake, registered):
    version = lake.version
    frame = spark.createDataFrame([(number, "ab"[number % 2]) for number in range(10)], "id long, name string")
    save(frame.repartition(3), lake, "n.parts", message="nightly")
    assert lake.version == version + 1
    assert actions(lake) == ["TABLE_INSERT"]
    assert commit_info(lake.store_catalog.snapshot().actions()).message == "nightly"
    assert rows(lake, "n.parts") == list(range(10))
    assert lake.load_table("n.parts").scan("name = 'a'").to_arrow().num_rows == 5
    for task in lake.load_table("n.parts").scan("name = 'a' and id = 4").plan_files():
        assert task.file.partition[0] == "a", "files of other partitions are left out"
        assert task.file.lower_bounds[1], "as are those whose statistics say so"
    files(lake, "n.parts")
    # the other way to name the catalog; and what has no rows changes nothing
    frame.limit(0).write.format("olympia").mode("append").option("catalog", uri(lake)).option("table", "n.parts").save()
    assert lake.version == version + 1
    files(lake, "n.parts")


def test_every_type_arrives(spark, lake, registered):
    given = {
        "flag": True,
        "small": 7,
        "large": 2**40,
        "real": 1.5,
        "price": decimal.Decimal("12.34"),
        "day": datetime.date(2026, 11, 17),
        "at": datetime.datetime(2026, 11, 17, 5, 6, 7, 8),
        "local": datetime.datetime(2026, 11, 17, 5, 6, 7, 8),
        "text": "δ",
        "key": str(uuid.UUID(int=5)),
        "four": b"abcd",
        "tags": ["a", None],
        "more": {"k": 1},
        "place": {"x": 1.0, "y": None},
    }
    kinds = (
        "flag boolean, small smallint, large long, real float, price decimal(5, 2), day date, at timestamp, "
        "local timestamp_ntz, text string, key string, four binary, tags array<string>, more map<string, int>, "
        "place struct<x: double, y: string>"
    )
    save(spark.createDataFrame([given, dict.fromkeys(given)], kinds), lake, "n.all")
    [found, empty] = sorted(
        lake.load_table("n.all").scan().to_arrow().to_pylist(), key=lambda row: row["large"] is None
    )
    assert {name: found[name] for name in ("key", "at", "more", "absent")} == {
        "key": uuid.UUID(int=5),
        "at": given["at"].replace(tzinfo=datetime.UTC),
        "more": [("k", 1)],
        "absent": None,
    }
    plain = given.keys() - {"key", "at", "more"}
    assert {name: found[name] for name in plain} == {name: given[name] for name in plain}
    assert set(empty.values()) == {None}
    # the ids of columns are in the files, so that a renamed one is found
    with lake.load_table("n.all").update_schema() as update:
        update.rename_column("text", "words")
    assert "δ" in lake.load_table("n.all").scan(selected_fields=("words",)).to_arrow()["words"].to_pylist()


@pytest.mark.parametrize(
    ("columns", "table", "said"),
    [
        ("id long, other string", "n.flat", "the table has no column 'other': it has id, name"),
        ("id string", "n.flat", "the column id is string, and the table has bigint: cast it"),
        ("name string", "n.flat", "the column id must have a value, and the data lacks it"),
        ("large double", "n.all", "the column large is double, and the table has bigint"),
        ("place struct<x: double>", "n.all", "the column place is struct<x:double>, and"),
    ],
)
def test_columns_that_do_not_fit_are_refused_before_writing(spark, lake, columns, table, said):
    options = parse_write_options({"path": uri(lake), "table": table})
    with pytest.raises(InvalidOption) as raised:
        AppendWriter.begin(options, spark.createDataFrame([], columns).schema, overwrite=False)
    assert said in str(raised.value)
    files(lake, table)


def test_a_row_without_a_value_that_must_be_fails_all_of_it(spark, lake, registered):
    version = lake.version
    frame = spark.createDataFrame([(1, "a"), (None, "b")], "id long, name string").repartition(2)
    with pytest.raises(InvalidOption, match="the data has rows without 'id', which must have a value"):
        save(frame, lake, "n.flat")
    assert lake.version == version
    assert files(lake, "n.flat") == [], "what other tasks wrote is gone"


def test_overwrite_unknown_tables_and_empty_appends_are_refused(spark, lake, registered):
    frame = spark.createDataFrame([(1,)], "id long")
    with pytest.raises(InvalidOption, match="rows are appended here"), explained():
        frame.write.format("olympia").mode("overwrite").option("table", "n.flat").save(uri(lake))
    with pytest.raises(TableNotFound):
        append(spark, uri(lake), {"n.none": frame})
    # options of a writer are none of a reader
    with pytest.raises(InvalidOption, match="'run' is not an option of olympia"), explained():
        spark.read.format("olympia").options(catalog=uri(lake), table="n.flat", run="x").load()
    with pytest.raises(InvalidOption, match="there is nothing to append"):
        append(spark, uri(lake), {})


def test_a_process_that_sees_another_place_writes_nothing(lake, monkeypatch):
    options = parse_write_options({"path": uri(lake), "table": "n.flat"})
    begun = begin(options, types.StructType([types.StructField("id", types.LongType())]))
    monkeypatch.setattr(proof, "_checked_proofs", set())
    batch = pa.record_batch({"id": pa.array([1], pa.int64())})
    assert len(begun.write([batch])) == 1
    # as where the folder is not mounted
    shutil.rmtree(begun.destination.folder)
    monkeypatch.setattr(proof, "_checked_proofs", set())
    with pytest.raises(ExecutorUnprepared, match=r"does not see the files at .*/data/append-"):
        begun.write([batch])
    assert files(lake, "n.flat") == []


def test_several_tables_in_one_commit(spark, lake):
    version = lake.version
    ids = spark.range(6)
    done = append(spark, uri(lake), {"n.flat": ids, "n.parts": ids.selectExpr("id", "'x' as name")}, message="both")
    assert done == lake.version == version + 1
    assert actions(lake) == ["TABLE_INSERT", "TABLE_INSERT"]
    for table in ("n.flat", "n.parts"):
        assert rows(lake, table) == list(range(6))
        files(lake, table)
    # one that cannot be written leaves the other alone
    broken = ids.selectExpr("if(id = 5, null, id) as id")
    with pytest.raises(InvalidOption, match="which must have a value"):
        append(spark, uri(lake), {"n.flat": ids, "n.parts": broken})
    assert lake.version == version + 1
    for table in ("n.flat", "n.parts"):
        files(lake, table)


def test_a_repeated_append_of_a_named_run_adds_nothing(spark, lake, registered):
    frame = spark.createDataFrame([(1,), (2,)], "id long")
    for _ in range(2):
        save(frame, lake, "n.flat", run="2026-11-17")
    version = lake.version
    with pytest.raises(InvalidOption, match=r"the append '2026-11-17' is in n\.flat, and not in n\.parts"):
        append(spark, uri(lake), {"n.parts": frame, "n.flat": frame}, run="2026-11-17")
    # a table that gets no rows, as the time before, has nothing to say
    assert append(spark, uri(lake), {"n.flat": frame, "n.parts": frame.limit(0)}, run="2026-11-17") is None
    assert (lake.version, rows(lake, "n.flat"), rows(lake, "n.parts")) == (version, [1, 2], [])
    assert append(spark, uri(lake), {"n.flat": frame}, run="2026-11-18") == lake.version
    assert rows(lake, "n.flat") == [1, 1, 2, 2]
    for table in ("n.flat", "n.parts"):
        files(lake, table)


def test_a_failed_append_leaves_no_files_and_is_repeatable(spark, lake, tmp_path):
    flag = str(tmp_path / "failed")

    def fail_once(batches):
        import os

        yield from batches
        if not os.path.exists(flag):
            open(flag, "w").close()
            raise RuntimeError("once")

    frame = spark.range(4, numPartitions=1).mapInArrow(fail_once, "id long")
    # a session of one machine gives a task one try
    with pytest.raises(SparkFailed, match="once"):
        append(spark, uri(lake), {"n.flat": frame})
    assert files(lake, "n.flat") == []
    append(spark, uri(lake), {"n.flat": frame})
    assert rows(lake, "n.flat") == [0, 1, 2, 3]
    files(lake, "n.flat")
