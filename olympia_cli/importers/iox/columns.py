"""The columns of an IOx table: those of all its files together, and the statistics of their values."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.conversions import to_bytes
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
)
from pyiceberg.utils.truncate import truncate_upper_bound_text_string

from olympia_cli.importers.iox.transactions import Chunk, read_chunk
from olympia_cli.importers.wire import Garbled, read_struct

# Decode the footers of Parquet files that a catalog stores: columns, statistics, and IOx's own metadata. Pure.

TIME = "time"
Value = bool | int | float | str
_ZSTD = b"\x28\xb5\x2f\xfd"
_IOX = "IOX:metadata"
_LARGEST = 2**28
"""Highest number of bytes of an unpacked footer, whatever its header states."""
_BOOLEAN, _INT64, _DOUBLE, _BYTE_ARRAY = 0, 2, 5, 6
_FORMATS = {_BOOLEAN: "<?", _INT64: "<q", _DOUBLE: "<d"}
_STRING, _TIMESTAMP, _INTEGER, _NANOS = 1, 8, 10, 3
"""Numbers of Parquet's logical types, and of the unit of a time."""
_UTF8, _INT_64, _UINT64 = 0, 10, 14


@dataclass(frozen=True, slots=True)
class ColumnChunk:
    """A column in a row group: its bytes, its number of values including nulls, its nulls, and its least and greatest
    value. None means not stated."""

    size: int
    values: int
    nulls: int | None
    least: Value | None
    most: Value | None


@dataclass(frozen=True, slots=True)
class FileColumn:
    """A column of a file: its type, under Iceberg's name if Iceberg has it, and its row groups."""

    name: str
    type: str
    chunks: list[ColumnChunk]

    @property
    def bounds(self) -> tuple[Value, Value] | None:
        """The least and the greatest value; None if there is no value, or if a row group does not state its bounds."""
        # a group with only nulls has no bounds, and needs none
        chunks = [one for one in self.chunks if one.nulls is None or one.nulls < one.values]
        least = [one.least for one in chunks if one.least is not None and one.least == one.least]
        most = [one.most for one in chunks if one.most is not None and one.most == one.most]
        if not chunks or len(least) < len(chunks) or len(most) < len(chunks):
            return None
        return min(least), max(most)


@dataclass(frozen=True, slots=True)
class IoxFooter:
    """The description that a Parquet file has of itself."""

    table: str
    partition: str
    chunk: Chunk
    rows: int
    columns: list[FileColumn]

    @property
    def times(self) -> tuple[int, int] | None:
        """The first and the last time in the file, in nanoseconds; None if not stated."""
        found = next((column.bounds for column in self.columns if column.name == TIME), None)
        return None if found is None else (int(found[0]), int(found[1]))


def decode_footer(data: bytes) -> IoxFooter:
    """Decode a footer. Raise Garbled if it cannot be read."""
    try:
        found = read_struct(memoryview(_unpacked(data)))
        columns = list(_columns(found))
        pairs = {str(pair[1], "utf-8"): pair.get(2, b"") for pair in found.get(5, ())}
        own = base64.b64decode(bytes(pairs.get(_IOX, b"")), validate=True)
        rows = int(found[3])
    except Garbled as garbled:
        raise Garbled(f"its footer cannot be read: {garbled}") from None
    except (KeyError, TypeError, AttributeError, ValueError, IndexError, binascii.Error, struct.error):
        raise Garbled("its footer cannot be read: it is not that of a Parquet file of IOx") from None
    if rows < 0:
        raise Garbled("its footer states a negative number of rows")
    return _described(memoryview(own), rows, columns)


def _unpacked(data: bytes) -> bytes:
    """Return the uncompressed footer; older versions of IOx did not compress it."""
    if data[:4] != _ZSTD:
        return data
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            found: bytes = stream.read(_LARGEST + 1)
    except (pa.ArrowException, OSError) as error:
        raise Garbled("it cannot be unpacked: " + " ".join(str(error).split())[:200]) from None
    if len(found) > _LARGEST:
        raise Garbled(f"it unpacks to more than {_LARGEST:,} bytes")
    return found


def _columns(footer: dict[int, Any]) -> Iterator[FileColumn]:
    """Yield the columns in order. IOx writes no nested ones."""
    root, *elements = footer[2]
    if root[5] != len(elements):
        raise Garbled("its columns are nested")
    groups = [[chunk[3] for chunk in group[1]] for group in footer[4]]
    for at, element in enumerate(elements):
        name = str(element[4], "utf-8")
        chunks = [group[at] for group in groups]
        if any([str(part, "utf-8") for part in chunk[3]] != [name] for chunk in chunks):
            raise Garbled("its columns are not those of its groups")
        yield FileColumn(name, _type(element), [_chunk(chunk, element[1], _type(element)) for chunk in chunks])


def _type(element: dict[int, Any]) -> str:
    if element.get(5) or element.get(3) == 2:
        raise Garbled("its columns are nested")
    if element.get(9, -1) >= 0:
        # readers match columns by ids, and would find other columns
        raise Garbled("its columns have ids, which are those of another table")
    physical, converted, logical = element[1], element.get(6), element.get(10, {})
    match physical:
        case 0:
            return "boolean"
        case 2 if _TIMESTAMP in logical:
            is_fine = _NANOS in logical[_TIMESTAMP].get(2, {})
            return "timestamp_ns" if is_fine and not logical[_TIMESTAMP].get(1) else "another time"
        case 2 if converted == _UINT64 or logical.get(_INTEGER, {}).get(2) is False:
            return "uint64"
        case 2 if converted in (None, _INT_64) and logical.keys() <= {_INTEGER}:
            return "long"
        case 5:
            return "double"
        case 6 if converted == _UTF8 or _STRING in logical:
            return "string"
    return f"Parquet's {physical}, {converted}"


def _chunk(chunk: dict[int, Any], physical: int, type: str) -> ColumnChunk:
    said = chunk.get(12, {})
    # the older fields are unreliable for text: some writers compared its bytes as signed
    older = (None, None) if type == "string" else (said.get(2), said.get(1))
    least, most = said.get(6, older[0]), said.get(5, older[1])
    nulls = None if 3 not in said else int(said[3])
    return ColumnChunk(int(chunk[7]), int(chunk[5]), nulls, _value(least, physical), _value(most, physical))


def _value(data: bytes | None, physical: int) -> Value | None:
    if data is None:
        return None
    if physical == _BYTE_ARRAY:
        try:
            return str(data, "utf-8")
        except UnicodeDecodeError:
            return None
    found: Value | None = struct.unpack(_FORMATS[physical], data)[0] if physical in _FORMATS else None
    return found


def _described(data: memoryview, rows: int, columns: list[FileColumn]) -> IoxFooter:
    table, partition, id = read_chunk(data, (3, 4, 5, 11))
    if not table:
        raise Garbled("its footer does not say which table it is of")
    return IoxFooter(table, partition, (table, partition, id), rows, columns)


_TYPES: dict[str, PrimitiveType | None] = {
    "string": StringType(),
    "long": LongType(),
    "uint64": None,
    "double": DoubleType(),
    "boolean": BooleanType(),
    "timestamp_ns": TimestampNanoType(),
}
"""The types that IOx writes: tags and text, numbers, booleans, and times. None stands for a type that Iceberg does not
have."""
_SHOWN = 16


class ColumnConflict(Exception):
    """A file does not fit its table."""


def columns_of(footer: IoxFooter) -> dict[str, PrimitiveType | None]:
    """Return the columns of a file; the value is None for a type that Iceberg does not have. Raise ColumnConflict for a
    type that IOx does not write."""
    found: dict[str, PrimitiveType | None] = {}
    for column in footer.columns:
        if column.name in found:
            raise ColumnConflict("two of its columns have one name")
        if column.type not in _TYPES:
            raise ColumnConflict(f"its column {column.name!a} is of a type that IOx does not write: {column.type}")
        found[column.name] = _TYPES[column.type]
    return found


def united(
    before: Mapping[str, PrimitiveType | None], columns: Mapping[str, PrimitiveType | None]
) -> dict[str, PrimitiveType | None]:
    """Return the columns of a table and one more file together. Raise ColumnConflict if a column has two types."""
    for name, type in columns.items():
        if name in before and before[name] != type:
            raise ColumnConflict(
                f"the column {name!a} is {_shown(type)} here, and {_shown(before[name])} in files before it"
            )
    return {**before, **columns}


def _shown(type: PrimitiveType | None) -> str:
    return "uint64" if type is None else str(type)


def statistics(footer: IoxFooter, ids: Mapping[str, tuple[int, PrimitiveType]]) -> dict[str, dict[int, Any]]:
    """Return the column statistics of a file in the form of manifests. Long text is truncated as by other writers of
    Iceberg: the lower bound downwards, the upper bound upwards."""
    found: dict[str, dict[int, Any]] = {
        name: {} for name in ("column_sizes", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    }
    for column in footer.columns:
        if column.name not in ids:
            continue
        id, type = ids[column.name]
        found["column_sizes"][id] = sum(chunk.size for chunk in column.chunks)
        found["value_counts"][id] = sum(chunk.values for chunk in column.chunks)
        nulls = [chunk.nulls for chunk in column.chunks if chunk.nulls is not None]
        if len(nulls) == len(column.chunks):
            found["null_value_counts"][id] = sum(nulls)
        if (bounds := column.bounds) is not None:
            least, most = bounds
            found["lower_bounds"][id] = to_bytes(type, least[:_SHOWN] if isinstance(least, str) else least)
            greatest = _cut_upwards(most) if isinstance(most, str) else most
            if greatest is not None:
                found["upper_bounds"][id] = to_bytes(type, greatest)
    return found


def _cut_upwards(text: str) -> str | None:
    return text if len(text) <= _SHOWN else truncate_upper_bound_text_string(text, _SHOWN)
