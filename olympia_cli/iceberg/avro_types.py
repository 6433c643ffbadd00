"""Avro's binary encoding: compile a schema into a function that reads a record.

Reads never go beyond the end of the data. Damaged data raises ValueError or EOFError.

Iceberg's schemas have field ids; a record becomes a dict by these ids. Of other files, all fields are read by name.
Values are as Avro stores them: a date is a number of days, a decimal its unscaled bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass
from typing import Any

Record = dict[int, Any]
"""A record of Iceberg's; of other files the keys are names."""


class Decoder:
    """Bytes and the position of the next read."""

    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    @property
    def left(self) -> int:
        return len(self.data) - self.at

    def take(self, count: int) -> bytes:
        start = self.at
        self.skip(count)
        return self.data[start : self.at]

    def skip(self, count: int) -> None:
        if count < 0:
            raise ValueError("a negative length")
        if count > self.left:
            raise EOFError
        self.at += count

    def long(self) -> int:
        data, at = self.data, self.at
        number = shift = 0
        try:
            while True:
                byte = data[at]
                at += 1
                number |= (byte & 0x7F) << shift
                if byte < 0x80:
                    break
                shift += 7
                if shift > 63:
                    raise ValueError("a number that is too long")
        except IndexError:
            raise EOFError from None
        self.at = at
        return (number >> 1) ^ -(number & 1)

    def skip_long(self) -> None:
        data, at = self.data, self.at
        try:
            while data[at] > 0x7F:
                at += 1
        except IndexError:
            raise EOFError from None
        self.at = at + 1

    def bytes(self) -> bytes:
        return self.take(self.long())

    def text(self) -> str:
        return self.take(self.long()).decode()

    def skip_bytes(self) -> None:
        self.skip(self.long())

    def items(self) -> int:
        """Return the number of items in the next part of an array or map, or 0 at its end."""
        count = self.long()
        if count < 0:
            # a negative count is followed by the part's size in bytes
            count = -count
            self.long()
        if count > self.left:
            # an item has at least one byte, so a larger count is damage, and must not keep the reader busy
            raise EOFError
        return count


@dataclass(frozen=True, slots=True)
class Type:
    """Functions that read and skip a value."""

    read: Callable[[Decoder], Any]
    skip: Callable[[Decoder], Any]


def record_type(schema: object, wanted: Container[int] | None) -> Type:
    """Return the type of a record. Fields whose ids are not in `wanted` are skipped; with None, all fields are read by
    name. Raise ValueError for an invalid schema.
    """
    return _Types(wanted).of(schema)


def field_names(schema: object, number: int) -> list[tuple[int, str]]:
    """Return id and name of each field in the record that is the field with this id, at any depth of the schema."""
    for found in _fields(schema):
        if found.get("field-id") == number:
            inner = [(one.get("field-id"), str(one.get("name"))) for one in _fields(found.get("type"))]
            return [(field, name) for field, name in inner if isinstance(field, int)]
    return []


def _fields(schema: object) -> list[dict[str, Any]]:
    """Return all fields of records in a schema."""
    found: list[dict[str, Any]] = []
    waiting = [schema]
    while waiting:
        one = waiting.pop(0)
        if isinstance(one, list):
            waiting += one
        elif isinstance(one, dict):
            fields = [field for field in one.get("fields") or [] if isinstance(field, dict)]
            found += fields
            waiting += [field.get("type") for field in fields]
            waiting += [one[key] for key in ("type", "items", "values") if isinstance(one.get(key), dict | list)]
    return found


_PRIMITIVES: Mapping[str, Type] = {
    "null": Type(lambda decoder: None, lambda decoder: None),
    "boolean": Type(lambda decoder: decoder.take(1) == b"\1", lambda decoder: decoder.skip(1)),
    "int": Type(Decoder.long, Decoder.skip_long),
    "long": Type(Decoder.long, Decoder.skip_long),
    "float": Type(lambda decoder: struct.unpack("<f", decoder.take(4))[0], lambda decoder: decoder.skip(4)),
    "double": Type(lambda decoder: struct.unpack("<d", decoder.take(8))[0], lambda decoder: decoder.skip(8)),
    "bytes": Type(Decoder.bytes, Decoder.skip_bytes),
    "string": Type(Decoder.text, Decoder.skip_bytes),
}


class _Types:
    def __init__(self, wanted: Container[int] | None) -> None:
        self._wanted = wanted
        self._named: dict[str, Type] = {}

    def of(self, schema: Any) -> Type:
        match schema:
            case str() if schema in _PRIMITIVES:
                return _PRIMITIVES[schema]
            case str() if schema in self._named:
                return self._named[schema]
            case list():
                return _union([self.of(one) for one in schema])
            case dict() if not isinstance(schema.get("type"), str):
                return self.of(schema.get("type"))
            case {"type": "record", "fields": list(fields)}:
                return self._named_by(schema.get("name"), self._record(fields))
            case {"type": "array", "items": items}:
                return _array(self.of(items), pairs=schema.get("logicalType") == "map")
            case {"type": "map", "values": values}:
                return _map(self.of(values))
            case {"type": "fixed", "size": int(size)}:
                fixed = Type(lambda decoder: decoder.take(size), lambda decoder: decoder.skip(size))
                return self._named_by(schema.get("name"), fixed)
            case {"type": "enum"}:
                return self._named_by(schema.get("name"), _PRIMITIVES["int"])
            case {"type": str(inner)} if inner in _PRIMITIVES or inner in self._named:
                return self.of(inner)
        raise ValueError("a type that Avro does not have")

    def _named_by(self, name: object, found: Type) -> Type:
        self._named[str(name)] = found
        return found

    def _record(self, fields: list[Any]) -> Type:
        # the ids, or names, of the fields that are read
        steps: list[tuple[Any, Callable[[Decoder], Any]]] = []
        skips = []
        for field in fields:
            if not isinstance(field, dict):
                raise ValueError("an invalid field")
            number, kind = field.get("field-id"), self.of(field.get("type"))
            skips.append(kind.skip)
            if self._wanted is None:
                steps.append((str(field.get("name")), kind.read))
            # fields of a map's key-value pairs have ids too, and are always read with the map
            elif isinstance(number, int) and (number in self._wanted or field.get("name") in ("key", "value")):
                steps.append((number, kind.read))
            else:
                steps.append((None, kind.skip))

        def read(decoder: Decoder) -> Record:
            found = {}
            for number, step in steps:
                if number is None:
                    step(decoder)
                else:
                    found[number] = step(decoder)
            return found

        def skip(decoder: Decoder) -> None:
            for step in skips:
                step(decoder)

        return Type(read, skip)


def _union(branches: list[Type]) -> Type:
    def chosen(decoder: Decoder) -> Type:
        number = decoder.long()
        if not 0 <= number < len(branches):
            raise ValueError("a branch that the union does not have")
        return branches[number]

    return Type(lambda decoder: chosen(decoder).read(decoder), lambda decoder: chosen(decoder).skip(decoder))


def _array(item: Type, *, pairs: bool) -> Type:
    """Return the type of an array. Maps with keys other than strings are arrays of pairs."""

    def read(decoder: Decoder) -> Any:
        found = []
        while count := decoder.items():
            found += [item.read(decoder) for _ in range(count)]
        return dict(tuple(one.values()) for one in found) if pairs else found

    return Type(read, _skip_all(item.skip))


def _map(value: Type) -> Type:
    def read(decoder: Decoder) -> dict[str, Any]:
        found = {}
        while count := decoder.items():
            for _ in range(count):
                key = decoder.text()
                found[key] = value.read(decoder)
        return found

    def skip(decoder: Decoder) -> None:
        decoder.skip_bytes()
        value.skip(decoder)

    return Type(read, _skip_all(skip))


def _skip_all(skip: Callable[[Decoder], Any]) -> Callable[[Decoder], None]:
    def skip_all(decoder: Decoder) -> None:
        while count := decoder.items():
            for _ in range(count):
                skip(decoder)

    return skip_all
