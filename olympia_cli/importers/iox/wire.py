"""Read Protobuf's wire format. Versions of the catalog use one field number for different types, which the wire format
tells apart and generated classes do not."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum

_DEEPEST = 10
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
    for index in range(_DEEPEST):
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
