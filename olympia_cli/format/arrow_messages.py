"""Locate the messages of an Arrow file, by its footer or, for files that no Arrow library can open, without it.

A file consists of a magic word, messages, an end mark and the footer. A message consists of a marker, the length of its
metadata, the metadata, and its body. The metadata is a flatbuffer, in which every offset is checked here. After an
invalid message, the next one is found by its marker.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple, cast

MAGIC = b"ARROW1"
MARKER = b"\xff\xff\xff\xff"
FIRST_MESSAGE = 8
SCHEMA, DICTIONARY_BATCH, RECORD_BATCH = 1, 2, 3
CODECS = {0: "lz4", 1: "zstd"}

_MAX_CANDIDATES = 100_000
_MAX_BUFFERS = 4096
_BLOCK = struct.Struct("<qi4xq")
_BUFFER = struct.Struct("<qq")
_USUAL_FOOTER = struct.Struct("<24s4xIII")
_DICTIONARIES = 28
_USUAL_BATCH = struct.Struct("<40s8x32sq16s18q56x")
_USUAL_TABLES = (
    bytes.fromhex("10000000 0c00140006000800 0c001000 0c000000 00000400"),
    bytes.fromhex("ffffffff 28010000 14000000 00000000 0c00180006000500 08000c00 0c000000 00030400 1c000000"),
    bytes.fromhex("00000000 0c001c0010000400 08000c00 0c000000 b8000000 1c000000 14000000"),
    bytes.fromhex("00000000 04000400 04000000 09000000"),
)
"""The fixed bytes of Arrow's usual footer, and of its metadata for a batch of three columns in lz4.
A match means that all numbers are at their usual offsets, where one `unpack` reads them."""
_INT8, _UINT8, _UINT16, _INT32, _UINT32, _INT64 = map(struct.Struct, ("<b", "<B", "<H", "<i", "<I", "<q"))


class Nonsense(Exception):
    """The bytes are not the metadata of a message."""


class Layout(NamedTuple):
    """The metadata of a record batch: the number of rows, and each buffer's offset and size in the body."""

    rows: int
    buffers: tuple[tuple[int, int], ...]
    codec: str | None


class Message(NamedTuple):
    """A message at `start`. `end` is its end, or the file's end if the body is truncated (`cut`)."""

    start: int
    body: int
    end: int
    kind: int
    layout: Layout | None
    cut: bool


class Gap(NamedTuple):
    """Bytes that are not a message. `end` is the file's length if no message follows."""

    start: int
    end: int
    reason: str


class End(NamedTuple):
    """The mark after the last message."""

    at: int


def walk(data: bytes, start: int = FIRST_MESSAGE) -> Iterator[Message | Gap | End]:
    """Yield the messages and the gaps between them in order, up to the end mark or the end of the data."""
    at = start
    while at < len(data):
        if data[at : at + 8] == MARKER + bytes(4):
            yield End(at)
            return
        try:
            message = _message(data, at)
        except Nonsense as error:
            end = _next_message(data, at + 1)
            yield Gap(at, end, str(error))
            at = end
            continue
        yield message
        at = message.end


Block = tuple[int, int]
"""A batch in the footer: its offset, and the length of its metadata."""


def footer_blocks(data: bytes) -> tuple[list[Block], list[Block]]:
    """Return the dictionaries and the record batches in the footer. Raise Nonsense if it cannot be read."""
    end = len(data) - len(MAGIC) - 4
    length = _number(data, _INT32, end)
    if not 0 < length <= end:
        raise Nonsense("its footer is invalid")
    usual = _usual_blocks(data, end - length, end)
    if usual is not None:
        return [], usual
    footer = _Table.root(data[end - length : end])
    dictionaries, batches = footer.structs(_BLOCK, 2), footer.structs(_BLOCK, 3)
    return [(at, metadata) for at, metadata, _ in dictionaries], [(at, metadata) for at, metadata, _ in batches]


def _usual_blocks(data: bytes, start: int, end: int) -> list[Block] | None:
    """Return the record batches of a footer with the usual layout and no dictionaries, or None for any other footer."""
    blocks = start + _USUAL_FOOTER.size
    if blocks > end:
        return None
    tables, dictionaries, offset, count = _USUAL_FOOTER.unpack_from(data, start)
    none = start + _DICTIONARIES + dictionaries
    if tables != _USUAL_TABLES[0] or offset != 4 or count > _MAX_BUFFERS or blocks + count * _BLOCK.size > end:
        return None
    if none + 4 > end or any(data[none : none + 4]):
        return None
    return [_BLOCK.unpack_from(data, blocks + at * _BLOCK.size)[:2] for at in range(count)]


def block_layout(data: bytes, block: Block) -> tuple[int, Layout]:
    """Return the offset of a batch's body, and its layout. Files older than Arrow 0.15 have no marker."""
    at, metadata = block
    prefix = 8 if data[at : at + 4] == MARKER else 4
    if at < 0 or metadata <= prefix or at + metadata > len(data):
        raise Nonsense("its footer refers to a missing record batch")
    if metadata == _USUAL_BATCH.size:
        message, batch, rows, compression, *numbers = _USUAL_BATCH.unpack_from(data, at)
        if (message, batch, compression) == _USUAL_TABLES[1:] and min(numbers) >= 0:
            buffers = tuple(zip(numbers[::2], numbers[1::2], strict=True))
            return at + metadata, Layout(max(0, rows), buffers, CODECS[0])
    table = _Table.root(data[at + prefix : at + metadata])
    content = table.table(2)
    return at + metadata, _layout(content.table(1) if table.number(_UINT8, 1) == DICTIONARY_BATCH else content)


def _next_message(data: bytes, at: int) -> int:
    """Return the offset of the next valid message, or the length of the data."""
    for _ in range(_MAX_CANDIDATES):
        at = data.find(MARKER, at)
        if at < 0:
            return len(data)
        if data[at : at + 8] == MARKER + bytes(4) and len(data) - at > 8:
            return at
        try:
            message = _message(data, at)
            if message.kind == SCHEMA or (message.layout is not None and message.layout.buffers):
                return at
        except Nonsense:
            pass
        at += 1
    return len(data)


def _message(data: bytes, at: int) -> Message:
    if not any(data[at : at + 8]):
        length = len(data) - at
        zeros = not any(data[at:])
        raise Nonsense(f"the last {length:,} bytes are all zero" if zeros else "zeros instead of a message")
    if data[at : at + 4] != MARKER[: len(data) - at]:
        raise Nonsense("no message begins here")
    if at + 8 > len(data):
        raise Nonsense("the file ends in the middle of a message's header")
    length = int.from_bytes(data[at + 4 : at + 8], "little")
    body = at + 8 + length
    if not 16 <= length <= 2**24:
        raise Nonsense(f"a message claims a header of {length:,} bytes")
    if body > len(data):
        raise Nonsense("the file ends in the middle of a message's header")
    table = _Table.root(data[at + 8 : body])
    kind = table.number(_UINT8, 1)
    claimed = table.number(_INT64, 3)
    layout = _layout(table.table(2)) if kind == RECORD_BATCH else None
    if kind not in (SCHEMA, RECORD_BATCH) or claimed < 0:
        raise Nonsense("a message is neither a schema nor a record batch")
    end = body + claimed
    if layout is not None and end > len(data):
        # the length may be damaged: the offsets of the buffers are a second source
        needed = max((offset + size for offset, size in layout.buffers), default=0)
        end = min(end, body + (needed + 7) // 8 * 8)
    return Message(at, body, min(end, len(data)), kind, layout, end > len(data))


def _layout(batch: _Table) -> Layout:
    buffers = tuple(cast("Iterator[tuple[int, int]]", batch.structs(_BUFFER, 2)))
    if min(map(min, buffers), default=0) < 0:
        raise Nonsense("a record batch has buffers before its beginning")
    rows = batch.number(_INT64, 0)
    compression = batch.optional_table(3)
    codec = None if compression is None else CODECS.get(compression.number(_INT8, 0), "unknown")
    return Layout(max(0, rows), buffers, codec)


class _Table:
    """A table of a flatbuffer. Offsets outside the data raise Nonsense."""

    __slots__ = ("_at", "_data", "_fields", "_size")

    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at
        self._fields = at - _number(data, _INT32, at)
        self._size = _number(data, _UINT16, self._fields)

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, _number(data, _UINT32, 0))

    def number(self, layout: struct.Struct, field: int) -> int:
        at = self._field(field)
        return 0 if at is None else _number(self._data, layout, at)

    def table(self, field: int) -> _Table:
        found = self.optional_table(field)
        if found is None:
            raise Nonsense("a message lacks its content")
        return found

    def optional_table(self, field: int) -> _Table | None:
        at = self._field(field)
        return None if at is None else _Table(self._data, at + _number(self._data, _UINT32, at))

    def structs(self, layout: struct.Struct, field: int) -> Iterator[tuple[int, ...]]:
        at = self._field(field)
        if at is None:
            return
        at += _number(self._data, _UINT32, at)
        count = _number(self._data, _UINT32, at)
        end = at + 4 + count * layout.size
        if count > _MAX_BUFFERS or end > len(self._data):
            raise Nonsense("a record batch has more buffers than its header holds")
        yield from layout.iter_unpack(self._data[at + 4 : end])

    def _field(self, number: int) -> int | None:
        slot = 4 + 2 * number
        if slot + 2 > self._size:
            return None
        offset = _number(self._data, _UINT16, self._fields + slot)
        return self._at + offset if offset else None


def _number(data: bytes, layout: struct.Struct, at: int) -> int:
    try:
        if at >= 0:
            number: int = layout.unpack_from(data, at)[0]
            return number
    except struct.error:
        pass
    raise Nonsense("a message's header is invalid")
