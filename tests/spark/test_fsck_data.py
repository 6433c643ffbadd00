"""The data level of fsck on Spark against the local engine: the same findings, the same counts."""

from __future__ import annotations

import json
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
from pyiceberg.manifest import DataFileContent

from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.iceberg.data_checks import Floor, IcebergDataChecks
from olympia_cli.names import TableName, ViewName
from olympia_cli.ops.fsck import DataFinding, WithData
from olympia_cli.ops.progress import SILENT
from olympia_cli.spark.engine import SparkEngine
from olympia_cli.spark.pipelines.fsck_data import BELOW, LOOKED, SCHEMA, FloorRows, check_data, look_at
from olympia_cli.spark.pipelines.place import CatalogPlace
from tests.helpers.iceberg_tables import Lake, files_of, with_deletes
from tests.helpers.places import BUCKET, quiet_environment, s3_options
from tests.helpers.servers.s3 import StrictS3

Tables = Sequence[tuple[str, str]]
VIEWS = ("seen", "mistaken", "lost", "far_view")


def locally(lake: Lake, tables: Tables) -> tuple[list[DataFinding], Counter[str]]:
    checks = IcebergDataChecks(lake.options, lake.scheme)
    return list(checks.check((_object(*one) for one in tables), SILENT)), checks.checked


def on_spark(spark, lake: Lake, tables: Tables, partitions: int = 2) -> tuple[list[DataFinding], Counter[str]]:
    options = {name: value for name, value in lake.options.items() if isinstance(value, str)}
    place = CatalogPlace.at(f"{lake.warehouse}/catalog", options)
    rows = [("view" if name in VIEWS else "table", "ns", name, location) for name, location in tables]
    frame = spark.createDataFrame(rows, "kind string, namespace string, name string, location string")
    return check_data(SparkEngine(spark, place, partitions), frame, len(rows))


def _object(name: str, location: str) -> WithData:
    if name in VIEWS:
        return ViewName("ns", name), ViewDef(iceberg_metadata_location=location)
    return TableName("ns", name), TableDef(iceberg_metadata_location=location)


def make_damaged_tables(lake: Lake) -> list[tuple[str, str]]:
    """Tables with all that can be wrong, some of it shared by several."""
    sound = lake.table("sound", appends=2, parts=2)
    earlier = sound.metadata_location
    sound.append(sound.scan().to_arrow())
    many = lake.table("many", parts=25)
    some = many.metadata_location
    many.append(many.scan().to_arrow())
    lake.delete(*files_of(many).data)
    tables = [
        ("sound", sound.metadata_location),
        ("sound", earlier),
        ("also", earlier),
        # fifty files are gone, half of which others need too
        ("many", many.metadata_location),
        ("many", some),
        ("fellow", some),
        ("fellow", earlier),
        ("nothing", ""),
        ("nowhere", f"{lake.warehouse}/no/such.metadata.json"),
        ("newer", lake.edit(earlier, format_version=9)),
        ("senseless", lake.edit(earlier, refs=[1])),
        ("empty", lake.table("empty", appends=0).metadata_location),
        ("relative", "w/t/metadata.json"),
        *((f"far{number:03}", f"hdfs://nn/w/{number}/metadata.json") for number in range(30)),
        ("twin", "hdfs://nn/w/0/metadata.json"),
    ]
    for what in ("metadata", "manifest_list", "manifest", "data"):
        for how in (lake.delete, lake.cut):
            name = f"{what}_{how.__name__}"
            files = files_of(lake.table(name, appends=2, parts=2))
            victims = {"manifest": files.manifests[0], "data": files.data[1]}
            how(victims[what] if what in victims else getattr(files, what))
            tables.append((name, files.metadata))
            tables.append((f"{name}_twin", files.metadata))
    tables.append(("with_deletes", _lose_deletes(lake)))
    tables.append(("inline", _name_manifests_itself(lake)))
    tables += _no_text(lake)
    view = lake.edit(earlier, format_version=1, view_uuid="x", current_version_id=1, versions=[{"version-id": 1}])
    # what is sound for a table is not for a view, and a table of the same metadata is not blamed
    tables += [("seen", view), ("mistaken", earlier), ("lost", f"{view}.gone")]
    tables.append(("far_view", "hdfs://nn/w/0/metadata.json"))
    return tables


def _lose_deletes(lake: Lake) -> str:
    kinds = (DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES)
    metadata, _, deletes = with_deletes(lake, lake.table("with_deletes"), kinds)
    lake.delete(deletes[0])
    lake.cut(deletes[1])
    return metadata


def _name_manifests_itself(lake: Lake) -> str:
    files = files_of(lake.table("inline", appends=2, version=1))
    snapshots = json.loads(lake.read(files.metadata))["snapshots"]
    for snapshot in snapshots:
        del snapshot["manifest-list"]
        snapshot["manifests"] = files.manifests
    lake.delete(files.manifests[0], files.data[1])
    return lake.edit(files.metadata, snapshots=snapshots)


def _no_text(lake: Lake) -> list[tuple[str, str]]:
    """A location that no column of text can hold, and one on a store that nothing opens below sound metadata."""
    found = []
    for name, location in (("surrogate", "/w/\udcff/list.avro"), ("δ", "hdfs://nn/élan-名前-🦊/list.avro")):
        metadata = lake.table(name).metadata_location
        snapshots = json.loads(lake.read(metadata))["snapshots"]
        snapshots[0]["manifest-list"] = location
        found.append((name, lake.edit(metadata, snapshots=snapshots)))
    return found


def test_the_findings_are_the_local_engine_s(spark, tmp_path: Path) -> None:
    lake = Lake(f"file://{tmp_path}/lake")
    tables = make_damaged_tables(lake)
    random.Random(5).shuffle(tables)
    expected, counted = locally(lake, tables)
    # the tables are a test of something only if all of this is found
    assert Counter(one.finding.code for one in expected).keys() == {"F601", "F602", "F603", "F604"}
    words = " ".join(one.finding.message for one in expected)
    for said in (
        "30 more of its files, 50 in all",
        "5 more of its files, 25 in all",
        "more tables could not",
        "cut short",
    ):
        assert said in words
    found, checked = on_spark(spark, lake, tables)
    # in the same order too
    assert found == expected
    assert checked == counted


def test_sound_tables(spark, tmp_path: Path) -> None:
    lake = Lake(f"file://{tmp_path}/lake")
    tables = [(name, lake.table(name, appends=2).metadata_location) for name in ("t", "u")]
    assert on_spark(spark, lake, tables) == ([], locally(lake, tables)[1])
    assert on_spark(spark, lake, []) == ([], Counter())


@pytest.fixture(scope="module")
def strict_s3() -> Iterator[StrictS3]:
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        yield server


def test_each_file_in_buckets_is_requested_at_most_once(spark, strict_s3: StrictS3, monkeypatch) -> None:
    quiet_environment(monkeypatch)
    properties = {
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.endpoint": strict_s3.url,
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.region": "us-east-1",
    }
    lake = Lake(f"s3://{BUCKET}/lake", properties, s3_options(strict_s3.url))
    table, other = lake.table("t", parts=70), lake.table("u", appends=3)
    earlier = other.metadata_location
    other.append(other.scan().to_arrow())
    lost = files_of(other).data[-1]
    lake.delete(lost)
    tables = [("t", table.metadata_location), ("u", other.metadata_location), ("u", earlier), ("v", earlier)]
    expected, counted = locally(lake, tables)
    strict_s3.requests.clear()
    found, checked = on_spark(spark, lake, tables, partitions=1)
    assert (found, checked) == (expected, counted)
    assert [(one.finding.path, len(one.finding.objects)) for one in found] == [(lost, 2)]
    # the metadata, lists and manifests; a listing for the files that lie together, and a question for each other one
    assert checked == {"metadata": 3, "manifest_lists": 3, "manifests": 5, "data_files": 74}
    assert strict_s3.requests == {"GET": 11, "LIST": 1, "HEAD": 4}


def test_each_task_has_its_part_of_one_table(spark, tmp_path: Path) -> None:
    """Neighbouring files of one table stay together, and no task has most of them."""
    place = CatalogPlace.at(str(tmp_path))
    rows = [
        (BELOW, "data_files", f"{tmp_path}/{number:04}".encode(), b"m", 1, 0, "a data file", None, None, None)
        for number in range(1000)
    ]
    above = FloorRows(spark.createDataFrame(rows, SCHEMA), Counter(data_files=1000), 0)
    looked = look_at(SparkEngine(spark, place, 4), Floor.DATA_FILES, above.rows, [above], 1000)
    counts = [row.length for row in looked.where(f"row = '{LOOKED}'").collect()]
    assert len(counts) == 4
    assert sum(counts) == 1000
    assert max(counts) < 400
