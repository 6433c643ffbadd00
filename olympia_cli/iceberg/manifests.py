"""Decode manifest lists and manifests."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from olympia_cli.errors import Damaged
from olympia_cli.iceberg.avro import AvroRecords
from olympia_cli.iceberg.avro_types import Record

_DELETED = 2
# Fields are found by id, because writers differ in names and order, and omit fields.
# manifest_path, manifest_length, partition_spec_id
_LIST = (500, 501, 502)
# status, data_file
_ENTRY = (0, 2)
# content, file_path, file_format, record_count, file_size_in_bytes
_NAMED = (134, 100, 101, 103, 104)
# equality_ids, sort_order_id, referenced_data_file, content_offset, content_size_in_bytes
_DESCRIBED = (135, 140, 143, 144, 145)
# column_sizes, value_counts, null_value_counts, nan_value_counts, lower_bounds, upper_bounds: as ColumnStatistics
_MEASURES = (108, 109, 110, 137, 125, 128)
_PARTITION = 102
_HINT = "look at the table's older metadata"


class Content(StrEnum):
    """The content of a table's file."""

    DATA = "data"
    POSITION_DELETES = "position-deletes"
    EQUALITY_DELETES = "equality-deletes"
    UNKNOWN = "unknown"


_CONTENTS = {0: Content.DATA, 1: Content.POSITION_DELETES, 2: Content.EQUALITY_DELETES}


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest in a manifest list. `length` is 0 if unknown."""

    location: str
    length: int = 0
    spec_id: int = 0


@dataclass(frozen=True, slots=True)
class ColumnStatistics:
    """Statistics of one column. Bounds are in Iceberg's single-value serialization."""

    size: int | None = None
    values: int | None = None
    nulls: int | None = None
    nans: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None


@dataclass(frozen=True, slots=True)
class DataFile:
    """A data or delete file as its manifest describes it. The fields after `spec_id` are read on request only.

    `partition` is by the names of the partition fields, with values as Avro stores them. `referenced`, `offset` and
    `length` are for deletion vectors: the data file that the vector applies to, and its position in this file.
    """

    location: str
    content: Content
    format: str
    records: int
    size: int
    spec_id: int = 0
    partition: Mapping[str, Any] = field(default_factory=dict)
    columns: Mapping[int, ColumnStatistics] = field(default_factory=dict)
    equality_ids: tuple[int, ...] = ()
    sort_order_id: int | None = None
    referenced: str = ""
    offset: int | None = None
    length: int | None = None


def decode_manifest_list(data: bytes, location: str) -> Iterator[Manifest]:
    """Yield the manifests in a manifest list. Raise Damaged or Unsupported, at the latest at its end."""
    for record in AvroRecords(data, location, _LIST):
        path, length, spec_id = (record.get(number) for number in _LIST)
        yield Manifest(_text(path, "a manifest", location), _number(length), _number(spec_id))


def decode_manifest(data: bytes, location: str, *, spec_id: int = 0, statistics: bool = False) -> Iterator[DataFile]:
    """Yield the files in a manifest without the deleted ones. Raise Damaged or Unsupported, at the latest at its
    end.
    """
    partition: list[tuple[int, str]] = []
    wanted: tuple[int, ...] = _ENTRY + _NAMED
    records = AvroRecords(data, location, wanted)
    if statistics:
        partition = records.fields_of(_PARTITION)
        wanted += (*_DESCRIBED, *_MEASURES, _PARTITION, *(number for number, _ in partition))
        records = AvroRecords(data, location, wanted)
    for record in records:
        status, file = (record.get(number) for number in _ENTRY)
        if status == _DELETED:
            continue
        if not isinstance(file, dict):
            raise Damaged("F602", location, "an entry names no file", hint=_HINT)
        content, path, format, count, size = (file.get(number) for number in _NAMED)
        yield DataFile(
            _text(path, "a file", location),
            _content(content),
            str(format or "").lower(),
            _number(count),
            _number(size),
            spec_id,
            **(_described(file, partition) if statistics else {}),
        )


def _described(file: Record, partition: list[tuple[int, str]]) -> dict[str, Any]:
    equality_ids, sort_order_id, referenced, offset, length = (file.get(number) for number in _DESCRIBED)
    measures = [_by_number(file.get(number)) for number in _MEASURES]
    values = _by_number(file.get(_PARTITION))
    return {
        "partition": {name: values.get(number) for number, name in partition},
        "columns": {
            column: ColumnStatistics(*(measure.get(column) for measure in measures))
            for column in sorted(set().union(*measures))
        },
        "equality_ids": tuple(equality_ids) if isinstance(equality_ids, list) else (),
        "sort_order_id": sort_order_id,
        "referenced": referenced or "",
        "offset": offset,
        "length": length,
    }


def _by_number(value: object) -> dict[int, Any]:
    return {key: one for key, one in value.items() if isinstance(key, int)} if isinstance(value, dict) else {}


def _content(value: object) -> Content:
    # manifests of format version 1 have only data files, and no content field
    return Content.DATA if value is None else _CONTENTS.get(_number(value), Content.UNKNOWN)


def _text(value: object, what: str, location: str) -> str:
    if not isinstance(value, str) or not value:
        raise Damaged("F602", location, f"it names {what} without a location", hint=_HINT)
    return value


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
