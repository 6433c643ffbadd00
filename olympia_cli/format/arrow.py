"""The bytes of Arrow files, without an Arrow library: limits of the unpacked size, the messages of a file, and LZ4
frames up to the first damage.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple, cast

from olympia_cli.format.node import Sizes

# Limits for the unpacked size of a node file, checked before anything is unpacked.
#
# A few kilobytes can unpack to gigabytes. The rows of a tree are limited by the catalog's order and name sizes. The
# action rows are limited by the size of their file.

MAX_NODE_BYTES = 2**27
"""The largest unpacked size of a node in any catalog."""

_MAX_ORDER = 2**20
_POINTERS = 2 * 4096 + 64
"""Bytes for the two paths of a row and Arrow's overhead. Paths of this program have at most 267 bytes."""
_MORE_ROWS = 1024
"""Room for system rows, and for rows with which other programs pad a node."""
_LOG_BYTES, _LOG_ROWS = 2**24, 2**12
_LARGEST_ACTION = 2**26 * 4 // 3 + 2**20
"""Bytes of an action with the largest definition, in base64, plus some others. It may compress well, and is legal."""
_PACKED_ACTION = 32
"""The smallest packed size of an action: its ids do not compress."""
_UNPACKED_ACTION = 1024
"""Average unpacked bytes of an action beside its key."""


class Bounds(NamedTuple):
    """The largest number of rows, and of bytes in all buffers together."""

    rows: int
    bytes: int


@lru_cache(maxsize=16)
def tree_bounds(sizes: Sizes | None) -> Bounds:
    """Return the bounds of a node in a catalog with these sizes, or in any catalog."""
    rows = 2 * (sizes.order if sizes is not None else _MAX_ORDER) + _MORE_ROWS
    if sizes is None:
        return Bounds(rows, MAX_NODE_BYTES)
    return Bounds(rows, min(rows * (_key_bytes(sizes) + _POINTERS), MAX_NODE_BYTES))


def root_bounds(sizes: Sizes | None, packed: int) -> Bounds:
    """Return the bounds of a root whose file has `packed` bytes. They allow for more actions in a larger file."""
    tree, actions = tree_bounds(sizes), packed // _PACKED_ACTION
    wanted = actions * ((_key_bytes(sizes) if sizes is not None else 0) + _UNPACKED_ACTION)
    log = min(wanted, 2 * MAX_NODE_BYTES + actions * _UNPACKED_ACTION)
    return Bounds(tree.rows + _LOG_ROWS + actions, max(tree.bytes + _LOG_BYTES, _LARGEST_ACTION) + log)


def _key_bytes(sizes: Sizes) -> int:
    return 4 + sizes.namespace + max(sizes.table, sizes.view)


class TooMuch(Exception):
    """The unpacked size of a file exceeds its bounds."""


def unpacked_bytes(data: bytes, body: int, layout: Layout) -> int:
    """Return the unpacked size that the buffers of a batch claim."""
    if layout.codec is None:
        return sum(size for _, size in layout.buffers)
    total = 0
    for offset, size in layout.buffers:
        if size:
            # a compressed buffer begins with its unpacked length; -1 means that it is stored uncompressed
            start = body + offset
            claimed = struct.unpack_from("<q", data, start)[0] if start + 8 <= len(data) else 0
            total += size if claimed == -1 else claimed & 2**63 - 1
    return total


def check_batch(data: bytes, body: int, layout: Layout, bounds: Bounds) -> Bounds:
    """Return the bounds left after a batch. Raise TooMuch if the batch exceeds them."""
    return within(layout.rows, unpacked_bytes(data, body, layout), bounds)


def within(rows: int, unpacked: int, bounds: Bounds) -> Bounds:
    """Like `check_batch`, for a batch with `rows` rows and `unpacked` bytes."""
    if rows > bounds.rows or unpacked > bounds.bytes:
        raise TooMuch(f"it unpacks to {rows:,} rows and {unpacked:,} bytes, more than any node")
    return Bounds(bounds.rows - rows, bounds.bytes - unpacked)


def check_file(data: bytes, bounds: Bounds) -> None:
    """Raise TooMuch if the batches in the footer exceed the bounds, and Nonsense if they cannot be read."""
    dictionaries, batches = footer_blocks(data)
    for block in (*dictionaries, *batches):
        bounds = check_batch(data, *block_layout(data, block), bounds)


# Locate the messages of an Arrow file, by its footer or, for files that no Arrow library can open, without it.
#
# A file consists of a magic word, messages, an end mark and the footer. A message consists of a marker, the length of
# its metadata, the metadata, and its body. The metadata is a flatbuffer, in which every offset is checked here. After
# an invalid message, the next one is found by its marker.

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


# Unpack LZ4 frames up to the first damage. LZ4 libraries return a block completely or not at all.
#
# A frame is a header and blocks of sequences. A sequence is a run of literal bytes and a copy of earlier output.

_MAGIC = b"\x04\x22\x4d\x18"
_STORED = 0x8000_0000


def unpack_prefix(frame: bytes, limit: int) -> bytes:
    """Return the content of the frame up to the first unreadable byte, and at most `limit` bytes."""
    out = bytearray()
    if frame[:4] != _MAGIC or len(frame) < 7:
        return b""
    flags = frame[4]
    block_checksum = 4 if flags & 0x10 else 0
    at = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    while at + 4 <= len(frame) and len(out) < limit:
        size = int.from_bytes(frame[at : at + 4], "little")
        if size == 0:
            break
        stored, size = bool(size & _STORED), size & ~_STORED
        block = frame[at + 4 : at + 4 + size]
        if stored:
            out += block
        elif not _unpack_block(block, out, limit):
            break
        if len(block) < size:
            break
        at += 4 + size + block_checksum
    return bytes(out[:limit])


def _unpack_block(block: bytes, out: bytearray, limit: int) -> bool:
    """Append the block's content. Return False if the block is invalid, or at the limit."""
    at, end = 0, len(block)
    while at < end:
        token = block[at]
        at += 1
        literals, at = _length(block, at, token >> 4)
        out += block[at : at + literals]
        at += literals
        if at + 2 > end or len(out) >= limit:
            # the last sequence of a sound block has only literals
            return at == end and len(out) < limit
        distance = block[at] | block[at + 1] << 8
        length, at = _length(block, at + 2, token & 15)
        if not 0 < distance <= len(out):
            return False
        wanted = min(length + 4, limit - len(out))
        # a copy may overlap its own output, which repeats the pattern
        pattern = out[len(out) - distance :]
        out += (pattern * (wanted // distance + 1))[:wanted]
    return True


def _length(block: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while at < len(block):
            length += block[at]
            at += 1
            if block[at - 1] != 255:
                break
    return length, at
