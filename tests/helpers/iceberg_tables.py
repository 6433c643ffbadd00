"""Real Iceberg tables, written with PyIceberg; and the parts of old or rare ones that it does not write itself."""

from __future__ import annotations

import json
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.catalog.memory import InMemoryCatalog
from pyiceberg.manifest import (
    DataFile,
    DataFileContent,
    FileFormat,
    ManifestContent,
    ManifestEntry,
    ManifestEntryStatus,
    ManifestFile,
    ManifestWriterV2,
    write_manifest_list,
)
from pyiceberg.table import Table
from pyiceberg.typedef import Record

from olympia_cli.iceberg.locations import parse_location
from olympia_cli.storage.open import open_store


@dataclass(frozen=True)
class Files:
    """The locations of the files of a table's current snapshot."""

    metadata: str
    manifest_list: str
    manifests: list[str]
    data: list[str]


class Lake:
    """A warehouse of tables. `properties` are PyIceberg's, `options` ours for the same store."""

    def __init__(
        self, warehouse: str, properties: dict[str, str] | None = None, options: dict[str, object] | None = None
    ) -> None:
        self.warehouse = warehouse
        self.options = options or {}
        self.scheme = warehouse.partition("://")[0]
        self.catalog = InMemoryCatalog(f"lake-{uuid.uuid4()}", warehouse=warehouse, **(properties or {}))
        self.catalog.create_namespace("ns")

    def table(self, name: str, *, appends: int = 1, parts: int = 0, version: int = 2) -> Table:
        """A table with as many manifests as appends, and in each as many data files as parts."""
        rows = rows_of(max(parts, 1))
        table = self.catalog.create_table(f"ns.{name}", rows.schema, properties={"format-version": str(version)})
        if parts:
            with table.update_spec() as spec:
                spec.add_identity("part")
        for _ in range(appends):
            table.append(rows)
        return table

    def read(self, location: str) -> bytes:
        found: bytes = self._store(location).read(parse_location(location).path)
        return found

    def write(self, location: str, data: bytes) -> None:
        self._store(location).overwrite(parse_location(location).path, data)

    def delete(self, *locations: str) -> None:
        for location in locations:
            self._store(location).delete_many([parse_location(location).path])

    def cut(self, location: str) -> None:
        """Leave half of it."""
        data = self.read(location)
        self.write(location, data[: len(data) // 2])

    def edit(self, location: str, **changes: Any) -> str:
        """The metadata with these entries in place of its own, at a new location. `_` in names stands for `-`."""
        metadata = json.loads(self.read(location))
        metadata.update({name.replace("_", "-"): value for name, value in changes.items()})
        new = f"{location.rpartition('/')[0]}/{uuid.uuid4()}.metadata.json"
        self.write(new, json.dumps(metadata).encode())
        return new

    def _store(self, location: str) -> Any:
        uri = parse_location(location).store
        return open_store(uri, self.options if uri.partition("://")[0] == self.scheme else None)


def rows_of(parts: int) -> pa.Table:
    numbers = range(parts * 2)
    return pa.table({"id": pa.array(numbers, pa.int64()), "part": pa.array([n % parts for n in numbers], pa.int64())})


def files_of(table: Table) -> Files:
    """By PyIceberg's own reader."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    manifests = snapshot.manifests(table.io)
    data = [entry.data_file.file_path for one in manifests for entry in one.fetch_manifest_entry(table.io)]
    return Files(table.metadata_location, snapshot.manifest_list, [one.manifest_path for one in manifests], data)


class _DeleteManifestWriter(ManifestWriterV2):
    """PyIceberg reads delete manifests, and writes none."""

    def content(self) -> ManifestContent:
        return ManifestContent.DELETES

    @property
    def _meta(self) -> dict[str, str]:
        return {**super()._meta, "content": "deletes"}


def with_deletes(lake: Lake, table: Table, contents: Iterable[DataFileContent]) -> tuple[str, str, list[str]]:
    """The table with a delete file of each kind: its new metadata, the delete manifest and the delete files."""
    snapshot = table.current_snapshot()
    assert snapshot is not None
    folder = table.location()
    files = []
    where = f"{folder}/metadata/{uuid.uuid4()}-m1.avro"
    with _DeleteManifestWriter(
        table.spec(), table.schema(), table.io.new_output(where), snapshot.snapshot_id, "deflate"
    ) as writer:
        for content in contents:
            location = f"{folder}/data/{uuid.uuid4()}-deletes.parquet"
            data = b"PAR1 deletes"
            lake.write(location, data)
            files.append(location)
            file = DataFile.from_args(
                content=content,
                file_path=location,
                file_format=FileFormat.PARQUET,
                partition=Record(),
                record_count=1,
                file_size_in_bytes=len(data),
                equality_ids=[1] if content is DataFileContent.EQUALITY_DELETES else None,
            )
            writer.add(
                ManifestEntry.from_args(
                    status=ManifestEntryStatus.ADDED, snapshot_id=snapshot.snapshot_id, data_file=file
                )
            )
    manifest_list = f"{folder}/metadata/{uuid.uuid4()}-list.avro"
    added: ManifestFile = writer.to_manifest_file()
    with write_manifest_list(
        2, table.io.new_output(manifest_list), snapshot.snapshot_id, None, snapshot.sequence_number, "deflate"
    ) as lists:
        lists.add_manifests([*snapshot.manifests(table.io), added])
    metadata = json.loads(lake.read(table.metadata_location))
    for one in metadata["snapshots"]:
        one["manifest-list"] = manifest_list
    return lake.edit(table.metadata_location, snapshots=metadata["snapshots"]), where, files
