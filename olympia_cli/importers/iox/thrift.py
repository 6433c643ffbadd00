"""Thrift's compact protocol, which Parquet's footers are written in. Arrow's reader is not used for them: on a damaged
footer it can bring the whole program down."""

from __future__ import annotations

import struct
from typing import Any

from olympia_cli.importers.iox.wire import Garbled, varint

_DEEPEST = 32
_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY, _LIST, _SET, _MAP, _STRUCT, _UUID = 1, 2, 3, 7, 8, 9, 10, 11, 12, 13
_NUMBERS = (4, 5, 6)


def read_struct(data: memoryview) -> dict[int, Any]:
    """The fields of a struct by their numbers; Garbled where it is none, or only half of one."""
    try:
        found, _ = _struct(data, 0, 0)
    except IndexError:
        raise Garbled("it is cut short") from None
    return found


def _struct(data: memoryview, at: int, depth: int) -> tuple[dict[int, Any], int]:
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
        if kind in (_TRUE, _FALSE):
            found[number] = kind == _TRUE
        else:
            found[number], at = _value(data, at, kind, depth)
    return found, at + 1


def _value(data: memoryview, at: int, kind: int, depth: int) -> tuple[Any, int]:
    if kind in (_TRUE, _FALSE):
        # in a list each is a byte of its own
        return data[at] == 1, at + 1
    if kind == _BYTE:
        return data[at], at + 1
    if kind in _NUMBERS:
        return _zigzag(data, at)
    if kind == _DOUBLE:
        return struct.unpack("<d", _taken(data, at, 8))[0], at + 8
    if kind == _BINARY:
        length, at = varint(data, at)
        return _taken(data, at, length), at + length
    if kind in (_LIST, _SET):
        return _list(data, at, depth)
    if kind == _MAP:
        return _map(data, at, depth)
    if kind == _STRUCT:
        return _struct(data, at, depth + 1)
    if kind == _UUID:
        return _taken(data, at, 16), at + 16
    raise Garbled("a field has a type that Thrift does not have")


def _list(data: memoryview, at: int, depth: int) -> tuple[list[Any], int]:
    head, at = data[at], at + 1
    size = head >> 4
    if size == 15:
        size, at = varint(data, at)
    found = []
    for _ in range(size):
        value, at = _value(data, at, head & 15, depth + 1)
        found.append(value)
    return found, at


def _map(data: memoryview, at: int, depth: int) -> tuple[list[tuple[Any, Any]], int]:
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


def _taken(data: memoryview, at: int, length: int) -> memoryview:
    if at + length > len(data):
        raise Garbled("it is cut short")
    return data[at : at + length]


def _zigzag(data: memoryview, at: int) -> tuple[int, int]:
    value, at = varint(data, at)
    return (value >> 1) ^ -(value & 1), at
