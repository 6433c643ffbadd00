"""Read the footers of Parquet files, after a check that each is safe for Arrow."""

from __future__ import annotations

import io
import re
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol

import pyarrow.parquet as pq
from pyiceberg.io import FileIO, load_file_io

from olympia_cli.iceberg import io_properties, parse_location, same_sdk, schema_without_ids
from olympia_cli.importers.parquet import ParquetFile, ParquetFooter
from olympia_cli.importers.wire import BINARY, INT, LONG, STRUCT, Each, Garbled, Some, read_struct
from olympia_cli.storage.open import scheme_of
from olympia_cli.storage.protocol import Store

# Check that the footer of a Parquet file is safe for Arrow. Pure.
#
# Arrow's reader ends the whole program if a row group does not fit the file's columns.

_SIZES = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""Bytes of a value, by its physical type; a column of fixed length states its own."""
_OPTIONAL, _REPEATED = 1, 2
_COLUMN = {1: INT, 2: INT, 3: INT, 5: INT}
_BOUNDS = {1: BINARY, 2: BINARY, 5: BINARY, 6: BINARY}
_DEPTHS = {2: Some(LONG), 3: Some(LONG)}
_LISTS = {2: Some(INT), 3: Some(BINARY), 8: Each({}), 13: Each({})}
_CHUNK = {3: {1: INT, 12: _BOUNDS, 16: _DEPTHS, **_LISTS}}


def _bytes(numbers: Iterable[int]) -> bytes:
    return b"[" + b"".join(b"\\x%02x" % number for number in numbers) + b"]"


def _list_of(kind: int, item: bytes) -> bytes:
    """Return a pattern for a list of up to 14 items, whose number is in its first byte."""
    return b"(?:" + b"|".join(_bytes([n << 4 | kind]) + b"(?:%b){%d}" % (item, n) for n in range(15)) + b")"


_NUMBER = rb"[\x80-\xff]{0,9}+[\x00-\x7f]"
# a field begins with the distance of its number from that of the field before, and its type
_NUMBERS = _bytes(step << 4 | kind for step in range(1, 16) for kind in (4, INT, LONG)) + _NUMBER


def _text(least: int) -> bytes:
    """Return a pattern for `least` to 127 bytes."""
    lengths = range(max(least, 0), 128)
    return b"(?:" + b"|".join(_bytes([n]) + b".{%d}" % n for n in lengths) + b")" if lengths else b"(?!)"


@cache
def _usual_statistics(least: int) -> re.Pattern[bytes]:
    """Return a pattern for statistics whose bounds have at least `least` bytes."""
    truths = _bytes(step << 4 | kind for step in range(1, 16) for kind in (1, 2))
    texts = _bytes(step << 4 | BINARY for step in range(1, 16)) + _text(least)
    return re.compile(b"(?:" + _NUMBERS + b"|" + texts + b"|" + truths + rb")*+\x00", re.DOTALL)


@cache
def _usual_chunk() -> re.Pattern[bytes]:
    """Return a pattern for a column chunk as most writers encode it: its fields in order, and none of them long. It
    captures the type, the statistics, and the lists of level counts."""
    depths = b"(" + _list_of(LONG, _NUMBER) + b")"
    return re.compile(
        rb"\x26" + _NUMBER + rb"\x1c\x15([\x00-\x7f])"
        rb"\x19" + _list_of(INT, _NUMBER) + rb"\x19" + _list_of(BINARY, _text(0)) + rb"\x15" + _NUMBER
        + (rb"\x16" + _NUMBER) * 3 + rb"\x26" + _NUMBER
        + rb"(?:\x3c|\x26" + _NUMBER + rb"\x1c)(" + _usual_statistics(0).pattern + rb")"
        + rb"(?:(?:\x19" + _list_of(STRUCT, b"(?:" + _NUMBERS + rb")*+\x00") + rb"\x3c|\x4c)"
        + rb"(?:\x16" + _NUMBER + rb"\x19|\x29)" + depths + rb"\x19" + depths + rb"\x00)?\x00"
        + rb"(?:" + _NUMBERS + rb")*+\x00",
        re.DOTALL,
    )  # fmt: skip


def _quick(data: bytes, at: int) -> tuple[dict[int, Any], int] | None:
    """Return the same as the general decoder for a usual column chunk, in a quarter of the time: a wide table has a
    hundred thousand of them."""
    if (found := _usual_chunk().match(data, at)) is None:
        return None
    kind, statistics, *depths = found.groups()
    told: dict[int, Any] = {1: (kind[0] >> 1) ^ -(kind[0] & 1), 12: statistics}
    if depths[0]:
        # the first byte has the number of items
        told[16] = {2: range(depths[0][0] >> 4), 3: range(depths[1][0] >> 4)}
    return {3: told}, found.end()


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column with values: its physical type, the bytes of a value, and its greatest definition and
    repetition levels."""

    type: int
    size: int
    defined: int
    repeated: int


def check_footer(data: memoryview) -> None:
    """Raise Garbled if Arrow cannot read the footer, or would crash on it."""
    columns: list[dict[int, Any]] = []
    leaves: list[_Leaf] = []

    def check(group: dict[int, Any]) -> None:
        if not leaves:
            leaves.extend(_leaves(columns))
        chunks = group.get(1, [])
        if len(chunks) != len(leaves):
            raise Garbled("a group of its rows has other columns than the file")
        for chunk, leaf in zip(chunks, leaves, strict=True):
            _check(chunk[3], leaf)

    groups = Each({1: Each(_CHUNK, quick=_quick), 4: Each({})}, check)
    try:
        read_struct(data, {2: Each(_COLUMN, columns.append), 4: groups, 5: Each({}), 7: Each({})})
    except (KeyError, TypeError, AttributeError, struct.error):
        raise Garbled("it is not that of a Parquet file") from None


def _leaves(elements: Iterable[dict[int, Any]]) -> Iterator[_Leaf]:
    """Yield the columns with values in order; the first element is the whole row."""
    above: list[list[int]] = [[1, 0, 0]]
    for element in elements:
        while above and not above[-1][0]:
            above.pop()
        if not above:
            raise Garbled("it has columns that lie nowhere")
        above[-1][0] -= 1
        _, defined, repeated = above[-1]
        if len(above) > 1:
            defined += element.get(3) in (_OPTIONAL, _REPEATED)
            repeated += element.get(3) == _REPEATED
        if len(above) > 1 and 1 in element and not element.get(5):
            yield _Leaf(element[1], _SIZES.get(element[1], element.get(2, 0)), defined, repeated)
        else:
            above.append([element.get(5, 0), defined, repeated])


def _check(chunk: dict[int, Any], leaf: _Leaf) -> None:
    if chunk[1] != leaf.type:
        raise Garbled("a group of its rows has a column of another type than the file")
    bounds = chunk.get(12, {})
    if isinstance(bounds, bytes):
        is_long = _usual_statistics(leaf.size).fullmatch(bounds) is not None
        bounds = {} if is_long else read_struct(memoryview(bounds), _BOUNDS)
    # the older fields count only if there are no newer ones
    for at in (5, 6) if {5, 6} & bounds.keys() else (1, 2):
        if at in bounds and len(bounds[at]) < leaf.size:
            raise Garbled("the least or greatest value of a column is cut short")
    depths = chunk.get(16, {})
    if any(len(depths.get(at, ())) not in (0, most + 1) for at, most in ((2, leaf.repeated), (3, leaf.defined))):
        raise Garbled("a column does not lie as deep as it says")


# Read the footers of Parquet files, by threads of this process or by another implementation.
#
# A footer is read in one request, unless it is unusually long. The length that a file states is checked against the
# length in the listing before it is used.

AT_ONCE = 1024
MOST_BYTES = 64 * 1024 * 1024
"""Highest number of bytes of a footer: it takes several times as much when decoded."""
_GUESS = 64 * 1024
_END = 8
_MAGIC = b"PAR1"
_WORKERS = 16


class Footers(Protocol):
    """A reader of footers. `at_once` is the number of files that it gets together."""

    @property
    def at_once(self) -> int: ...

    def read(self, files: Sequence[ParquetFile]) -> Iterator[ParquetFooter | str]:
        """Yield the footer of each file in order, or the reason why it is unreadable."""
        ...


@dataclass(frozen=True, slots=True)
class LocalFooters:
    base: str
    io: FileIO
    at_once: int = AT_ONCE

    def read(self, files: Sequence[ParquetFile]) -> Iterator[ParquetFooter | str]:
        with ThreadPoolExecutor(_WORKERS) as pool:
            yield from pool.map(lambda file: read_footer(self.io, self.base, file), files)


def read_footer(files: FileIO, base: str, file: ParquetFile) -> ParquetFooter | str:
    """Return the footer of a file, or the reason why it is unreadable: a broken file does not stop the others."""
    try:
        with files.new_input(parse_location(f"{base}/{file.path}").plain_text()).open() as stream:
            end = _read_end(stream, file.size)
        if isinstance(end, str):
            return end
        check_footer(memoryview(end)[-_length(end) : -_END])
        metadata = pq.read_metadata(io.BytesIO(end))
        schema = metadata.schema.to_arrow_schema()
        schema_without_ids(schema)
        return ParquetFooter(file, metadata, schema)
    except Exception as error:
        return "it cannot be read: " + (" ".join(str(error).split()) or type(error).__name__)[:200]


def _read_end(stream: Any, size: int) -> bytes | str:
    """Return the footer with the bytes around it, or what is wrong with the file."""
    found = stream.seek(0, io.SEEK_END)
    if found != size:
        return f"it has {found} bytes, and was listed with {size}: it is being written, or is another file here"
    end = _tail(stream, size, _GUESS)
    if len(end) < _END + len(_MAGIC) or not end.endswith(_MAGIC):
        return "it is no Parquet file, or was not written to its end"
    wanted = _length(end)
    if wanted > size - len(_MAGIC):
        return "it is no Parquet file, or was not written to its end"
    if wanted > MOST_BYTES:
        return f"its footer has {wanted:,} bytes, and no more than {MOST_BYTES:,} are read"
    # the file must have bytes before its footer
    return end if wanted + len(_MAGIC) <= len(end) else _tail(stream, size, wanted + len(_MAGIC))


def _length(end: bytes) -> int:
    """Return the length that a file states for its footer, with the bytes after it."""
    return int.from_bytes(end[-_END : -len(_MAGIC)], "little") + _END


def _tail(stream: Any, size: int, length: int) -> bytes:
    stream.seek(max(size - length, 0))
    return bytes(stream.read(min(size, length)))


def open_io(location: str, properties: Mapping[str, str]) -> FileIO:
    """Return PyIceberg's access to the files, with the SDK that lists them."""
    return load_file_io({**same_sdk(location), **properties}, location)


@dataclass(slots=True)
class SourceFolder:
    """The folder of a source: its location as tables name it, and PyIceberg's properties for its files, which may hold
    secrets."""

    base: str
    properties: Mapping[str, str] = field(default_factory=dict, repr=False)
    io: FileIO = field(init=False, repr=False)

    def __post_init__(self) -> None:
        self.io = open_io(self.base, self.properties)

    @classmethod
    def of(cls, uri: str, store: Store, options: Mapping[str, object]) -> SourceFolder:
        """Return the folder at a URI as the user gave it; `store` is its store."""
        base = f"file://{store.uri}" if scheme_of(uri) == "file" else uri.rstrip("/")
        return cls(base, io_properties(uri, options))
