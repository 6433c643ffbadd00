"""Rewrite partitions that plain files cannot express, with the rows that DeltaCAT would show.

Deltas are applied in order. An append adds rows. An upsert replaces the rows with the same merge keys; of several, the
last row counts. A delete removes the rows with its keys. NULL keys are equal.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from itertools import count, groupby
from typing import Protocol
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
from pyiceberg.io import InputFile, load_file_io
from pyiceberg.manifest import DataFile
from pyiceberg.table.metadata import TableMetadata

from olympia_cli.catalog.properties import ONE_SDK
from olympia_cli.iceberg import decode_metadata, encode_metadata, folder_store, parse_location, same_sdk, write_rows
from olympia_cli.importers.deltacat.metadata import Entry, TableVersion
from olympia_cli.importers.deltacat.rows import fitted, is_readable, read_rows
from olympia_cli.importers.deltacat.schemas import ID, Unfit, arrow_schema
from olympia_cli.importers.footers import open_io
from olympia_cli.storage.protocol import Store

_MERGE_KEY = b"DELTACAT:merge_key"
_MERGE_ORDERS = (b"DELTACAT:merge_order", b"DELTACAT:event_time")
"""Columns by which DeltaCAT sorts rows to find the last one. It sorts only the rows that it merges at once, so its
result depends on the time of the merge."""
_ROW = "__row"
_JSON, _ROWS_A_BATCH = "metadata.json", 2**16
_AT_ONCE = 512 * 1024 * 1024
"""Bytes of files that are merged at once; in memory they take several times as much."""
_MOST_SHARES = 64
_NO_MEMORY = f"a {_MOST_SHARES}th of its rows does not fit into the memory of one task: give executors more"


@dataclass(frozen=True, slots=True)
class PieceFile:
    """A file of a delta: its path in the catalog, and its entry in the manifest."""

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

    @property
    def kind(self) -> str:
        """The operation on its rows: delete, upsert or append."""
        return "delete" if self.deletes else "upsert" if self.type == "upsert" else "append"


@dataclass(frozen=True, slots=True)
class Share:
    """A part of a partition's rows, number `number` of `of`, a power of two. No delta merges rows of two shares."""

    number: int = 0
    of: int = 1

    def halves(self) -> list[Share]:
        return [Share(self.number, self.of * 2), Share(self.number + self.of, self.of * 2)]

    def rows(self, rows: pa.Table, keys: list[str]) -> pa.Table:
        """Return the rows whose keys fall into this share. Rows with the same keys fall into one share."""
        if self.of == 1:
            return rows
        masks = [self._mask(batch) for batch in _keyed(rows, keys).to_batches(max_chunksize=_ROWS_A_BATCH)]
        return rows.filter(pa.chunked_array(masks, pa.bool_()))

    def _mask(self, keys: pa.RecordBatch) -> pa.BooleanArray:
        total = pa.repeat(pa.scalar(0, pa.int64()), keys.num_rows)
        for column in keys.columns:
            encoded = column.dictionary_encode()
            digests = pa.array([_digest(value) for value in encoded.dictionary], pa.int64())
            total = pc.bit_wise_xor(total, pc.fill_null(digests.take(encoded.indices), 0))
        return pc.equal(pc.bit_wise_and(total, self.of - 1), self.number)


WHOLE = Share()


def _digest(value: pa.Scalar) -> int:
    """Return a number that equal values share. Values that Python cannot represent all share one."""
    try:
        plain = value.as_py()
    except (ValueError, OverflowError):
        return 0
    # the zeros of both signs are equal
    return zlib.crc32(repr(plain + 0.0 if isinstance(plain, float) else plain).encode("utf-8", "surrogatepass"))


@dataclass(frozen=True, slots=True)
class Piece:
    """A partition to rewrite: its deltas in order."""

    steps: tuple[Step, ...]

    @property
    def upserts(self) -> bool:
        return any(step.kind == "upsert" for step in self.steps)

    def shares(self) -> list[Share]:
        """The shares in which it is merged, by the bytes of its files."""
        size, of = sum(file.size for step in self.steps for file in step.files), 1
        while size > _AT_ONCE * of and of < _MOST_SHARES:
            of *= 2
        return [Share(number, of) for number in range(of)]


@dataclass(frozen=True, slots=True)
class Unseen:
    """A file that a process does not see as it was listed."""

    path: str
    size: int


class OutOfMemory(str):
    """The reason for an unwritten piece if memory was too small: a later run may have more."""

    __slots__ = ()


Outcome = tuple[DataFile, ...] | str
"""The data files of a piece, or the reason why it cannot be read."""

Metadata = TableMetadata


class Rewriter(Protocol):
    def write(self, metadata: Metadata, version: TableVersion, pieces: Sequence[Piece]) -> list[Outcome]:
        """Write the files of each piece. No metadata names them yet."""
        ...


def why_not(steps: Iterable[Step], version: TableVersion) -> str | None:
    """Return why the rows after these deltas are unknown; None if they are known."""
    columns = [] if version.schema is None else list(arrow_schema(version.schema))
    keys = merge_keys(version)
    for step in steps:
        types = {file.entry.type for file in step.files}
        for entry in (file.entry for file in step.files):
            if not is_readable(entry):
                return f"{entry.url} is {entry.content_type!a} in {entry.encoding!a}, which is not read here"
            if step.deletes and not (entry.keys or keys):
                return "rows are deleted, but the delete names no columns"
            if None in entry.keys:
                return f"{entry.url} deletes by a field inside of a column"
        if step.type not in ("add", "append", "upsert", "delete") or not types <= {"data", "equality_delete"}:
            return f"a delta of the type {step.type!a} holds {', '.join(sorted(types))}"
        if len(types) > 1:
            return "a delta holds both rows and deletes, in an unknown order"
        if step.type == "upsert" and not step.deletes and not keys:
            return "its table has no merge keys"
        if step.type == "upsert" and any(
            order in (column.metadata or {}) for order in _MERGE_ORDERS for column in columns
        ):
            return "its rows are merged in an order of their own"
    return None


def merge_keys(version: TableVersion) -> list[str]:
    """Return the columns that identify rows."""
    columns = [] if version.schema is None else arrow_schema(version.schema)
    return [column.name for column in columns if _MERGE_KEY in (column.metadata or {})]


@dataclass(frozen=True, slots=True)
class Rewriting:
    """Pieces of a table to write, in the form that is sent to tasks. `source` and `dest` are PyIceberg's properties for
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
        """The folder to write to."""
        return folder_store(self.folder, tuple(sorted(self.dest.items())))

    def write(self, piece: Piece) -> Outcome | Unseen:
        """Write the files of a piece, share by share. A share that does not fit into memory is halved."""
        files: list[DataFile] = []
        waiting = piece.shares()
        while waiting:
            share, made = waiting.pop(), list[DataFile]()
            try:
                failure = self._write(piece, share, made)
            except MemoryError:
                failure = OutOfMemory(_NO_MEMORY)
                if share.of < _MOST_SHARES:
                    self._delete(made)
                    waiting += share.halves()
                    continue
            files += made
            if failure is not None:
                self._delete(files)
                return failure
        return tuple(files)

    def _write(self, piece: Piece, share: Share, made: list[DataFile]) -> str | Unseen | None:
        """Write a share and append its files. Return the reason if it cannot be written."""
        try:
            rows = merged(piece, self.version, self._read, share)
        except (Unfit, pa.ArrowNotImplementedError) as error:
            # Arrow does not compare values of every type
            return " ".join(str(error).split())
        if isinstance(rows, Unseen):
            return rows
        dest = load_file_io(self.dest, self.folder)
        for file in write_rows(
            decode_metadata(self.metadata, _JSON), dest, self.folder, rows.to_batches(max_chunksize=_ROWS_A_BATCH)
        ):
            made.append(file)
        return None

    def _delete(self, files: Sequence[DataFile]) -> None:
        """Delete files that no metadata will name."""
        self.store.delete_many([file.file_path.removeprefix(f"{self.folder}/") for file in files])

    def sees(self, file: Unseen) -> bool:
        """Return True if this process sees a file as it was listed."""
        found = self._input(file.path)
        return found.exists() and len(found) == file.size

    def _input(self, path: str) -> InputFile:
        return open_io(self.base, self.source).new_input(parse_location(f"{self.base}/{path}").plain_text())

    def _read(self, file: PieceFile, keys: Sequence[str]) -> pa.Table | Unseen:
        try:
            with self._input(file.path).open() as stream:
                data = stream.read()
        except FileNotFoundError:
            return Unseen(file.path, file.size)
        if len(data) != file.size:
            return Unseen(file.path, file.size)
        try:
            return read_rows(data, file.entry, self.version, keys)
        except Unfit as error:
            raise Unfit(f"{file.path} cannot be read: {error}") from None


def merged(
    piece: Piece,
    version: TableVersion,
    read: Callable[[PieceFile, Sequence[str]], pa.Table | Unseen],
    share: Share = WHOLE,
) -> pa.Table | Unseen:
    """Return the rows that the deltas of a partition leave, or a share of them. `read` returns those of a file, which
    must have these keys. Without upserts, a share is some of the files: a delete examines each row separately."""
    assert version.schema is not None
    schema = arrow_schema(version.schema)
    rows = fitted(schema.empty_table(), version, None, ())
    keys, upserts, appended = merge_keys(version), piece.upserts, count()
    # consecutive deltas of one kind are applied together: each merge has a high fixed cost
    for kind, steps in groupby(piece.steps, lambda step: step.kind):
        parts: dict[tuple[str, ...], list[pa.Table]] = {}
        for file in (file for step in steps for file in step.files):
            named = _names(file.entry.keys, schema) if kind == "delete" else []
            by = [] if kind == "append" else named or keys
            if kind == "append" and not upserts and next(appended) % share.of != share.number:
                continue
            found = read(file, by)
            if isinstance(found, Unseen):
                return found
            parts.setdefault(tuple(by), []).append(share.rows(found, keys) if upserts and kind != "delete" else found)
        for columns, some in parts.items():
            come = pa.concat_tables(some)
            if kind == "upsert":
                come = _last(come, keys)
                rows = _without(rows, come, keys, _keyed)
            if kind == "delete":
                rows = _deleted(rows, come, list(columns))
            if kind != "delete":
                rows = pa.concat_tables([rows, come])
    return rows


def _keyed(rows: pa.Table, keys: list[str]) -> pa.Table:
    """Return the merge keys as DeltaCAT compares them: as text, with NULL as empty text."""
    found = rows.select(keys)
    for at, column in enumerate(found.schema):
        if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
            found = found.set_column(at, column.name, pc.fill_null(found.column(at), ""))
    return found


def _deleted(rows: pa.Table, others: pa.Table, columns: list[str]) -> pa.Table:
    """Return the rows that a delete leaves. DeltaCAT checks each column separately for a value of the delete, which can
    remove more rows than named if there are several columns. Raise Unfit in that case."""
    left = _without(rows, others, columns, pa.Table.select)
    if len(columns) > 1:
        apart = (pc.is_in(rows[name], value_set=others[name].combine_chunks()) for name in columns)
        if (pc.sum(reduce(pc.and_, apart)).as_py() or 0) != rows.num_rows - left.num_rows:
            raise Unfit(
                f"rows are deleted by {' and '.join(columns)}, and DeltaCAT deletes more rows than the delete names"
            )
    return left


def _without(
    rows: pa.Table, others: pa.Table, keys: list[str], select: Callable[[pa.Table, list[str]], pa.Table]
) -> pa.Table:
    """Return the rows whose keys none of the others has."""
    both = pa.concat_tables(
        [
            select(rows, keys).append_column(_ROW, pa.array(range(rows.num_rows), pa.int64())),
            select(others, keys).append_column(_ROW, pa.array([-1] * others.num_rows, pa.int64())),
        ]
    )
    found = both.group_by(keys, use_threads=False).aggregate([(_ROW, "min"), (_ROW, "list")])
    gone = found.filter(pc.equal(found[f"{_ROW}_min"], -1))[f"{_ROW}_list"].combine_chunks().flatten()
    stays = pc.invert(pc.is_in(pa.array(range(rows.num_rows), pa.int64()), value_set=gone))
    return rows.filter(stays)


def _last(rows: pa.Table, keys: list[str]) -> pa.Table:
    """Return the last row of each key."""
    numbered = _keyed(rows, keys).append_column(_ROW, pa.array(range(rows.num_rows), pa.int64()))
    found = numbered.group_by(keys, use_threads=False).aggregate([(_ROW, "max")])
    return rows.take(found[f"{_ROW}_max"].combine_chunks().sort())


def _names(keys: Iterable[str | int | None], schema: pa.Schema) -> list[str]:
    """Return the names of columns that are given by name or id."""
    by_id = {int((column.metadata or {}).get(ID, -1)): column.name for column in schema}
    found = [key if isinstance(key, str) else by_id.get(-1 if key is None else key, "") for key in keys]
    if not set(found) <= set(schema.names):
        raise Unfit(f"rows are deleted by columns that the table does not have: {list(keys)}")
    return found
