"""Manifests as real writers write them, held against PyIceberg's own reader; and damaged ones."""

from __future__ import annotations

import bz2
import zlib
from collections.abc import Callable
from contextlib import closing
from datetime import date
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.manifest import DataFileContent
from pyiceberg.table import Table

from olympia_cli.errors import Damaged, PathMissing, Unsupported
from olympia_cli.iceberg import manifests
from olympia_cli.iceberg.avro import open_container
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.manifests import DataFile, FileContent, data_files, decode_manifest, decode_manifest_list
from tests.helpers.iceberg_tables import Lake, files_of, with_deletes


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(f"file://{tmp_path}/lake")


def listed(location: str, *, statistics: bool = True) -> list[DataFile]:
    with closing(TableFiles()) as files:
        return list(data_files(files, location, statistics=statistics))


def by_pyiceberg(table: Table) -> list[tuple[object, ...]]:
    snapshot = table.current_snapshot()
    assert snapshot is not None
    found = []
    for manifest in snapshot.manifests(table.io):
        for entry in manifest.fetch_manifest_entry(table.io):
            file = entry.data_file
            columns = {
                column: tuple(
                    measure.get(column)
                    for measure in (
                        file.column_sizes,
                        file.value_counts,
                        file.null_value_counts,
                        file.nan_value_counts or {},
                        file.lower_bounds,
                        file.upper_bounds,
                    )
                )
                for column in file.column_sizes
            }
            partition = [file.partition[at] for at in range(len(file.partition))]
            found.append((file.file_path, file.record_count, file.file_size_in_bytes, file.spec_id, partition, columns))
    return found


def ours(file: DataFile) -> tuple[object, ...]:
    columns = {
        number: (one.size, one.values, one.nulls, one.nans, one.lower, one.upper)
        for number, one in file.columns.items()
    }
    return file.location, file.records, file.size, file.spec_id, list(file.partition.values()), columns


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("parts", [0, 3])
def test_data_files_are_those_that_pyiceberg_reads(lake: Lake, version: int, parts: int) -> None:
    table = lake.table("t", appends=2, parts=parts, version=version)
    found = listed(table.metadata_location)
    assert [ours(one) for one in found] == by_pyiceberg(table)
    assert {(one.content, one.format) for one in found} == {(FileContent.DATA, "parquet")}
    assert listed(table.metadata_location, statistics=False) == [
        DataFile(one.location, one.content, one.format, one.records, one.size, one.spec_id) for one in found
    ]


def test_partitions_of_many_types(lake: Lake) -> None:
    rows = pa.table(
        {
            "day": pa.array([date(2026, 11, 16)], pa.date32()),
            "price": pa.array([Decimal("12.34")], pa.decimal128(9, 2)),
            "flag": pa.array([True]),
            "ratio": pa.array([0.1], pa.float64()),
            "word": pa.array(["a b"]),
            "nothing": pa.array([None], pa.int64()),
            "raw": pa.array([b"\0\1"], pa.binary()),
        }
    )
    table = lake.catalog.create_table("ns.t", rows.schema)
    with table.update_spec() as spec:
        for name in rows.schema.names:
            spec.add_identity(name)
    table.append(rows)
    (found,) = listed(table.metadata_location)
    price = found.partition["price"]
    assert int.from_bytes(price, "big", signed=True) == 1234
    assert {name: value for name, value in found.partition.items() if name != "price"} == {
        "day": (date(2026, 11, 16) - date(1970, 1, 1)).days,
        "flag": True,
        "ratio": 0.1,
        "word": "a b",
        "nothing": None,
        "raw": b"\0\1",
    }
    assert found.columns[4].values == 1


def test_delete_files_are_distinguished_by_content(lake: Lake) -> None:
    kinds = (DataFileContent.POSITION_DELETES, DataFileContent.EQUALITY_DELETES)
    metadata, _, deletes = with_deletes(lake, lake.table("t"), kinds)
    found = listed(metadata)
    assert [one.content for one in found] == [
        FileContent.DATA,
        FileContent.POSITION_DELETES,
        FileContent.EQUALITY_DELETES,
    ]
    assert [one.location for one in found[1:]] == deletes
    assert [one.equality_ids for one in found] == [(), (), (1,)]


def test_a_table_without_a_snapshot_has_no_files(lake: Lake) -> None:
    assert listed(lake.table("t", appends=0).metadata_location) == []


@pytest.mark.parametrize("what", ["metadata", "manifest list", "manifest"])
def test_a_missing_metadata_file_is_an_error(lake: Lake, what: str) -> None:
    files = files_of(lake.table("t"))
    location = {"metadata": files.metadata, "manifest list": files.manifest_list, "manifest": files.manifests[0]}[what]
    lake.delete(location)
    with pytest.raises(PathMissing, match=f"there is no {what} at "):
        listed(files.metadata)


def _long(number: int) -> bytes:
    number, out = number << 1, bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def repack(data: bytes, codec: str, pack: Callable[[bytes], bytes]) -> bytes:
    """The same records, in blocks that are packed otherwise."""
    meta, blocks = open_container(data, "x")
    assert meta["avro.codec"] == b"deflate"
    sync = data[-16:]
    head = data[: data.index(sync)]
    out = head.replace(b"\x14avro.codec\x0edeflate", b"\x14avro.codec" + _long(len(codec)) + codec.encode()) + sync
    for count, block in blocks:
        packed = pack(zlib.decompress(block, -15))
        out += _long(count) + _long(len(packed)) + packed + sync
    return out


def _snappy(data: bytes) -> bytes:
    packed: bytes = pa.compress(data, codec="snappy", asbytes=True)
    return packed + zlib.crc32(data).to_bytes(4, "big")


CODECS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "bzip2": bz2.compress,
    "zstandard": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    "snappy": _snappy,
}


@pytest.mark.parametrize("codec", CODECS)
def test_compressions(lake: Lake, codec: str) -> None:
    data = lake.read(files_of(lake.table("t", parts=3)).manifests[0])
    packed = repack(data, codec, CODECS[codec])
    assert packed != data
    assert list(decode_manifest(packed, "m", statistics=True)) == list(decode_manifest(data, "m", statistics=True))
    if codec != "null":
        with pytest.raises(Damaged, match=r"cannot be unpacked|garbled|longer"):
            list(decode_manifest(repack(data, codec, lambda plain: CODECS[codec](plain)[:-6] + b"\xff" * 6), "m"))


def test_an_unknown_compression_is_not_damage(lake: Lake) -> None:
    data = lake.read(files_of(lake.table("t")).manifests[0])
    with pytest.raises(Unsupported, match="compression, 'lzma'"):
        list(decode_manifest(repack(data, "lzma", bytes), "m"))
    with pytest.raises(Unsupported, match="encrypted"):
        list(decode_manifest(b"AGS1" + data, "m"))


def test_a_block_that_unpacks_to_more_than_memory(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("olympia_cli.iceberg.avro._MAX_BLOCK_BYTES", 10_000)
    data = lake.read(files_of(lake.table("t")).manifests[0])
    for codec, pack in (CODECS | {"deflate": lambda plain: zlib.compress(plain, wbits=-15)}).items():
        with pytest.raises(Unsupported, match="more than 10,000 bytes"):
            list(decode_manifest(repack(data, codec, lambda plain, pack=pack: pack(bytes(20_000))), "m"))


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> list[bytes]:
    """A manifest and a manifest list, unpacked, so that damage reaches the records."""
    lake = Lake(f"file://{tmp_path_factory.mktemp('lake')}")
    files = files_of(lake.table("t", parts=2))
    return [repack(lake.read(one), "null", bytes) for one in (files.manifests[0], files.manifest_list)]


@settings(max_examples=400, deadline=None, derandomize=True)
@given(st.data())
def test_random_damage_is_an_error_of_ours_or_none(real: list[bytes], data: st.DataObject) -> None:
    number = data.draw(st.integers(0, 1))
    damaged = bytearray(real[number])
    # most of it in the records: damage to the header shows at once
    start = len(damaged) - 700 if data.draw(st.integers(0, 4)) else 0
    for _ in range(data.draw(st.integers(1, 4))):
        damaged[data.draw(st.integers(max(start, 0), len(damaged) - 17))] = data.draw(st.integers(0, 255))
    found: list[object]
    try:
        if number:
            found = list(decode_manifest_list(bytes(damaged), "m"))
        else:
            found = list(decode_manifest(bytes(damaged), "m", statistics=True))
    except (Damaged, Unsupported):
        return
    # no damage makes it go on for ever
    assert len(found) <= len(damaged)


def test_an_odd_content_of_a_changed_file_is_shown_as_text():
    """The log of a commit shows it, and no manifest may prevent a commit."""
    assert '"content":"[1]"' in manifests._shown({134: [1]}, 0, [])
