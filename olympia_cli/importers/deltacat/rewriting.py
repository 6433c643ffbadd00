"""Partitions that plain files cannot say: their rows as DeltaCAT would show them, to be written anew.

Deltas are applied in their order. Appended rows come; upserted rows take the place of those with the same merge keys,
the last of them if there are several; a delete takes away the rows with its keys. Nothing where two keys are empty
tells them apart.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.feather
import pyarrow.json
import pyarrow.orc
import pyarrow.parquet as pq
from pyiceberg.io import load_file_io
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata

from olympia_cli.iceberg.appends import folder_store, write_rows
from olympia_cli.iceberg.settings import ONE_SDK, same_sdk
from olympia_cli.iceberg.table_changes import decode_metadata, encode_metadata
from olympia_cli.importers.deltacat.bodies import Entry, TableVersion
from olympia_cli.importers.deltacat.msgpack import Malformed, decode
from olympia_cli.importers.deltacat.schemas import DEFAULT, ID, Unfit, arrow_schema, former_names
from olympia_cli.importers.footer_check import check_footer
from olympia_cli.importers.iox.wire import Garbled
from olympia_cli.storage.protocol import Store

_MERGE_KEY, _MERGE_ORDER, _SCHEMA_ID = b"DELTACAT:merge_key", b"DELTACAT:merge_order", b"DELTACAT:schema_id"
_ROW = "__row"
_JSON, _ROWS_A_BATCH = "metadata.json", 2**16
_ENCODINGS = ("identity", "gzip")


@dataclass(frozen=True, slots=True)
class PieceFile:
    """A file of a delta: where it is in the catalog, and what the manifest says of it."""

    path: str
    size: int
    entry: Entry


@dataclass(frozen=True, slots=True)
class Step:
    """A delta: its type and its files."""

    type: str
    files: tuple[PieceFile, ...]

    @property
    def deletes(self) -> bool:
        return self.type == "delete" or any(file.entry.type == "equality_delete" for file in self.files)


@dataclass(frozen=True, slots=True)
class Piece:
    """A partition that is written anew, as the deltas that it is made of, in their order."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Unseen:
    """A file that a process does not see as it was listed."""

    path: str
    size: int


Outcome = tuple[DataFile, ...] | str
"""The data files that a piece became, or why it cannot be read."""

Metadata = TableMetadata


class Rewriter(Protocol):
    def write(self, metadata: Metadata, version: TableVersion, pieces: Sequence[Piece]) -> list[Outcome]:
        """What each piece becomes in a table. Nothing names the files yet."""
        ...


def why_not(steps: Iterable[Step], version: TableVersion) -> str | None:
    """Why it is not known which rows these deltas leave; None where it is."""
    columns = [] if version.schema is None else list(arrow_schema(version.schema))
    keys = merge_keys(version)
    for step in steps:
        types = {file.entry.type for file in step.files}
        for entry in (file.entry for file in step.files):
            if entry.content_type not in _READERS or entry.encoding not in _ENCODINGS:
                return f"{entry.url} is {entry.content_type!a} in {entry.encoding!a}, which is not read here"
            if step.deletes and not (entry.keys or keys):
                return "rows are deleted, and it is not said by which columns"
        if step.type not in ("add", "append", "upsert", "delete") or not types <= {"data", "equality_delete"}:
            return f"a delta of the type {step.type!a} holds {', '.join(sorted(types))}"
        if len(types) > 1:
            return "a delta holds rows and deletes, in an order that is not said"
        if step.type == "upsert" and not step.deletes and not keys:
            return "its table has no merge keys"
        if step.type == "upsert" and any(_MERGE_ORDER in (column.metadata or {}) for column in columns):
            return "its rows are merged in an order of their own"
    return None


def merge_keys(version: TableVersion) -> list[str]:
    """The columns by which rows are the same."""
    columns = [] if version.schema is None else arrow_schema(version.schema)
    return [column.name for column in columns if _MERGE_KEY in (column.metadata or {})]


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Pieces of a table that are to be written, as they are sent to whoever does it. The properties are PyIceberg's for
    the files of the source and of the table, and may hold secrets."""

    base: str
    source: dict[str, str] = field(repr=False)
    dest: dict[str, str] = field(repr=False)
    metadata: bytes
    folder: str
    version: TableVersion
    pieces: tuple[Piece, ...]

    @classmethod
    def of(
        cls,
        base: str,
        source: Mapping[str, str],
        dest: Mapping[str, str],
        metadata: Metadata,
        version: TableVersion,
        pieces: Sequence[Piece],
    ) -> Rewriting:
        folder = f"{metadata.location.rstrip('/')}/data/rewrite-{uuid4().hex[:12]}"
        given = {**(same_sdk(folder) if ONE_SDK in dest else {}), **dest}
        return cls(base, dict(source), given, encode_metadata(metadata, _JSON), folder, version, tuple(pieces))

    @property
    def store(self) -> Store:
        """The folder that is written to."""
        return folder_store(self.folder, tuple(sorted(self.dest.items())))

    def write(self, piece: Piece) -> Outcome | Unseen:
        """Write what a piece becomes."""
        try:
            rows = merged(piece, self.version, self._read)
        except Unfit as error:
            return str(error)
        if isinstance(rows, Unseen):
            return rows
        dest = load_file_io(self.dest, self.folder)
        batches = rows.to_batches(max_chunksize=_ROWS_A_BATCH)
        return tuple(write_rows(decode_metadata(self.metadata, _JSON), dest, self.folder, batches))

    def sees(self, file: Unseen) -> bool:
        """Whether this process sees a file as it was listed."""
        found = load_file_io(self.source, self.base).new_input(f"{self.base}/{file.path}")
        return found.exists() and len(found) == file.size

    def _read(self, file: PieceFile, keys: Sequence[str]) -> pa.Table | Unseen:
        try:
            with load_file_io(self.source, self.base).new_input(f"{self.base}/{file.path}").open() as stream:
                data = stream.read()
        except FileNotFoundError:
            return Unseen(file.path, file.size)
        if len(data) != file.size:
            return Unseen(file.path, file.size)
        try:
            return fitted(_read(data, file.entry, self.version), self.version, file.entry.rows, keys)
        except (Unfit, Garbled, Malformed, pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise Unfit(f"{file.path} cannot be read: {' '.join(str(error).split())[:200]}") from None


def merged(
    piece: Piece, version: TableVersion, read: Callable[[PieceFile, Sequence[str]], pa.Table | Unseen]
) -> pa.Table | Unseen:
    """The rows that the deltas of a partition leave. `read` gives those of a file, which must have these keys."""
    assert version.schema is not None
    schema = arrow_schema(version.schema)
    rows = fitted(schema.empty_table(), version, None, ())
    for step in piece.steps:
        parts = []
        keys = merge_keys(version) if step.deletes or step.type == "upsert" else []
        for file in step.files:
            by = _names(file.entry.keys, schema) or keys if step.deletes else keys
            found = read(file, by)
            if isinstance(found, Unseen):
                return found
            if step.deletes:
                rows = _without(rows, found, by)
            else:
                parts.append(found)
        if parts:
            come = pa.concat_tables(parts)
            if keys:
                come = _last(come, keys)
                rows = _without(rows, come, keys)
            rows = pa.concat_tables([rows, come])
    return rows


def _without(rows: pa.Table, others: pa.Table, keys: list[str]) -> pa.Table:
    """The rows whose keys none of the others has."""
    both = pa.concat_tables(
        [
            rows.select(keys).append_column(_ROW, pa.array(range(rows.num_rows), pa.int64())),
            others.select(keys).append_column(_ROW, pa.array([-1] * others.num_rows, pa.int64())),
        ]
    )
    found = both.group_by(keys, use_threads=False).aggregate([(_ROW, "min"), (_ROW, "list")])
    gone = found.filter(pc.equal(found[f"{_ROW}_min"], -1))[f"{_ROW}_list"].combine_chunks().flatten()
    stays = pc.invert(pc.is_in(pa.array(range(rows.num_rows), pa.int64()), value_set=gone))
    return rows.filter(stays)


def _last(rows: pa.Table, keys: list[str]) -> pa.Table:
    """Of rows with the same keys the last one."""
    numbered = rows.select(keys).append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    found = numbered.group_by(keys, use_threads=False).aggregate([(_ROW, "max")])
    return rows.take(found[f"{_ROW}_max"].combine_chunks().sort())


def _names(keys: Iterable[str | int], schema: pa.Schema) -> list[str]:
    """Columns that are named by their names or their ids."""
    by_id = {int((column.metadata or {}).get(ID, -1)): column.name for column in schema}
    found = [key if isinstance(key, str) else by_id.get(key, "") for key in keys]
    if not set(found) <= set(schema.names):
        raise Unfit(f"rows are deleted by columns that are none of the table's: {list(keys)}")
    return found


def fitted(rows: pa.Table, version: TableVersion, count: int | None, keys: Sequence[str]) -> pa.Table:
    """The rows of a file, so many if that is said, under the present columns. One that it lacks is empty, or has the
    value that it has for older files. Unfit where its columns are not to be told, or it lacks one of the keys."""
    assert version.schema is not None
    if count is not None and rows.num_rows != count:
        raise Unfit(f"it has {rows.num_rows:,} of the {count:,} rows that its manifest says")
    there = _columns(rows.schema, version)
    columns = []
    for column in arrow_schema(version.schema):
        at = there.get(column.name)
        if at is not None:
            columns.append(rows.column(at).cast(column.type))
        elif column.name in keys:
            raise Unfit(f"it lacks the column {column.name!a}, by which rows are the same")
        else:
            columns.append(pa.repeat(_default(column), rows.num_rows))
    return pa.table(columns, schema=arrow_schema(version.schema).remove_metadata())


def _columns(schema: pa.Schema, version: TableVersion) -> Mapping[str, int]:
    """Where in a file the present columns are: by their ids if it has them, else by the names that they have or had."""
    assert version.schema is not None
    present = arrow_schema(version.schema)
    ids = [(column.metadata or {}).get(ID) for column in schema]
    if ids and None not in ids:
        by_id = {int(id): at for at, id in enumerate(ids) if id is not None}
        return {
            column.name: by_id[id] for column in present if (id := int((column.metadata or {}).get(ID, -1))) in by_id
        }
    if len(set(schema.names)) < len(schema.names):
        raise Unfit("two of its columns have one name")
    named: dict[int, set[str]] = {}
    for id, name in former_names(version):
        named.setdefault(id, set()).add(name)
    found: dict[str, int] = {}
    for column in present:
        former = named.get(int((column.metadata or {}).get(ID, -1)), set()) - set(present.names)
        names = [name for name in schema.names if name == column.name or name in former]
        if len(names) > 1:
            raise Unfit(f"its columns {names[0]!a} and {names[1]!a} are one column by now")
        if names:
            found[column.name] = schema.names.index(names[0])
    return found


def _default(column: pa.Field) -> pa.Scalar:
    data = (column.metadata or {}).get(DEFAULT)
    if data is None:
        return pa.scalar(None, column.type)
    try:
        value = decode(data)
    except Malformed:
        # newer releases write it so
        value = decode(b64decode(data, validate=True))
    return pa.scalar(value, column.type)


# Files


def _read(data: bytes, entry: Entry, version: TableVersion) -> pa.Table:
    if entry.encoding == "gzip":
        with pa.CompressedInputStream(pa.BufferReader(data), "gzip") as stream:
            data = stream.read()
    return _READERS[entry.content_type](data, _schema_of(entry, version))


def _schema_of(entry: Entry, version: TableVersion) -> pa.Schema:
    """The schema that a file was written with; the present one where that is not said."""
    assert version.schema is not None
    for data in version.schemas:
        schema = arrow_schema(data)
        if entry.schema is not None and (schema.metadata or {}).get(_SCHEMA_ID) == str(entry.schema).encode():
            return schema
    return arrow_schema(version.schema)


def _parquet(data: bytes, schema: pa.Schema) -> pa.Table:
    length = int.from_bytes(data[-8:-4], "little") + 8
    check_footer(memoryview(data)[-length:-8])
    return pq.read_table(pa.BufferReader(data))


def _csv(data: bytes, schema: pa.Schema) -> pa.Table:
    """DeltaCAT writes no names of columns: they are those of the schema, in its order."""
    return pa.csv.read_csv(
        pa.BufferReader(data),
        read_options=pa.csv.ReadOptions(column_names=schema.names),
        convert_options=pa.csv.ConvertOptions(
            column_types={column.name: column.type for column in schema},
            strings_can_be_null=True,
            quoted_strings_can_be_null=False,
        ),
    )


def _json(data: bytes, schema: pa.Schema) -> pa.Table:
    plain = pa.schema([pa.field(column.name, column.type) for column in schema])
    return pa.json.read_json(pa.BufferReader(data), parse_options=pa.json.ParseOptions(explicit_schema=plain))


_READERS: dict[str, Callable[[bytes, pa.Schema], Any]] = {
    "application/parquet": _parquet,
    "application/feather": lambda data, _: pa.feather.read_table(pa.BufferReader(data)),
    "application/orc": lambda data, _: pa.orc.read_table(pa.BufferReader(data)),
    "application/json": _json,
    "text/csv": _csv,
}
