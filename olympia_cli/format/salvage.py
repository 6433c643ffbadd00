"""Read the rows of a damaged node file as far as possible, and report the damage. Never raises an error.

A file that Arrow can open is read by Arrow. Otherwise its messages, and the buffers of each batch, are read one by one
without the footer. The columns are stored one after the other, so truncation usually loses pointers and values but
keeps the keys.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum

import pyarrow as pa

from olympia_cli.errors import Damaged
from olympia_cli.format import arrow
from olympia_cli.format.arrow import (
    FIRST_MESSAGE,
    MAGIC,
    MARKER,
    RECORD_BATCH,
    SCHEMA,
    Bounds,
    End,
    Gap,
    Message,
    Nonsense,
    TooMuch,
    check_file,
    root_bounds,
    walk,
)
from olympia_cli.format.codec import (
    ACTIONS_DIGEST_KEY,
    COLUMNS,
    DIGEST_KEY,
    READ_OPTIONS,
    SIZES_KEY,
    decode_sizes,
    metadata_text,
    one_line,
)
from olympia_cli.format.node import Sizes
from olympia_cli.names import plural

_USUAL = Sizes(4096, 1024, 1024, 1024)
"""The sizes assumed for a file whose catalog is unknown."""

_FAILURES = (pa.ArrowException, OSError, ValueError, Nonsense, TooMuch)


class Lost(Enum):
    """Marks a value that cannot be read. None is a NULL that was read."""

    LOST = "lost"


LOST = Lost.LOST
Cell = str | None | Lost
Cells = tuple[Cell, Cell, Cell]


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem and its position, as far as known: byte in the file, record batch, row of the file."""

    message: str
    offset: int | None = None
    batch: int | None = None
    row: int | None = None

    def __str__(self) -> str:
        places = []
        if self.offset is not None:
            places.append(f"byte {self.offset:,}")
        if self.batch is not None:
            places.append(f"record batch {self.batch}")
        if self.row is not None:
            places.append(f"row {self.row}")
        return f"{self.message} ({', '.join(places)})" if places else self.message


@dataclass(slots=True)
class Salvage:
    """The readable content of a file. `unknown_columns` names extra columns, which are not read."""

    rows: list[Cells] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    batches: int = 0
    digest: str | None = None
    actions_digest: str | None = None
    sizes: Sizes | None = None
    unknown_columns: tuple[str, ...] = ()

    def add(self, message: str, offset: int | None = None, batch: int | None = None, row: int | None = None) -> None:
        self.problems.append(Problem(message, offset, batch, row))


def salvage(data: bytes, sizes: Sizes | None = None) -> Salvage:
    """Read as much of a node file as possible, within the bounds for a catalog of these sizes."""
    sizes = sizes if sizes is not None else _own_sizes(data)
    bounds = root_bounds(sizes if sizes is not None else _USUAL, len(data))
    found = Salvage()
    if not _read_whole(data, found, bounds):
        found = Salvage()
        _read_pieces(data, found, _Budget(bounds.rows, bounds.bytes))
    return found


def _own_sizes(data: bytes) -> Sizes | None:
    """Return the sizes that a root states, or None."""
    try:
        schema = pa.ipc.open_file(pa.py_buffer(data), options=READ_OPTIONS).schema
        return decode_sizes((schema.metadata or {}).get(SIZES_KEY), "")
    except (*_FAILURES, Damaged):
        return None


@dataclass(slots=True)
class _Budget:
    """The rows and bytes that may still be unpacked."""

    rows: int
    bytes: int


def _read_whole(data: bytes, found: Salvage, bounds: Bounds) -> bool:
    """Read a file with Arrow. Return False if Arrow cannot read all of it."""
    try:
        check_file(data, bounds)
        reader = pa.ipc.open_file(pa.py_buffer(data), options=READ_OPTIONS)
        batches = [reader.get_batch(at) for at in range(reader.num_record_batches)]
        for batch in batches:
            batch.validate(full=True)
        _take_schema(reader.schema, found)
        places = _places(reader.schema, found)
        if places is None:
            found.batches = len(batches)
            return True
        for batch in batches:
            columns = [batch.column(at).cast(pa.string()).to_pylist() for at in places]
            found.rows.extend(zip(*columns, strict=True))
            found.batches += 1
    except _FAILURES:
        return False
    return True


def _take_schema(schema: pa.Schema, found: Salvage) -> None:
    metadata: dict[bytes, bytes] = schema.metadata or {}
    found.digest = metadata_text(metadata.get(DIGEST_KEY))
    found.actions_digest = metadata_text(metadata.get(ACTIONS_DIGEST_KEY))
    try:
        found.sizes = decode_sizes(metadata.get(SIZES_KEY), "")
    except Damaged as error:
        found.add(error.reason)


def _places(schema: pa.Schema, found: Salvage) -> list[int] | None:
    """Return the indexes of key, value and pnode among the columns, or None. Report deviations from the format."""
    names = [str(name) for name in schema.names]
    shown = ", ".join(f"{column.name} {column.type}"[:60] for column in list(schema)[:8]) or "none"
    text = {at for at, column in enumerate(schema) if _is_text(column.type)}
    if [names.count(name) for name in COLUMNS] == [1, 1, 1]:
        places = [names.index(name) for name in COLUMNS]
        if text.issuperset(places):
            found.unknown_columns = tuple(name for name in names if name not in COLUMNS)
            if not found.unknown_columns and any(column.type != pa.string() for column in schema):
                found.add(f"its columns are not plain strings: {shown}")
            elif not found.unknown_columns and places != [0, 1, 2]:
                found.add(f"its columns are out of order: {shown}")
            return places
    found.add(f"its columns are not key, value and pnode: {shown}")
    # a damaged column name does not change the column's position
    return [0, 1, 2] if len(names) == 3 and len(text) == 3 else None


def _is_text(type: pa.DataType) -> bool:
    if pa.types.is_dictionary(type):
        type = type.value_type
    return bool(pa.types.is_string(type) or pa.types.is_large_string(type) or pa.types.is_string_view(type))


# Files that Arrow cannot read


def _read_pieces(data: bytes, found: Salvage, budget: _Budget) -> None:
    start = FIRST_MESSAGE
    if not data.startswith(MAGIC):
        start = 0 if data.startswith(MARKER) else FIRST_MESSAGE
    pieces = list(walk(data, start))
    messages = [piece for piece in pieces if isinstance(piece, Message)]
    if not data.startswith(MAGIC):
        if not messages:
            found.add(_foreign(data))
            return
        found.add("it is an Arrow stream, not an Arrow file" if start == 0 else "it does not begin with ARROW1", 0)
    places: list[int] | None = [0, 1, 2]
    width = 3
    schema = _schema(data, messages)
    if schema is None:
        found.add("its schema cannot be read, so its digest is not known", FIRST_MESSAGE)
    else:
        _take_schema(schema, found)
        places, width = _places(schema, found), len(schema)
    for piece in pieces:
        if isinstance(piece, Gap):
            passed = f"; {plural(piece.end - piece.start, 'byte')} passed over" if piece.end < len(data) else ""
            found.add(piece.reason + passed, piece.start, found.batches)
        elif isinstance(piece, Message) and piece.kind == RECORD_BATCH:
            _read_batch(data, piece, places, width, found, budget)
            found.batches += 1
    _check_end(data, pieces, found)


def _schema(data: bytes, messages: Sequence[Message]) -> pa.Schema | None:
    for message in messages:
        if message.kind == SCHEMA:
            try:
                return _readable(pa.ipc.read_schema(pa.py_buffer(data[message.start : message.end])))
            except _FAILURES:
                break
    try:
        # the footer holds a copy
        return _readable(pa.ipc.open_file(pa.py_buffer(data), options=READ_OPTIONS).schema)
    except _FAILURES:
        return None


def _readable(schema: pa.Schema) -> pa.Schema:
    """Return the schema once all names and types are decoded, which Arrow does lazily and which may fail."""
    _ = schema.names, [str(column.type) for column in schema]
    return schema


def _check_end(data: bytes, pieces: Sequence[Message | Gap | End], found: Salvage) -> None:
    """Report the problem after the last message. Arrow could not read the file, so there is a problem somewhere."""
    whole = bool(pieces) and isinstance(pieces[-1], End)
    if whole and data.startswith(MARKER):
        return
    if whole and data.endswith(MAGIC):
        if not found.problems:
            found.add(f"its footer cannot be read, but all rows before it can: {_why(data)}", len(data) - 10)
    elif whole:
        reason = f"it is cut short after {plural(len(data), 'byte')}, in its footer; all rows come before it"
        found.problems.insert(0, Problem(reason, len(data)))
    elif not data.endswith(MAGIC) or len(data) < 16:
        # first, because truncation causes most other problems
        found.problems.insert(0, Problem(f"it is cut short after {plural(len(data), 'byte')}", len(data)))
    elif not found.problems:
        found.add(f"it cannot be read as an Arrow file: {_why(data)}")


def _why(data: bytes) -> str:
    try:
        check_file(data, root_bounds(None, len(data)))
        reader = pa.ipc.open_file(pa.py_buffer(data), options=READ_OPTIONS)
        for at in range(reader.num_record_batches):
            reader.get_batch(at).validate(full=True)
    except _FAILURES as error:
        return one_line(error)
    return "no reason is known"


def _foreign(data: bytes) -> str:
    if not data:
        return "it is empty"
    if not any(data):
        return f"it holds nothing but zeros: {plural(len(data), 'byte')}"
    known = {
        b"PAR1": "a Parquet file",
        b"\x1f\x8b": "a gzip file",
        b"PK\x03\x04": "a zip file",
        b"Obj\x01": "an Avro file",
    }
    what = next((name for magic, name in known.items() if data.startswith(magic)), None)
    head = data[:16]
    text = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in head)
    shown = f"it begins with {head.hex(' ')} {text!a}"
    return f"it is not an Arrow file but {what}: {shown}" if what else f"it is not an Arrow file: {shown}"


# One record batch


def _read_batch(
    data: bytes, message: Message, places: list[int] | None, width: int, found: Salvage, budget: _Budget
) -> None:
    layout, batch, first = message.layout, found.batches, len(found.rows)
    assert layout is not None
    if places is None:
        return
    if len(layout.buffers) != 3 * width:
        found.add("its buffers are not those of its columns", message.start, batch)
        return
    columns = [_Column(data, message, 3 * place, budget) for place in places]
    rows = min(layout.rows, max(column.rows(layout.rows) for column in columns), budget.rows)
    budget.rows -= rows
    cells = [column.cells(rows) for column in columns]
    while rows and all(column[rows - 1] is LOST for column in cells):
        rows -= 1
    for name, column, values in zip(COLUMNS, columns, cells, strict=True):
        lost = [at for at, value in enumerate(values[:rows]) if value is LOST]
        if lost:
            many = f"the {name} of {len(lost)} rows" if len(lost) > 1 else f"a {name}"
            found.add(f"{many} cannot be read: {column.reason}", column.offset, batch, first + lost[0])
        if column.garbled:
            found.add(f"a {name} is not valid UTF-8", None, batch, first + column.garbled[0])
    if rows < layout.rows:
        worst = next((column for column in columns if column.reason), columns[0])
        reason = worst.reason or "its buffers hold no more"
        found.add(f"of {plural(layout.rows, 'row')} {rows:,} can be read: {reason}", worst.offset, batch, first + rows)
    found.rows.extend(zip(*(column[:rows] for column in cells), strict=True))


class _Column:
    """A column of strings: a validity bit per row, the end offset of each value, and the text of all values."""

    def __init__(self, data: bytes, message: Message, first: int, budget: _Budget) -> None:
        assert message.layout is not None
        self.reason = ""
        self.offset: int | None = None
        self.garbled: list[int] = []
        self._budget = budget
        self._nullable = message.layout.buffers[first][1] > 0
        self._valid = self._buffer(data, message, first)
        ends = self._buffer(data, message, first + 1)
        self._edges = struct.unpack(f"<{len(ends) // 4}i", ends[: len(ends) // 4 * 4])
        self._text = self._buffer(data, message, first + 2)

    def rows(self, claimed: int) -> int:
        """Return how many rows are partly known. A NULL needs only its validity bit."""
        known = len(self._edges) - 1
        return max(known, min(claimed, 8 * len(self._valid)), 0)

    def cells(self, rows: int) -> list[Cell]:
        return [self._cell(row) for row in range(rows)]

    def _cell(self, row: int) -> Cell:
        known = not self._nullable or row // 8 < len(self._valid)
        if known and self._nullable and not self._valid[row // 8] >> row % 8 & 1:
            return None
        if row + 1 >= len(self._edges):
            return self._lose("")
        start, end = self._edges[row], self._edges[row + 1]
        if not known and start == end:
            return LOST
        if not 0 <= start <= end <= len(self._text):
            return self._lose("its offsets are invalid")
        raw = self._text[start:end]
        try:
            return raw.decode()
        except UnicodeDecodeError:
            self.garbled.append(row)
            return raw.decode("utf-8", "backslashreplace")

    def _lose(self, reason: str) -> Lost:
        self.reason = self.reason or reason or "its offsets are lost"
        return LOST

    def _buffer(self, data: bytes, message: Message, at: int) -> bytes:
        """Return a buffer, unpacked as far as possible. Store the first problem in `reason` and `offset`."""
        assert message.layout is not None
        offset, size = message.layout.buffers[at]
        start = message.body + offset
        raw = data[start : min(start + size, message.end)]
        reason = ""
        if len(raw) < size:
            reason = "it lies after the end of the file" if message.cut else "it lies outside its record batch"
        codec = message.layout.codec
        if codec is not None and size:
            wanted = struct.unpack("<q", raw[:8])[0] if len(raw) >= 8 else 0
            unpacked = raw[8:] if wanted == -1 else _unpack(codec, raw[8:], min(wanted, self._budget.bytes))
            if not reason and wanted != -1 and len(unpacked) != wanted:
                reason = f"its {codec} data is damaged"
            raw = unpacked
        raw = raw[: self._budget.bytes]
        self._budget.bytes -= len(raw)
        if reason and not self.reason:
            self.reason, self.offset = reason, min(start, len(data))
        return raw


def _unpack(codec: str, packed: bytes, size: int) -> bytes:
    limit = max(0, size)
    if codec == "lz4":
        return arrow.unpack_prefix(packed, limit)
    if codec != "zstd":
        return b""
    out = bytearray()
    try:
        stream = pa.CompressedInputStream(pa.BufferReader(packed), codec)
        while len(out) < limit and (more := stream.read(min(4096, limit - len(out)))):
            out += more
    except _FAILURES:
        pass
    return bytes(out)
