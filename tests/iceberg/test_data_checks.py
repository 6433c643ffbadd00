"""fsck's data level against real tables: each kind of file taken away or cut, on local disk and on S3."""

from __future__ import annotations

import gzip
import json
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyiceberg.manifest import DataFileContent

import olympia_cli.iceberg.data_checks as data_checks
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.iceberg.catalog import view_definition
from olympia_cli.iceberg.data_checks import IcebergDataChecks
from olympia_cli.names import Kind, NamespaceName, TableName, ViewName
from olympia_cli.ops.fsck import DataFinding, Finding, Level, Severity, WithData
from olympia_cli.ops.progress import SILENT
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.fsck import fsck
from tests.helpers.iceberg_tables import Files, Lake, files_of, with_deletes
from tests.helpers.places import BUCKET, quiet_environment, s3_options
from tests.helpers.planted import create_table
from tests.helpers.servers.s3 import StoredObject, StrictS3
from tests.helpers.table_versions import make_table_versions

T = TableName("ns", "t")
U = TableName("ns", "u")


@pytest.fixture(autouse=True)
def _no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    quiet_environment(monkeypatch)


@pytest.fixture(scope="module")
def strict_s3() -> Iterator[StrictS3]:
    with StrictS3() as server:
        server.create_bucket(BUCKET)
        yield server


@pytest.fixture
def s3_lake(strict_s3: StrictS3) -> Lake:
    properties = {
        "py-io-impl": "pyiceberg.io.fsspec.FsspecFileIO",
        "s3.endpoint": strict_s3.url,
        "s3.access-key-id": "key",
        "s3.secret-access-key": "secret",
        "s3.region": "us-east-1",
    }
    return Lake(f"s3://{BUCKET}/lake/{uuid.uuid4()}", properties, s3_options(strict_s3.url))


@pytest.fixture
def local_lake(tmp_path: Path) -> Lake:
    return Lake(f"file://{tmp_path}/lake")


@pytest.fixture(params=["local", "s3"])
def lake(request: pytest.FixtureRequest) -> Lake:
    found: Lake = request.getfixturevalue(f"{request.param}_lake")
    return found


def look(lake: Lake, *tables: tuple[TableName, str]) -> tuple[list[Finding], Counter[str]]:
    """Return the findings in a catalog of these tables, and the numbers of files checked."""
    catalog = Catalog.create(MemoryStore("catalog", {}))
    with catalog.transaction() as transaction:
        for namespace in sorted({name.namespace for name, _ in tables}):
            transaction.create_namespace(NamespaceName(namespace))
        for name, location in tables:
            create_table(transaction, name, location)
    checks = IcebergDataChecks(lake.options, lake.scheme)
    objects = catalog.snapshot().objects(Kind.TABLE)
    told = list(checks.check(((one.name, one.definition) for one in objects), SILENT))  # type: ignore[misc]
    assert {location for one in told for location in one.locations} <= {location for _, location in tables}
    assert all(one.locations for one in told)
    found = [one.finding for one in told]
    for one in found:
        assert one.severity is (Severity.WARNING if one.code == "F604" else Severity.ERROR)
        assert one.objects_total >= len(one.objects) > 0
    return found, checks.checked


def told(found: list[Finding]) -> list[tuple[str, str, str]]:
    return sorted((one.code, one.path, one.message) for one in found)


def test_sound_tables(lake: Lake) -> None:
    table, other = lake.table("t", appends=2, parts=3), lake.table("u")
    found, checked = look(lake, (T, table.metadata_location), (U, other.metadata_location))
    assert found == []
    assert checked == {"metadata": 2, "manifest_lists": 2, "manifests": 3, "data_files": 7}


def _damage(what: str, how: str) -> tuple[Callable[[Files], str], str, str]:
    """Return the damage of a file, the code and the message."""
    pick: dict[str, Callable[[Files], str]] = {
        "metadata": lambda files: files.metadata,
        "manifest list": lambda files: files.manifest_list,
        "manifest": lambda files: files.manifests[0],
        "data file": lambda files: files.data[1],
    }
    if how == "deleted":
        return pick[what], "F601" if what == "metadata" else "F603", "is missing"
    return pick[what], "F603" if what == "data file" else "F602", "not JSON" if what == "metadata" else "cut short"


@pytest.mark.parametrize("how", ["deleted", "cut"])
@pytest.mark.parametrize("what", ["metadata", "manifest list", "manifest", "data file"])
def test_one_file_of_each_kind(lake: Lake, what: str, how: str) -> None:
    table, sound = lake.table("t", appends=2, parts=2), lake.table("u")
    pick, code, message = _damage(what, how)
    location = pick(files_of(table))
    if how == "deleted":
        lake.delete(location)
    else:
        lake.cut(location)
    found, _ = look(lake, (T, table.metadata_location), (U, sound.metadata_location))
    assert [(one.code, one.path, one.objects) for one in found] == [(code, location, (T,))]
    assert message in found[0].message
    assert found[0].hint == "table history ns.t"


@pytest.mark.parametrize("what", ["metadata", "manifest list", "manifest"])
@pytest.mark.parametrize(
    ("data", "message"), [(b"", "it is empty"), (b"PAR1" * 50, "not"), (b"Ob", "cut short"), (b"\x1f\x8b123", "not")]
)
def test_foreign_and_empty_files(local_lake: Lake, what: str, data: bytes, message: str) -> None:
    table = local_lake.table("t")
    location = _damage(what, "cut")[0](files_of(table))
    local_lake.write(location, data)
    found, _ = look(local_lake, (T, table.metadata_location))
    assert [(one.code, one.path) for one in found] == [("F602", location)]
    assert message in found[0].message or what == "metadata"


def test_every_cut_of_a_manifest_shows(local_lake: Lake) -> None:
    table = local_lake.table("t", parts=3)
    files = files_of(table)
    for location in (files.manifests[0], files.manifest_list):
        data = local_lake.read(location)
        for length in range(0, len(data), 97):
            local_lake.write(location, data[:length])
            found, _ = look(local_lake, (T, table.metadata_location))
            assert [(one.code, one.path) for one in found] == [("F602", location)]
        local_lake.write(location, data)


def test_a_manifest_that_loses_a_whole_block_shows(local_lake: Lake) -> None:
    # such a file is a sound Avro file with fewer records: only the list knows how long it was
    table = local_lake.table("t")
    location = files_of(table).manifests[0]
    data = local_lake.read(location)
    sync = data[-16:]
    local_lake.write(location, data[: data.index(sync) + 16])
    found, _ = look(local_lake, (T, table.metadata_location))
    assert [(one.code, one.path) for one in found] == [("F602", location)]


def test_delete_files(lake: Lake) -> None:
    table = lake.table("t")
    kinds = (DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES)
    metadata, manifest, deletes = with_deletes(lake, table, kinds)
    found, checked = look(lake, (T, metadata))
    assert found == []
    assert checked["data_files"] == 3
    lake.delete(deletes[1])
    lake.cut(deletes[0])
    found, _ = look(lake, (T, metadata))
    assert told(found) == sorted(
        [
            ("F603", deletes[0], "a delete file is cut short: 6 of 12 bytes"),
            ("F603", deletes[1], "a delete file is missing"),
        ]
    )
    lake.delete(manifest)
    assert told(look(lake, (T, metadata))[0]) == [("F603", manifest, "a manifest is missing")]


def test_a_file_that_a_manifest_says_is_deleted_is_not_looked_for(local_lake: Lake) -> None:
    table = local_lake.table("t", appends=2)
    gone = files_of(table).data
    table.delete("id < 100")
    local_lake.delete(*gone)
    assert look(local_lake, (T, table.metadata_location))[0] == []


def test_a_table_without_a_snapshot(lake: Lake) -> None:
    table = lake.table("t", appends=0)
    old = lake.edit(table.metadata_location, current_snapshot_id=-1)
    assert look(lake, (T, table.metadata_location), (U, old)) == ([], {"metadata": 2})


def test_compressed_metadata(lake: Lake) -> None:
    table = lake.table("t")
    packed = gzip.compress(lake.read(table.metadata_location))
    # the name says nothing: some writers put .gz in it, some do not
    for name in (table.metadata_location, table.metadata_location.replace(".metadata.json", ".gz.metadata.json")):
        lake.write(name, packed)
        found, checked = look(lake, (T, name))
        assert (found, checked["data_files"]) == ([], 1)
        lake.write(name, packed[: len(packed) // 2])
        assert [(one.code, one.path) for one in look(lake, (T, name))[0]] == [("F602", name)]


def test_metadata_that_names_its_manifests_itself(lake: Lake) -> None:
    table = lake.table("t", appends=2, version=1)
    files = files_of(table)
    metadata = json.loads(lake.read(files.metadata))
    assert metadata["format-version"] == 1
    for snapshot in metadata["snapshots"]:
        del snapshot["manifest-list"]
        snapshot["manifests"] = files.manifests
    inline = lake.edit(files.metadata, snapshots=metadata["snapshots"])
    lake.delete(files.manifest_list)
    found, checked = look(lake, (T, inline))
    assert (found, checked) == ([], {"metadata": 1, "manifests": 2, "data_files": 2})
    lake.delete(files.manifests[0], files.data[1])
    assert told(look(lake, (T, inline))[0]) == sorted(
        [("F603", files.manifests[0], "a manifest is missing"), ("F603", files.data[1], "a data file is missing")]
    )


def test_branches_and_tags_are_looked_at_and_other_history_is_not(local_lake: Lake) -> None:
    table = local_lake.table("t")
    first = table.current_snapshot()
    old = files_of(table).data[0]
    table.overwrite(table.scan().to_arrow())
    local_lake.delete(old)
    assert look(local_lake, (T, table.metadata_location))[0] == []
    assert first is not None
    table.manage_snapshots().create_tag(first.snapshot_id, "kept").commit()
    assert told(look(local_lake, (T, table.metadata_location))[0]) == [("F603", old, "a data file is missing")]


def test_all_tables_that_share_a_missing_file_are_named(local_lake: Lake) -> None:
    table = local_lake.table("t")
    before = table.metadata_location
    shared = files_of(table)
    table.append(table.scan().to_arrow())
    local_lake.delete(*shared.data)
    found, _ = look(
        local_lake,
        (T, table.metadata_location),
        (U, before),
        (TableName("ns", "twin"), before),
    )
    assert [(one.path, one.objects) for one in found] == [(shared.data[0], (T, TableName("ns", "twin"), U))]


@pytest.mark.parametrize("portion", [1, 2])
def test_portions_make_no_difference(local_lake: Lake, monkeypatch: pytest.MonkeyPatch, portion: int) -> None:
    table, other = local_lake.table("t", appends=3, parts=3), local_lake.table("u", appends=2)
    files = files_of(table)
    # three data files a manifest
    local_lake.delete(files.data[0], files.data[7], files.manifests[1], files_of(other).manifest_list)
    tables = [(T, files.metadata), (U, other.metadata_location), (TableName("ns", "twin"), files.metadata)]
    at_once = look(local_lake, *tables)
    assert sum(len(one.objects) for one in at_once[0]) == 7
    for name in ("TABLES_AT_ONCE", "MANIFESTS_AT_ONCE", "FILES_AT_ONCE"):
        monkeypatch.setattr(data_checks, name, portion)
    assert look(local_lake, *tables) == at_once


def test_the_order_of_tables_makes_no_difference(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = local_lake.table("t", parts=15)
    earlier = table.metadata_location
    table.append(table.scan().to_arrow())
    local_lake.delete(*files_of(table).data)
    tables = [(T, table.metadata_location), (T, earlier), (U, earlier), (TableName("ns", "v"), table.metadata_location)]
    tables += [(TableName("ns", f"far{number:02}"), f"hdfs://nn/{number % 30}/metadata.json") for number in range(40)]
    # the name of a second file on that store
    tables.append((TableName("ns", "far05"), "hdfs://nn/0/0/metadata.json"))

    def check(asked: list[tuple[TableName, str]]) -> tuple[list[DataFinding], Counter[str]]:
        checks = IcebergDataChecks(local_lake.options, local_lake.scheme)
        given = ((name, TableDef(iceberg_metadata_location=location)) for name, location in asked)
        return list(checks.check(given, SILENT)), checks.checked

    monkeypatch.setattr(data_checks, "TABLES_AT_ONCE", 7)
    told, checked = check(tables)
    assert check(tables[::-1]) == check(tables[20:] + tables[:20]) == (told, checked)
    found = [one.finding for one in told]
    lost = sorted(files_of(table).data)
    assert [one.path for one in found if one.code == "F603" and T in one.objects] == [*lost[:20], earlier]
    unseen = [one for one in found if one.code == "F604"]
    assert sorted({name.name for one in unseen[:-1] for name in one.objects}) == [f"far{n:02}" for n in range(20)]
    assert [one.path for one in unseen if TableName("ns", "far05") in one.objects] == [
        "hdfs://nn/0/0/metadata.json",
        "hdfs://nn/5/metadata.json",
    ]
    assert (unseen[-1].message, unseen[-1].objects_total) == (
        "20 more tables could not be looked at: no store is known for hdfs://",
        20,
    )
    assert told[-1].locations == {f"hdfs://nn/{number % 30}/metadata.json" for number in range(20, 40)}
    assert {one.locations for one in told if T in one.finding.objects} == {
        frozenset({table.metadata_location}),
        frozenset({table.metadata_location, earlier}),
    }


def test_each_file_is_requested_only_once(s3_lake: Lake, strict_s3: StrictS3) -> None:
    table = s3_lake.table("t", appends=3)
    earlier = table.metadata_location
    table.append(table.scan().to_arrow())
    strict_s3.requests.clear()
    found, checked = look(s3_lake, (T, table.metadata_location), (U, earlier), (TableName("ns", "v"), earlier))
    assert found == []
    # the manifests of the earlier metadata are those of the later too
    assert checked == {"metadata": 2, "manifest_lists": 2, "manifests": 4, "data_files": 4}
    assert strict_s3.requests == {"GET": 8, "HEAD": 4}


def test_many_files_below_one_prefix_are_listed(s3_lake: Lake, strict_s3: StrictS3) -> None:
    table = s3_lake.table("t", parts=70)
    files = files_of(table)
    strict_s3.requests.clear()
    assert look(s3_lake, (T, table.metadata_location))[0] == []
    assert strict_s3.requests == {"GET": 3, "LIST": 1}
    # what the listing does not show is asked for by name before it is called missing
    s3_lake.delete(files.data[3])
    s3_lake.cut(files.data[4])
    strict_s3.requests.clear()
    found, _ = look(s3_lake, (T, table.metadata_location))
    assert sorted(one.path for one in found) == sorted(files.data[3:5])
    assert strict_s3.requests == {"GET": 3, "LIST": 1, "HEAD": 1}


def test_a_prefix_with_too_much_in_it_is_given_up(s3_lake: Lake, strict_s3: StrictS3) -> None:
    table = s3_lake.table("t", parts=64)
    folder = files_of(table).data[0].removeprefix(f"s3://{BUCKET}/").partition("part=")[0]
    for number in range(3000):
        # before the table's own files in the order of a listing
        strict_s3.buckets[BUCKET][f"{folder}part=!{number}"] = StoredObject(b"")
    strict_s3.requests.clear()
    found, checked = look(s3_lake, (T, table.metadata_location))
    assert (found, checked["data_files"]) == ([], 64)
    assert strict_s3.requests == {"GET": 3, "LIST": 2, "HEAD": 64}


def test_up_to_twenty_missing_files_per_table_are_named(local_lake: Lake) -> None:
    table, other = local_lake.table("t", parts=30), local_lake.table("u", parts=3)
    local_lake.delete(*files_of(table).data, *files_of(other).data)
    found, _ = look(local_lake, (T, table.metadata_location), (U, other.metadata_location))
    of_table = [one for one in found if one.objects == (T,)]
    assert [one.message for one in of_table] == ["a data file is missing"] * 20 + ["10 more of its files, 30 in all"]
    assert of_table[-1].path == table.metadata_location
    assert [one.message for one in found if one.objects == (U,)] == ["a data file is missing"] * 3


def test_a_location_that_points_nowhere(lake: Lake) -> None:
    nowhere = f"{lake.warehouse}/no/such/00000.metadata.json"
    found, _ = look(lake, (T, nowhere))
    assert told(found) == [("F601", nowhere, "the metadata is missing")]


@pytest.mark.parametrize(
    ("location", "words"),
    [
        ("hdfs://namenode:8020/w/t/metadata.json", "no store is known for hdfs://"),
        ("abfss://c@account.dfs.core.windows.net/w/metadata.json", "no store is known for abfss://"),
        ("w/t/metadata.json", "relative"),
        ("file:w/t/metadata.json", "relative"),
        ("file://elsewhere/w/metadata.json", "another machine"),
        ("s3://user:secret@bucket/w/metadata.json", "must not hold a user, a password or a query"),
        ("s3://bucket", "not that of a file"),
        ("s3://bucket/w//metadata.json", "not a path inside a store"),
        ("/w/t/", "not that of a file"),
        ("/w/\udcff/metadata.json", "not text"),
    ],
)
def test_a_location_that_cannot_be_checked_is_a_warning(local_lake: Lake, location: str, words: str) -> None:
    if "\udcff" in location:
        # no definition can hold it, but metadata can
        table = local_lake.table("t")
        metadata = json.loads(local_lake.read(table.metadata_location))
        metadata["snapshots"][0]["manifest-list"] = location
        found, _ = look(local_lake, (T, local_lake.edit(table.metadata_location, snapshots=metadata["snapshots"])))
    else:
        found, _ = look(local_lake, (T, location))
    assert [(one.code, one.path, one.objects) for one in found] == [("F604", location, (T,))]
    assert words in found[0].message


def test_tables_of_a_store_that_nothing_opens_are_counted(local_lake: Lake) -> None:
    tables = [(TableName("ns", f"t{number:03}"), f"hdfs://nn/w/{number}/metadata.json") for number in range(50)]
    found, _ = look(local_lake, *tables)
    assert [len(one.objects) for one in found] == [1] * 20 + [30]
    assert (found[-1].path, found[-1].objects_total) == ("hdfs://nn", 30)
    assert found[-1].message == "30 more tables could not be looked at: no store is known for hdfs://"
    assert sorted(name for one in found for name in one.objects) == [name for name, _ in tables]


def test_no_permission_is_a_warning(s3_lake: Lake, strict_s3: StrictS3) -> None:
    table = s3_lake.table("t")
    denied = Lake(s3_lake.warehouse, options=s3_options(strict_s3.url, key="nobody"))
    found, _ = look(denied, (T, table.metadata_location))
    assert [(one.code, one.path) for one in found] == [("F604", table.metadata_location)]
    assert "Forbidden" in found[0].message or "Access Denied" in found[0].message


def test_a_missing_bucket_is_a_warning(s3_lake: Lake) -> None:
    found, _ = look(s3_lake, (T, "s3a://no-such-bucket/t/metadata.json"))
    assert [one.code for one in found] == ["F604"]
    assert "there is no bucket no-such-bucket" in found[0].message


def test_data_elsewhere_than_the_metadata(local_lake: Lake, s3_lake: Lake) -> None:
    # Hadoop's names for schemes, and the forms of local locations
    table = s3_lake.table("t")
    inside = s3_lake.read(table.metadata_location).replace(b'"s3://', b'"s3a://')
    location = f"{local_lake.warehouse}/copy/00000.metadata.json"
    local_lake.write(location, inside)
    for spelled in (location, location.replace("file://", "file:"), location.removeprefix("file://")):
        found, checked = look(s3_lake, (T, spelled))
        assert (found, checked["data_files"]) == ([], 1)


EVIL = [
    "a b",
    "%3A%2F..%2F",
    "$(touch x);`y`&'\"",
    "[bold]<b>",
    "t\u202egnp.exe",
    "élan-名前-🦊",
    "?query#fragment",
    "-rf",
]


@pytest.mark.parametrize("evil", EVIL)
def test_evil_names(local_lake: Lake, evil: str) -> None:
    lake = local_lake
    table = lake.table("t")
    folder = f"{lake.warehouse}/{evil}"
    files = files_of(table)
    metadata = json.loads(lake.read(files.metadata))
    moved = f"{folder}/snap {evil}.avro"
    lake.write(moved, lake.read(files.manifest_list))
    metadata["snapshots"][0]["manifest-list"] = moved
    location = f"{folder}/{evil}.metadata.json"
    lake.write(location, json.dumps(metadata).encode())
    name = TableName(evil.replace(" ", "_"), evil.replace(" ", "_"))
    found, checked = look(lake, (name, location))
    assert (found, checked["data_files"]) == ([], 1)
    lake.delete(moved)
    found, _ = look(lake, (name, location))
    assert [(one.code, one.path, one.objects) for one in found] == [("F603", moved, (name,))]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"snapshots": 7}, "not a list"),
        ({"snapshots": []}, "is referred to and not in it"),
        ({"snapshots": [None, 3, "x", {"snapshot-id": True}]}, "is referred to and not in it"),
        ({"current_snapshot_id": "x"}, "the current snapshot has no id"),
        ({"current_snapshot_id": 10**30}, "is referred to and not in it"),
        ({"refs": []}, ""),
        ({"refs": [1]}, "not an object"),
        ({"refs": {"main": 3}}, "a branch or tag has no id"),
        ({"refs": {"old": {"snapshot-id": 1, "type": "tag"}}}, "snapshot 1 is referred to"),
        ({"format_version": True}, "not the metadata of an Iceberg table"),
        ({"format_version": 9}, "format version 9"),
    ],
)
def test_metadata_that_makes_no_sense(local_lake: Lake, changes: dict[str, object], words: str) -> None:
    table = local_lake.table("t")
    location = local_lake.edit(table.metadata_location, **changes)
    found, _ = look(local_lake, (T, location))
    if not words:
        assert found == []
        return
    assert [(one.code, one.path) for one in found] == [("F604" if "version 9" in words else "F602", location)]
    assert words in found[0].message


def test_metadata_that_unpacks_to_more_than_memory(local_lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("olympia_cli.ops.verify_metadata.MAX_BYTES", 1_000_000)
    location = f"{local_lake.warehouse}/bomb.metadata.json"
    local_lake.write(location, gzip.compress(bytes(1_000_001)))
    found, _ = look(local_lake, (T, location))
    assert [(one.code, one.path) for one in found] == [("F604", location)]


def test_a_data_file_that_is_taken_for_metadata_is_not_read_whole(
    local_lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("olympia_cli.iceberg.files.MAX_BYTES", 1_000)
    location = f"{local_lake.warehouse}/big.parquet"
    local_lake.write(location, bytes(100_000))
    found, _ = look(local_lake, (T, location))
    assert [(one.code, one.message) for one in found] == [("F604", f"{location}: it is larger than 1,000 bytes")]


def test_a_server_that_is_down_is_given_up(local_lake: Lake) -> None:
    options = s3_options("http://127.0.0.1:9") | {"timeout": 1}
    down = Lake(f"s3://{BUCKET}/x", options=options)
    tables = [(TableName("ns", f"t{number:03}"), f"s3://{BUCKET}/w/{number}/metadata.json") for number in range(200)]
    found, _ = look(down, *tables)
    assert {one.code for one in found} == {"F604"}
    assert [len(one.objects) for one in found] == [1] * 20 + [180]
    assert "cannot reach http://127.0.0.1:9" in found[-1].message


def test_a_definition_without_a_location() -> None:
    [found] = IcebergDataChecks().check([(T, TableDef(id="x"))], SILENT)
    assert told([found.finding]) == [("F601", "", "the definition names no metadata")]


VIEW = {
    "view-uuid": "f8a3a1c6-0000-4000-8000-000000000000",
    "format-version": 1,
    "location": "file:///w/v",
    "schemas": [],
    "current-version-id": 2,
    "versions": [{"version-id": 1}, {"version-id": 2}],
}


@pytest.mark.parametrize(
    ("content", "told_of"),
    [
        (json.dumps(VIEW), None),
        (None, ("F601", "the metadata is missing")),
        ("", ("F602", "it is empty")),
        (json.dumps(VIEW)[:-9], ("F602", "it is not JSON")),
        (json.dumps(VIEW | {"format-version": 0}), ("F602", "it is not the metadata of an Iceberg view")),
        (json.dumps(VIEW | {"current-version-id": 3}), ("F602", "its current version is not in it")),
        (json.dumps(VIEW | {"versions": "12"}), ("F602", "its current version is not in it")),
        (json.dumps(VIEW | {"format-version": 2}), ("F604", "it is Iceberg metadata of format version 2")),
    ],
)
def test_the_metadata_of_a_view(tmp_path: Path, content: str | None, told_of: tuple[str, str] | None) -> None:
    where = tmp_path / "v.metadata.json"
    if content is not None:
        where.write_text(content)
    catalog = Catalog.create(MemoryStore("catalog", {}))
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("ns"))
        transaction.create_view(ViewName("ns", "v"), view_definition(f"file://{where}"))
        transaction.create_view(ViewName("ns", "plan"), ViewDef(substrait_read_rel=b"1"))
    with catalog.transaction() as transaction:
        transaction.drop_view(ViewName("ns", "v"))
    report = fsck(catalog.store, level=Level.DATA, all_versions=True, data=IcebergDataChecks())
    assert report.damaged == (told_of is not None and told_of[0] != "F604")
    found = [one for one in report.findings if one.code.startswith("F6")]
    assert [(one.code, one.message.rpartition(": ")[2]) for one in found] == ([told_of] if told_of else [])
    for one in found:
        assert (one.objects, one.versions) == ((ViewName("ns", "v"),), ((1, 1),))


def test_a_view_that_was_renamed_is_blamed_under_both_names(tmp_path: Path) -> None:
    catalog = Catalog.create(MemoryStore("catalog", {}))
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("ns"))
        transaction.create_view(ViewName("ns", "v"), view_definition(f"file://{tmp_path}/gone.metadata.json"))
    with catalog.transaction() as transaction:
        transaction.rename_view(ViewName("ns", "v"), ViewName("ns", "w"))
    [found] = fsck(catalog.store, level=Level.DATA, all_versions=True, data=IcebergDataChecks()).findings
    assert (found.objects, found.versions) == ((ViewName("ns", "v"), ViewName("ns", "w")), ((1, 2),))


def test_table_metadata_in_a_view_is_reported(local_lake: Lake) -> None:
    location = local_lake.table("t").metadata_location
    pairs: list[WithData] = [
        (T, TableDef(iceberg_metadata_location=location)),
        (ViewName("ns", "v"), ViewDef(iceberg_metadata_location=location)),
    ]
    for order in (pairs, pairs[::-1]):
        [found] = IcebergDataChecks().check(order, SILENT)
        assert found.finding.objects == (ViewName("ns", "v"),)
        assert told([found.finding]) == [("F602", location, "it is Iceberg metadata without 'view-uuid'")]
        assert found.finding.hint == "log -p ns.v"


def test_a_link_to_the_data_is_followed(local_lake: Lake, tmp_path: Path) -> None:
    table = local_lake.table("t")
    data = Path(files_of(table).data[0].removeprefix("file://"))
    moved = tmp_path / "elsewhere.parquet"
    data.rename(moved)
    data.symlink_to(moved)
    assert look(local_lake, (T, table.metadata_location))[0] == []
    moved.unlink()
    assert [one.code for one in look(local_lake, (T, table.metadata_location))[0]] == ["F603"]


def test_a_finding_lists_the_versions_that_reach_the_file(tmp_path: Path) -> None:
    hits = make_table_versions(tmp_path)
    report = fsck(LocalStore(str(tmp_path / "catalog")), level=Level.DATA, all_versions=True, data=IcebergDataChecks())
    assert {
        (one.path, one.message): (one.versions, " ".join(name.name for name in one.objects)) for one in report.findings
    } == hits
    assert report.last_sound_version == 1
