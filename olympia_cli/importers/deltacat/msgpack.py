"""Decode MessagePack, as far as metadata uses it: one value from its bytes.

A length beyond the end of the bytes is refused before memory is allocated. So hostile input costs no more memory than
sound input.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

MAX_DEPTH = 64
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTHS = {1: ">B", 2: ">H", 4: ">I"}


class Malformed(ValueError):
    """The bytes are not valid."""


def decode(data: bytes) -> Any:
    """Return the value. Raise Malformed if there is none, or more than one."""
    reader = _Reader(data)
    value = reader.value(0)
    if reader.at != len(data):
        raise Malformed(f"{len(data) - reader.at} bytes follow its end")
    return value


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise Malformed("it is nested too deeply")
        first = self._number(">B")
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first < 0x90:
            return self._map(first & 0x0F, depth)
        if first < 0xA0:
            return self._list(first & 0x0F, depth)
        if first < 0xC0:
            return self._text(first & 0x1F)
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self._number(_NUMBERS[first])
        for base, widths, read in self._kinds(depth):
            if base <= first < base + len(widths):
                return read(self._number(_LENGTHS[widths[first - base]]))
        raise Malformed(f"no value begins with the byte {first:#04x}")

    def _kinds(self, depth: int) -> tuple[tuple[int, tuple[int, ...], Callable[[int], Any]], ...]:
        """Return the kinds of values with a length: the first byte of each kind, and the widths of the length."""
        return (
            (0xC4, (1, 2, 4), self._bytes),
            (0xD9, (1, 2, 4), self._text),
            (0xDC, (2, 4), lambda length: self._list(length, depth)),
            (0xDE, (2, 4), lambda length: self._map(length, depth)),
        )

    def _bytes(self, length: int) -> bytes:
        if self.at + length > len(self.data):
            raise Malformed("it is cut short")
        self.at += length
        return self.data[self.at - length : self.at]

    def _number(self, form: str) -> Any:
        [number] = struct.unpack(form, self._bytes(struct.calcsize(form)))
        return number

    def _text(self, length: int) -> str:
        try:
            return self._bytes(length).decode()
        except UnicodeDecodeError:
            raise Malformed("a text in it is not UTF-8") from None

    def _list(self, length: int, depth: int) -> list[Any]:
        self._check(length)
        return [self.value(depth + 1) for _ in range(length)]

    def _map(self, length: int, depth: int) -> dict[Any, Any]:
        self._check(2 * length)
        found = {}
        for _ in range(length):
            key = self.value(depth + 1)
            if not isinstance(key, str | int):
                raise Malformed("a key in it is no text")
            found[key] = self.value(depth + 1)
        return found

    def _check(self, values: int) -> None:
        """Raise Malformed if the bytes cannot hold this many values: each has at least one byte."""
        if self.at + values > len(self.data):
            raise Malformed("it is cut short")
