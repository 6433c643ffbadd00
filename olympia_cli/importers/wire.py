"""Wire formats of other programs, Thrift's compact protocol and Protobuf, with checks for damage."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

# Read Thrift's compact protocol, in which Parquet's footers are written. Arrow's reader can crash the process on a
# damaged footer, so footers are read here first.

_DEEPEST = 32
_TRUE, _FALSE, _BYTE, _DOUBLE, _LIST, _SET, _MAP, _UUID = 1, 2, 3, 7, 9, 10, 11, 13
INT, LONG, BINARY, STRUCT = 5, 6, 8, 12
_INTEGERS = (4, INT, LONG)
_NOTHING: dict[int, Any] = {}


@dataclass(frozen=True, slots=True)
class Each:
    """A list of structs: the fields to keep of each, and a function that takes them, because a footer may have
    millions. `quick` gets the position of a struct first; it returns the struct and the end, or None."""

    wanted: dict[int, Any]
    take: Callable[[dict[int, Any]], object] | None = None
    quick: Callable[[bytes, int], tuple[dict[int, Any], int] | None] = lambda data, at: None


@dataclass(frozen=True, slots=True)
class Some:
    """A list of plain values of one type."""

    type: int


_LISTS = (Each, Some)
Wanted = dict[int, Any] | Each | Some | int | None
"""The fields of a struct to keep, by number, and their types: a struct, a list, or a plain type. A field of another
type is skipped, as in every Thrift reader. None keeps all fields."""


def read_struct(data: memoryview, wanted: dict[int, Any] | None = None) -> dict[int, Any]:
    """Return the fields of a struct by number. Raise Garbled if it is malformed or cut short."""
    try:
        # indexing bytes is faster than indexing a memoryview
        return _struct(bytes(data), 0, 0, wanted)[0]
    except IndexError:
        raise Garbled("it is cut short") from None


def _struct(data: bytes, at: int, depth: int, wanted: dict[int, Any] | None) -> tuple[dict[int, Any], int]:
    if depth > _DEEPEST:
        raise Garbled("it is too deep")
    found: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = _zigzag(data, at)
        kind = head & 15
        inner = None if wanted is None else wanted.get(number, _NOTHING)
        if kind in (_TRUE, _FALSE):
            value: Any = kind == _TRUE
        elif kind in _INTEGERS and (byte := data[at]) < 0x80:
            # fast path: most numbers have one byte
            value, at = (byte >> 1) ^ -(byte & 1), at + 1
        else:
            value, at = _value(data, at, kind, depth, inner)
        if inner is None or (inner is not _NOTHING and kind == _kind(inner)):
            found[number] = value
    return found, at + 1


def _kind(wanted: Wanted) -> int:
    """Return the type that a field must have."""
    if isinstance(wanted, int):
        return wanted
    return _LIST if isinstance(wanted, _LISTS) else STRUCT


def _value(data: bytes, at: int, kind: int, depth: int, wanted: Wanted = None) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        # in a list, each boolean is a byte
        return data[at] == 1, at + 1
    if kind == _BYTE:
        return data[at], at + 1
    if kind in _INTEGERS:
        return _zigzag(data, at)
    if kind == _DOUBLE:
        return struct.unpack("<d", _taken(data, at, 8))[0], at + 8
    if kind == BINARY:
        length, at = varint(data, at)
        return _taken(data, at, length), at + length
    if kind in (_LIST, _SET):
        return _list(data, at, depth, wanted)
    if kind == _MAP:
        return _map(data, at, depth)
    if kind == STRUCT:
        return _struct(data, at, depth + 1, wanted if isinstance(wanted, dict) else None)
    if kind == _UUID:
        return _taken(data, at, 16), at + 16
    raise Garbled("a field has a type that Thrift does not have")


def _list(data: bytes, at: int, depth: int, wanted: Wanted) -> tuple[list[Any], int]:
    head, at = data[at], at + 1
    size, kind = head >> 4, head & 15
    if size == 15:
        size, at = varint(data, at)
    if size and isinstance(wanted, _LISTS) and kind != (wanted.type if isinstance(wanted, Some) else STRUCT):
        # reading on with the expected type would lose the position
        raise Garbled("a list is not of what it should be")
    inner = wanted.wanted if isinstance(wanted, Each) else None
    found = []
    for _ in range(size):
        quick = wanted.quick(data, at) if isinstance(wanted, Each) else None
        value, at = quick or _value(data, at, kind, depth + 1, inner)
        if isinstance(wanted, Each) and wanted.take is not None:
            wanted.take(value)
        else:
            found.append(value)
    return found, at


def _map(data: bytes, at: int, depth: int) -> tuple[list[tuple[Any, Any]], int]:
    size, at = varint(data, at)
    if not size:
        return [], at
    kinds, at = data[at], at + 1
    found = []
    for _ in range(size):
        key, at = _value(data, at, kinds >> 4, depth + 1)
        value, at = _value(data, at, kinds & 15, depth + 1)
        found.append((key, value))
    return found, at


def _taken(data: bytes, at: int, length: int) -> bytes:
    if at + length > len(data):
        raise Garbled("it is cut short")
    return data[at : at + length]


def _zigzag(data: bytes, at: int) -> tuple[int, int]:
    value, at = varint(data, at)
    return (value >> 1) ^ -(value & 1), at


# Read Protobuf's wire format. Versions of the catalog use one field number for different types, which the wire format
# tells apart and generated classes do not.

_LONGEST_VARINT = 10
_VARINT_BITS = 64


class Garbled(Exception):
    """The bytes are not a message."""


class Wire(IntEnum):
    VARINT = 0
    FIXED64 = 1
    BYTES = 2
    FIXED32 = 5


Field = tuple[int, Wire, int | memoryview]
"""The number of a field, its wire type, and its value: a number if it is a varint."""


def fields(data: memoryview) -> Iterator[Field]:
    """Yield the fields of a message, in the order in which they are written."""
    at = 0
    while at < len(data):
        tag, at = varint(data, at)
        number = tag >> 3
        try:
            wire = Wire(tag & 7)
        except ValueError:
            raise Garbled("a field has a type that protobuf does not have") from None
        if not number:
            raise Garbled("a field has the number 0")
        if wire is Wire.VARINT:
            value, at = varint(data, at)
            yield number, wire, value
            continue
        length = 8
        if wire is Wire.FIXED32:
            length = 4
        elif wire is Wire.BYTES:
            length, at = varint(data, at)
        if at + length > len(data):
            raise Garbled("it is cut short")
        yield number, wire, data[at : at + length]
        at += length


def varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """Return a number with seven bits per byte, and the position after it."""
    if at < len(data) and data[at] < 0x80:
        # fast path: most numbers have one byte
        return data[at], at + 1
    value = 0
    for index in range(_LONGEST_VARINT):
        if at + index >= len(data):
            raise Garbled("it is cut short")
        byte = data[at + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value & (2**_VARINT_BITS - 1), at + index + 1
    raise Garbled("a number is too long")


def signed(value: int) -> int:
    """Return a varint as an int64."""
    return value - 2**64 if value >= 2**63 else value


def number_of(value: int | memoryview) -> int:
    if isinstance(value, memoryview):
        raise Garbled("a number is written in another way")
    return value


def bytes_of(value: int | memoryview) -> memoryview:
    if isinstance(value, int):
        raise Garbled("a text or message is written as a number")
    return value


def text_of(value: int | memoryview) -> str:
    try:
        return str(bytes_of(value), "utf-8")
    except UnicodeDecodeError:
        raise Garbled("a text is not UTF-8") from None


def double_of(value: int | memoryview) -> float:
    found: float = struct.unpack("<d", bytes_of(value))[0]
    return found
