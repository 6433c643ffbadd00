"""List the data and delete files of tables, with statistics, schemas and partition values.

The two steps, from tables to manifests and from manifests to files, are functions over any number of rows. One process
can run them, or many processes a share each. A file that cannot be read becomes a problem row.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from olympia_cli.catalog.snapshot import read_object
from olympia_cli.errors import Damaged, OlympiaError, StoreError, Unsupported
from olympia_cli.format.paths import check_pointer
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.iceberg.data_files import whole
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.inventory_rows import Row, file_row, long, names_text, parse_names, table_row, text
from olympia_cli.iceberg.manifests import Manifest, decode_manifest, decode_manifest_list
from olympia_cli.iceberg.metadata import Snapshot, current_snapshot
from olympia_cli.iceberg.schemas import columns_of, current_schema, partition_spec
from olympia_cli.names import TableName
from olympia_cli.ops.verify_metadata import parse_metadata
from olympia_cli.storage.protocol import Store

_TABLES_AT_ONCE = 256
_MANIFESTS_AT_ONCE = 1024


def inventory(
    store: Store,
    tables: Iterable[Mapping[str, Any]],
    options: Mapping[str, object] | None = None,
    *,
    files: bool = True,
    statistics: bool = True,
) -> Iterator[Row]:
    """Run both steps in this process. Yield table, file and problem rows, distinguished by `row`.

    `options` are those of the catalog's store, which may hold the tables, too. Without `files`, no manifest is read.
    """
    with closing(TableFiles(options, store.uri.partition("://")[0])) as opened:
        rows = look_at_tables(store, opened, tables, manifests=files)
        yield from look_at_manifests(opened, rows, statistics=statistics)


def look_at_tables(
    store: Store, files: TableFiles, tables: Iterable[Mapping[str, Any]], *, manifests: bool = True
) -> Iterator[Row]:
    """Convert tables (namespace, name, version, path of the definition) to table rows, problem rows, and unread
    manifests.
    """
    tables = iter(tables)
    while batch := list(islice(tables, _TABLES_AT_ONCE)):
        seen = [_Seen({name: table[name] for name in ("namespace", "name", "version")}) for table in batch]
        _read_definitions(store, list(zip(seen, (table["definition"] for table in batch), strict=True)))
        _read_metadata(files, [one for one in seen if one.error is None])
        if manifests:
            _read_lists(files, [one for one in seen if one.error is None])
        for one in seen:
            yield from one.rows()


def look_at_manifests(files: TableFiles, rows: Iterable[Row], *, statistics: bool = True) -> Iterator[Row]:
    """Replace each manifest row by rows of its files. Other rows are passed through."""
    rows = iter(rows)
    while batch := list(islice(rows, _MANIFESTS_AT_ONCE)):
        read = files.read([row["manifest"] for row in batch if row["row"] == "manifest"])
        for row in batch:
            if row["row"] == "manifest":
                yield from _files(row, next(read)[1], statistics)
            else:
                yield row


@dataclass(slots=True)
class _Seen:
    """A table, with the parts read so far."""

    about: Row
    table: Row | None = None
    error: OlympiaError | None = None
    snapshot: Snapshot | None = None
    names: str = ""
    manifests: dict[str, Manifest] = field(default_factory=dict)

    def rows(self) -> Iterator[Row]:
        if self.table is not None:
            yield {**self.about, "row": "table", **self.table}
        if self.error is not None:
            yield _problem(self.about, self.error)
            return
        for at, one in enumerate(self.manifests.values()):
            where = {"manifest": text(one.location), "spec_id": long(one.spec_id), "manifest_at": at}
            yield {**self.about, "row": "manifest", "names": self.names, **where}


def _read_definitions(store: Store, seen: list[tuple[_Seen, str]]) -> None:
    for one, path in seen:
        try:
            check_pointer(path, path)
        except Damaged as error:
            one.error = error
    named = [(one, path) for one, path in seen if one.error is None]
    for (one, _), (path, data) in zip(named, store.read_many([path for _, path in named]), strict=True):
        name = TableName.known_legal(one.about["namespace"], one.about["name"])
        try:
            definition = _definition(name, path, data)
            location = definition.iceberg_metadata_location
            one.about |= {"id": definition.id, "metadata_location": location or None}
            if not location:
                raise Unsupported("it is not an Iceberg table with metadata", hint="")
        except OlympiaError as error:
            one.error = error


def _definition(name: TableName, path: str, data: bytes | StoreError) -> TableDef:
    definition = read_object(name, path, data).definition
    assert isinstance(definition, TableDef)
    return definition


def _read_metadata(files: TableFiles, seen: list[_Seen]) -> None:
    read = files.read([one.about["metadata_location"] for one in seen])
    for one, (location, data) in zip(seen, read, strict=True):
        try:
            metadata = parse_metadata(whole(data, location, "metadata"), location)
            one.snapshot = current_snapshot(metadata, location)
            number = None if one.snapshot is None else one.snapshot.snapshot_id
            one.table = table_row(metadata, number, current_schema(metadata), partition_spec(metadata))
            one.names = names_text(columns_of(metadata))
        except OlympiaError as error:
            one.error = error


def _read_lists(files: TableFiles, seen: list[_Seen]) -> None:
    listed = []
    for one in seen:
        if one.snapshot is not None and one.snapshot.manifest_list:
            listed.append((one, one.snapshot.manifest_list))
        elif one.snapshot is not None:
            one.manifests = {location: Manifest(location) for location in one.snapshot.manifests}
    read = files.read([location for _, location in listed])
    for (one, location), (_, data) in zip(listed, read, strict=True):
        try:
            found = decode_manifest_list(whole(data, location, "manifest list"), location)
            one.manifests = {manifest.location: manifest for manifest in found}
        except OlympiaError as error:
            one.error = error


def _files(row: Row, data: bytes | OlympiaError, statistics: bool) -> Iterator[Row]:
    about = {name: row.get(name) for name in ("namespace", "name", "id", "version", "metadata_location", "manifest_at")}
    where = row["manifest"]
    columns = parse_names(row["names"])
    try:
        found = decode_manifest(
            whole(data, where, "manifest"), where, spec_id=row["spec_id"] or 0, statistics=statistics
        )
        for at, file in enumerate(found):
            yield {**about, "row": "file", "at": at, **file_row(file, columns, statistics)}
    except OlympiaError as error:
        yield _problem(about, error)


def _problem(about: Mapping[str, Any], error: OlympiaError) -> Row:
    return {**about, "row": "problem", "error": type(error).__name__, "reason": text(error.message)}
