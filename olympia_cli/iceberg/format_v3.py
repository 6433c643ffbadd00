"""Tables of format version 3, whose metadata and manifests PyIceberg can read but not write."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast
from uuid import uuid4

from pyiceberg.avro.file import AvroFile, AvroOutputFile
from pyiceberg.io import FileIO
from pyiceberg.manifest import (
    DATA_FILE_TYPE,
    MANIFEST_ENTRY_SCHEMAS,
    MANIFEST_LIST_FILE_SCHEMAS,
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    PartitionFieldSummary,
)
from pyiceberg.partitioning import UNPARTITIONED_PARTITION_SPEC
from pyiceberg.schema import Schema, index_by_id
from pyiceberg.table.metadata import TableMetadata, TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetLocationUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    UpgradeFormatVersionUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import IcebergBaseModel, Record
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType

from olympia_cli.errors import InvalidOption

# Metadata of tables of format version 3, which PyIceberg models and updates but does not write yet.
#
# Engines served by `olympia serve` do write it. This module adds what PyIceberg lacks.

V3 = 3


def to_json(metadata: TableMetadata) -> str:
    """Return the metadata as the content of its file."""
    # PyIceberg's model of format 3 refuses to be written, but its fields are like those of other versions
    write = (
        metadata.model_dump_json
        if metadata.format_version != V3
        else partial(IcebergBaseModel.model_dump_json, metadata)
    )
    # the Java library rejects fields with null
    return write(exclude_none=True)


def with_row_ids(metadata: TableMetadata, before: TableMetadata | None = None) -> TableMetadata:
    """Return the metadata with `next_row_id`, which format 3 requires: the current, the former or 0."""
    if metadata.format_version != V3 or getattr(metadata, "next_row_id", None) is not None:
        return metadata
    known = getattr(before, "next_row_id", None)
    return metadata.model_copy(update={"next_row_id": 0 if known is None else known})


def with_defaults(metadata: TableMetadata, given: Schema) -> TableMetadata:
    """Return the metadata of a new table with the columns' defaults, which PyIceberg drops when it assigns field
    ids.
    """
    if all(one.initial_default is None and one.write_default is None for one in index_by_id(given).values()):
        return metadata
    fresh = metadata.schema()
    columns = zip(fresh.fields, given.fields, strict=True)
    schema = fresh.model_copy(update={"fields": tuple(_with_default(*column) for column in columns)})
    return metadata.model_copy(update={"schemas": [schema]})


def _with_default(fresh: NestedField, given: NestedField) -> NestedField:
    values = {"initial_default": given.initial_default, "write_default": given.write_default}
    return fresh.model_copy(update={**values, "field_type": _with_defaults(fresh.field_type, given.field_type)})


def _with_defaults(fresh: IcebergType, given: IcebergType) -> IcebergType:
    match fresh, given:
        case StructType(), StructType():
            fields = zip(fresh.fields, given.fields, strict=True)
            return fresh.model_copy(update={"fields": tuple(_with_default(*field) for field in fields)})
        case ListType(), ListType():
            element = _with_defaults(fresh.element_type, given.element_type)
            return fresh.model_copy(update={"element_type": element})
        case MapType(), MapType():
            key = _with_defaults(fresh.key_type, given.key_type)
            value = _with_defaults(fresh.value_type, given.value_type)
            return fresh.model_copy(update={"key_type": key, "value_type": value})
    return fresh


def upgraded(metadata: TableMetadata, updates: Sequence[TableUpdate]) -> tuple[TableMetadata, tuple[TableUpdate, ...]]:
    """Return the metadata, upgraded to format 3 if the updates ask for it, and the remaining updates."""
    rest = tuple(
        one for one in updates if not (isinstance(one, UpgradeFormatVersionUpdate) and one.format_version == V3)
    )
    if len(rest) == len(updates) or metadata.format_version == V3:
        return metadata, rest
    newer = metadata.model_copy(update={"format_version": V3, "next_row_id": 0})
    if metadata.schemas:
        # an update without effect: it marks the metadata as changed, whatever the other updates do
        rest = (SetLocationUpdate(location=metadata.location), *rest)
    return TableMetadataV3.model_construct(**dict(newer)), rest


def check_known(document: Mapping[str, Any], read: TableMetadata, metadata: TableMetadata, location: str) -> None:
    """Raise InvalidOption if PyIceberg would lose parts of a document that it does not know."""
    names = {field.alias or name for name, field in type(metadata).model_fields.items()}
    lost, kept = sorted(document.keys() - names), json.loads(to_json(read))
    # at the top level compare names only: a known field may not be written, such as the id of no snapshot
    for name in document.keys() & kept.keys():
        lost.extend(_lost(document[name], kept[name], name))
    if lost:
        raise InvalidOption(f"{location} has {lost[0]!a}, which a commit through PyIceberg would lose", hint="")


def _lost(document: Any, kept: Any, where: str) -> Iterator[str]:
    """Yield the paths of values in a document that are missing in `kept`."""
    match document, kept:
        case dict(), dict():
            for name, value in document.items():
                if name in kept:
                    yield from _lost(value, kept[name], f"{where}.{name}")
                # PyIceberg reads a single source, and writes it under another name
                elif value is not None and not (name == "source-ids" and value == [kept.get("source-id")]):
                    yield f"{where}.{name}"
        case list(), list():
            for number, pair in enumerate(zip(document, kept, strict=False)):
                yield from _lost(*pair, f"{where}[{number}]")


# Deletion vectors: the positions of deleted rows of several data files, in one Puffin file.

_PUFFIN = b"PFA1"
_VECTOR = b"\xd1\xd3\x39\x64"
_ROW_POSITION = 2147483645
"""Iceberg's field id for the position of a row in its file."""


def puffin(deleted: Sequence[tuple[str, Sequence[int]]]) -> tuple[bytes, list[tuple[int, int]]]:
    """Return a file with one vector per data file, and the offset and length of each vector."""
    data, places = bytearray(_PUFFIN), []
    described = []
    for path, rows in deleted:
        blob = _vector(rows)
        places.append((len(data), len(blob)))
        described.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_POSITION],
                # assigned when the snapshot is committed
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(data),
                "length": len(blob),
                "properties": {"referenced-data-file": path, "cardinality": str(len(rows))},
            }
        )
        data += blob
    footer = json.dumps({"blobs": described}).encode()
    data += _PUFFIN + footer + struct.pack("<i", len(footer)) + bytes(4) + _PUFFIN
    return bytes(data), places


def _vector(positions: Sequence[int]) -> bytes:
    """Encode row positions as a deletion vector: 32-bit Roaring bitmaps by upper half, in a frame with a checksum."""
    from pyroaring import BitMap

    halves: dict[int, list[int]] = {}
    for position in positions:
        halves.setdefault(position >> 32, []).append(position & 0xFFFFFFFF)
    parts = [struct.pack("<Q", len(halves))]
    for upper, lower in sorted(halves.items()):
        parts += [struct.pack("<I", upper), BitMap(lower).serialize()]
    content = _VECTOR + b"".join(parts)
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))


# Snapshots of tables of format version 3, whose manifests PyIceberg can read but not write.
#
# Timestamps in nanoseconds and deletion vectors need that version. Every data file gets row ids when it is added, and
# keeps them when its entry moves to another manifest.

VERSION: Any = 3


@dataclass(frozen=True, slots=True)
class NewDataFile:
    """A data file to add, with its statistics by column id and the positions of its deleted rows."""

    path: str
    size: int
    rows: int
    statistics: Mapping[str, Mapping[int, Any]]
    deleted: Sequence[int] = ()


class _Manifest(ManifestWriterV2):
    """A manifest of version 3, of data or delete files."""

    contents = ManifestContent.DATA

    @property
    def version(self) -> Any:
        return VERSION

    def content(self) -> ManifestContent:
        return self.contents

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "data" if self.contents is ManifestContent.DATA else "deletes"}

    def new_writer(self) -> AvroOutputFile[ManifestEntry]:
        schema = self._with_partition(VERSION)
        return AvroOutputFile[ManifestEntry](
            output_file=self._output_file,
            file_schema=schema,
            record_schema=schema,
            schema_name="manifest_entry",
            metadata=self._meta,
        )


class _Deletes(_Manifest):
    contents = ManifestContent.DELETES


def live_files(metadata: TableMetadataV3, io: FileIO) -> dict[str, ManifestEntry]:
    """Return the data files of the current snapshot by path."""
    found: dict[str, ManifestEntry] = {}
    for manifest in _manifests(metadata, io):
        if manifest.content is not ManifestContent.DATA:
            continue
        with AvroFile[ManifestEntry](
            io.new_input(manifest.manifest_path),
            MANIFEST_ENTRY_SCHEMAS[3],
            read_types={-1: ManifestEntry, 2: DataFile},
            read_enums={0: ManifestEntryStatus, 101: FileFormat, 134: DataFileContent},
        ) as entries:
            for entry in entries:
                if entry.status is not ManifestEntryStatus.DELETED:
                    if entry.snapshot_id is None and manifest.added_snapshot_id is not None:
                        entry.snapshot_id = manifest.added_snapshot_id
                    if entry.sequence_number is None:
                        entry.sequence_number = entry.file_sequence_number = manifest.sequence_number
                    found[entry.data_file.file_path] = entry
    return found


def _manifests(metadata: TableMetadataV3, io: FileIO) -> list[ManifestFile]:
    snapshot = metadata.current_snapshot()
    if snapshot is None:
        return []
    with AvroFile[ManifestFile](
        io.new_input(snapshot.manifest_list),
        MANIFEST_LIST_FILE_SCHEMAS[3],
        read_types={-1: ManifestFile, 508: PartitionFieldSummary},
        read_enums={517: ManifestContent},
    ) as manifests:
        return list(manifests)


def with_snapshot(
    metadata: TableMetadataV3,
    location: str | None,
    io: FileIO,
    files: Sequence[NewDataFile],
    updates: Iterable[TableUpdate],
    about: Mapping[str, str],
    millis: int,
) -> TableMetadataV3:
    """Return the metadata of a table with exactly these files, after updates of its schema and properties.

    The manifests are written, but no metadata file names them yet. `location` is the current metadata location, if any.
    """
    if metadata.next_row_id is None:
        metadata = metadata.model_copy(update={"next_row_id": 0})
    before = live_files(metadata, io)
    parent = metadata.current_snapshot()
    prepared: Any = update_table_metadata(metadata, tuple(updates))
    writing = _SnapshotWriter(prepared, io, uuid4().int >> 65)
    wanted = {file.path for file in files}
    added = [file for file in files if file.path not in before]
    entries = [writing.added(file) for file in added]
    for path, entry in before.items():
        status = ManifestEntryStatus.EXISTING if path in wanted else ManifestEntryStatus.DELETED
        entries.append(writing.entry(status, entry.data_file, entry))
    removed = [entry.data_file.record_count for path, entry in before.items() if path not in wanted]
    manifests = [writing.manifest(_Manifest, entries)] if entries else []
    if vectors := writing.vectors([file for file in files if file.deleted]):
        manifests.append(writing.manifest(_Deletes, vectors))
    new_rows = sum(file.rows for file in added)
    counts = {
        "added-data-files": len(added),
        "added-records": new_rows,
        "deleted-data-files": len(removed),
        "deleted-records": sum(removed),
        "added-position-deletes": sum(len(file.deleted) for file in files),
        "total-data-files": len(files),
        "total-records": sum(file.rows for file in files),
        "total-delete-files": sum(1 for file in files if file.deleted),
        "total-position-deletes": sum(len(file.deleted) for file in files),
        "total-equality-deletes": 0,
    }
    is_append = not removed and not any(file.deleted for file in files)
    summary = Summary(
        Operation.APPEND if is_append else Operation.OVERWRITE,
        **{name: str(count) for name, count in counts.items()},
        **about,
    )
    described = {
        "snapshot-id": writing.snapshot_id,
        "parent-snapshot-id": None if parent is None else parent.snapshot_id,
        "sequence-number": writing.sequence_number,
        "timestamp-ms": max(millis, metadata.last_updated_ms),
        "manifest-list": writing.manifest_list(manifests, None if parent is None else parent.snapshot_id),
        "summary": summary,
        "schema-id": prepared.current_schema_id,
        "first-row-id": prepared.next_row_id,
        "added-rows": new_rows,
    }
    main = {"ref-name": "main", "type": "branch", "snapshot-id": writing.snapshot_id}
    made: Any = update_table_metadata(
        prepared,
        (
            AddSnapshotUpdate(snapshot=Snapshot.model_validate(described)),
            SetSnapshotRefUpdate.model_validate(main),
        ),
        metadata_location=location,
    )
    return cast(TableMetadataV3, made)


def encode_v3(metadata: TableMetadataV3) -> bytes:
    """Return the content of the metadata file. PyIceberg's own method rejects version 3."""
    return IcebergBaseModel.model_dump_json(metadata, exclude_none=True).encode()


class _SnapshotWriter:
    """Writes the files of one snapshot."""

    def __init__(self, metadata: TableMetadataV3, io: FileIO, snapshot_id: int) -> None:
        self._metadata, self._io, self.snapshot_id = metadata, io, snapshot_id
        self.sequence_number = metadata.last_sequence_number + 1
        self._folder = f"{metadata.location}/metadata"
        self._next_row = metadata.next_row_id or 0

    def added(self, file: NewDataFile) -> ManifestEntry:
        content = self._data_file(
            content=DataFileContent.DATA,
            file_path=file.path,
            file_format=FileFormat.PARQUET,
            record_count=file.rows,
            file_size_in_bytes=file.size,
            first_row_id=self._next_row,
            **file.statistics,
        )
        self._next_row += file.rows
        return self.entry(ManifestEntryStatus.ADDED, content)

    def entry(self, status: ManifestEntryStatus, file: DataFile, before: ManifestEntry | None = None) -> ManifestEntry:
        is_kept = before is not None and status is ManifestEntryStatus.EXISTING
        return ManifestEntry.from_args(
            _table_format_version=VERSION,
            status=status,
            snapshot_id=before.snapshot_id if before is not None and is_kept else self.snapshot_id,
            sequence_number=None if before is None else before.sequence_number,
            file_sequence_number=None if before is None else before.file_sequence_number,
            data_file=file,
        )

    def vectors(self, files: Sequence[NewDataFile]) -> list[ManifestEntry]:
        """Write all deletion vectors into one file, and return their entries."""
        if not files:
            return []
        path = f"{self._folder}/deletes-{uuid4()}.puffin"
        data, places = puffin([(file.path, file.deleted) for file in files])
        with self._io.new_output(path).create() as stream:
            stream.write(data)
        return [
            self.entry(
                ManifestEntryStatus.ADDED,
                self._data_file(
                    content=DataFileContent.POSITION_DELETES,
                    file_path=path,
                    file_format=FileFormat.PUFFIN,
                    record_count=len(file.deleted),
                    file_size_in_bytes=len(data),
                    referenced_data_file=file.path,
                    content_offset=offset,
                    content_size_in_bytes=length,
                ),
            )
            for file, (offset, length) in zip(files, places, strict=True)
        ]

    def manifest(self, kind: type[_Manifest], entries: list[ManifestEntry]) -> ManifestFile:
        output = self._io.new_output(f"{self._folder}/{uuid4()}-m0.avro")
        schema = self._metadata.schema()
        with kind(UNPARTITIONED_PARTITION_SPEC, schema, output, self.snapshot_id, "deflate") as writer:
            for entry in entries:
                writer.add_entry(entry)
        made = writer.to_manifest_file()
        names = [field.name for field in MANIFEST_LIST_FILE_SCHEMAS[2].fields]
        values = {name: made[at] for at, name in enumerate(names)}
        values["sequence_number"] = self.sequence_number
        values["min_sequence_number"] = min(
            (entry.sequence_number for entry in entries if entry.sequence_number is not None),
            default=self.sequence_number,
        )
        first_row = self._metadata.next_row_id if kind is _Manifest else None
        return ManifestFile.from_args(_table_format_version=VERSION, **values, first_row_id=first_row)

    def manifest_list(self, manifests: list[ManifestFile], parent: int | None) -> str:
        path = f"{self._folder}/snap-{self.snapshot_id}-{uuid4()}.avro"
        with AvroOutputFile[ManifestFile](
            output_file=self._io.new_output(path),
            file_schema=MANIFEST_LIST_FILE_SCHEMAS[3],
            record_schema=MANIFEST_LIST_FILE_SCHEMAS[3],
            schema_name="manifest_file",
            metadata={
                "snapshot-id": str(self.snapshot_id),
                "parent-snapshot-id": "null" if parent is None else str(parent),
                "sequence-number": str(self.sequence_number),
                "first-row-id": str(self._metadata.next_row_id),
                "format-version": "3",
                "avro.codec": "deflate",
            },
        ) as writer:
            writer.write_block(manifests)
        return path

    def _data_file(self, **values: Any) -> DataFile:
        names = [field.name for field in DATA_FILE_TYPE[3].fields]
        given = {**dict.fromkeys(names), "partition": Record(), **values}
        return DataFile.from_args(_table_format_version=VERSION, **given)
