"""Decode manifest lists and manifests: the files of a table, and the files that a snapshot changed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from olympia_cli.errors import Damaged, OlympiaError, PathMissing
from olympia_cli.iceberg.avro import AvroRecords, Record
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.locations import ANYWHERE, Reach, parse_location
from olympia_cli.iceberg.metadata import current_snapshot
from olympia_cli.ops.verify_metadata import check_registrable, parse_metadata
from olympia_cli.storage.open import scheme_of

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


class FileContent(StrEnum):
    """The content of a table's file."""

    DATA = "data"
    POSITION_DELETES = "position-deletes"
    EQUALITY_DELETES = "equality-deletes"
    UNKNOWN = "unknown"


_CONTENTS = {0: FileContent.DATA, 1: FileContent.POSITION_DELETES, 2: FileContent.EQUALITY_DELETES}


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
    content: FileContent
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


def _content(value: object) -> FileContent:
    # manifests of format version 1 have only data files, and no content field
    return FileContent.DATA if value is None else _CONTENTS.get(_number(value), FileContent.UNKNOWN)


def _text(value: object, what: str, location: str) -> str:
    if not isinstance(value, str) or not value:
        raise Damaged("F602", location, f"it names {what} without a location", hint=_HINT)
    return value


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


# List the data and delete files of a table, given its metadata location.


def data_files(files: TableFiles, location: str, *, statistics: bool = True) -> Iterator[DataFile]:
    """Yield the files of the current snapshot. Each manifest is read once. Whether the files exist is not checked.

    Raise the first error.
    """
    yield from files_of(files, read_metadata(files, location), location, statistics=statistics)


def read_metadata(files: TableFiles, location: str) -> dict[str, Any]:
    """Return the metadata file of a table as a JSON object."""
    return parse_metadata(_read(files, location, "metadata"), location)


def verify_metadata(location: str, options: Mapping[str, object] | None) -> None:
    """Raise an error unless the location holds the metadata of an Iceberg table that may be registered.

    `options` are those of its storage.
    """
    with closing(TableFiles(options, scheme_of(parse_location(location).store))) as files:
        try:
            check_registrable(read_metadata(files, location), location)
        except PathMissing as error:
            raise PathMissing(error.message, hint="check the location") from None
        except Damaged as error:
            # no catalog has the file yet, so fsck knows nothing of it
            if error.command:
                error.advice, error.command = "check the location", ()
            raise


def files_of(
    files: TableFiles, metadata: Mapping[str, Any], location: str, *, statistics: bool = True, reach: Reach = ANYWHERE
) -> Iterator[DataFile]:
    """Like `data_files`, for metadata that was already read. Raise Refused for a manifest outside `reach`."""
    snapshot = current_snapshot(metadata, location)
    if snapshot is None:
        return
    if snapshot.manifest_list:
        data = _read(files, snapshot.manifest_list, "manifest list", reach)
        manifests = {one.location: one for one in decode_manifest_list(data, snapshot.manifest_list)}
    else:
        manifests = {one: Manifest(one) for one in snapshot.manifests}
    for where, found in files.read(manifests, reach):
        content = whole(found, where, "manifest")
        yield from decode_manifest(content, where, spec_id=manifests[where].spec_id, statistics=statistics)


def _read(files: TableFiles, location: str, what: str, reach: Reach = ANYWHERE) -> bytes:
    for _, found in files.read([location], reach):
        return whole(found, location, what)
    raise AssertionError("unreachable")


def whole(found: bytes | OlympiaError, location: str, what: str) -> bytes:
    """Return the content of a file. Raise its error, if any; for a missing file, the message names its kind."""
    if isinstance(found, PathMissing):
        raise PathMissing(
            f"there is no {what} at {location}", hint="check the tables", command=("fsck", "--level", "data")
        ) from None
    if isinstance(found, OlympiaError):
        raise found
    return found


# The files that a snapshot added to a table and removed from it, according to its own manifests.

ReadFile = Callable[[str], bytes]

# fields of a manifest list: manifest_path, partition_spec_id, added_snapshot_id
_CHANGED_LIST = (500, 502, 503)
# fields of a manifest: status, data_file
_CHANGED_ENTRY = (0, 2)
# content, file_path, file_format, record_count, file_size_in_bytes
_CHANGED_FILE = {134: "content", 100: "file-path", 101: "file-format", 103: "record-count", 104: "file-size-in-bytes"}
_ADDED = 1


@dataclass(frozen=True, slots=True)
class ChangedFiles:
    """The added and removed files as JSON objects: location, content, partition and size."""

    added: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)


def changed_files(read: ReadFile, manifest_list: str, snapshot_id: int) -> ChangedFiles:
    """Read the manifest list and the manifests that the snapshot wrote. Manifests of its parents are skipped."""
    found = ChangedFiles()
    for manifest in AvroRecords(read(manifest_list), manifest_list, _CHANGED_LIST):
        path, spec_id, added_by = (manifest.get(number) for number in _CHANGED_LIST)
        if not isinstance(path, str) or (added_by is not None and added_by != snapshot_id):
            continue
        _look(read(path), path, spec_id or 0, found)
    return found


def _look(data: bytes, location: str, spec_id: int, found: ChangedFiles) -> None:
    """Collect the added and deleted entries of a manifest. Entries taken over from a parent have the status
    "existing".
    """
    partition = AvroRecords(data, location, ()).fields_of(_PARTITION)
    wanted = (*_CHANGED_ENTRY, *_CHANGED_FILE, _PARTITION, *(number for number, _ in partition))
    for entry in AvroRecords(data, location, wanted):
        status, file = (entry.get(number) for number in _CHANGED_ENTRY)
        if not isinstance(file, dict):
            continue
        if status == _ADDED:
            found.added.append(_shown(file, spec_id, partition))
        elif status == _DELETED:
            found.removed.append(_shown(file, spec_id, partition))


def _shown(file: dict[int, Any], spec_id: int, partition: list[tuple[int, str]]) -> str:
    shown: dict[str, Any] = {name: file.get(number) for number, name in _CHANGED_FILE.items()}
    content = shown["content"] or 0
    shown["content"] = _CONTENTS.get(content, str(content)) if isinstance(content, int) else str(content)
    shown["file-format"] = str(shown["file-format"] or "").lower()
    shown["spec-id"] = spec_id
    values = file.get(_PARTITION)
    if partition and isinstance(values, dict):
        shown["partition"] = {name: values.get(number) for number, name in partition}
    return json.dumps(shown, separators=(",", ":"), default=_json_text)


def _json_text(value: object) -> str:
    return value.hex() if isinstance(value, bytes) else str(value)
