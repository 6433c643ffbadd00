"""Snapshots of tables of format version 3, whose manifests PyIceberg can read but not write.

Timestamps in nanoseconds and deletion vectors need that version. Every data file gets row ids when it is added, and
keeps them when its entry moves to another manifest.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from pyiceberg.table.metadata import TableMetadataV3
from pyiceberg.table.snapshots import Operation, Snapshot, Summary
from pyiceberg.table.update import (
    AddSnapshotUpdate,
    SetSnapshotRefUpdate,
    TableUpdate,
    update_table_metadata,
)
from pyiceberg.typedef import IcebergBaseModel, Record

from olympia_cli.iceberg.deletion_vectors import puffin

VERSION: Any = 3


@dataclass(frozen=True, slots=True)
class NewFile:
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
    files: Sequence[NewFile],
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
    writing = _Writing(prepared, io, uuid4().int >> 65)
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


def encode(metadata: TableMetadataV3) -> bytes:
    """Return the content of the metadata file. PyIceberg's own method rejects version 3."""
    return IcebergBaseModel.model_dump_json(metadata, exclude_none=True).encode()


class _Writing:
    """Writes the files of one snapshot."""

    def __init__(self, metadata: TableMetadataV3, io: FileIO, snapshot_id: int) -> None:
        self._metadata, self._io, self.snapshot_id = metadata, io, snapshot_id
        self.sequence_number = metadata.last_sequence_number + 1
        self._folder = f"{metadata.location}/metadata"
        self._next_row = metadata.next_row_id or 0

    def added(self, file: NewFile) -> ManifestEntry:
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

    def vectors(self, files: Sequence[NewFile]) -> list[ManifestEntry]:
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
        values = {name: made._data[at] for at, name in enumerate(names)}
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
