"""Reader for the Avro files of manifests, with checks for damage.

PyIceberg's reader is made for sound files. It takes a truncated file for a shorter one, leaks memory for every file,
and can crash the program on a damaged one.
"""

from __future__ import annotations

import bz2
import io
import json
import struct
import zlib
from collections.abc import Callable, Container, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow

from olympia_cli.errors import Damaged, Unsupported
from olympia_cli.names import plural

# Avro's binary encoding: compile a schema into a function that reads a record.
#
# Reads never go beyond the end of the data. Damaged data raises ValueError or EOFError.
#
# Iceberg's schemas have field ids; a record becomes a dict by these ids. Of other files, all fields are read by name.
# Values are as Avro stores them: a date is a number of days, a decimal its unscaled bytes.

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


_MAGIC = b"Obj\x01"
_ENCRYPTED = b"AGS1"
_SYNC = 16
_CODEC = "avro.codec"
_SCHEMA = "avro.schema"
_HINT = "look at the table's older metadata"
# limit for an unpacked block; writers use much smaller ones
_MAX_BLOCK_BYTES = 1024 * 1024 * 1024


class AvroRecords:
    """The records of a file, with the fields whose ids are in `wanted`, or with all fields by name if it is None.

    Raise Damaged, or Unsupported for an unknown feature. Damage inside a block is found only when its records are read.
    """

    def __init__(self, data: bytes, location: str, wanted: Container[int] | None) -> None:
        self._location = location
        meta, self._blocks = open_container(data, location)
        self._codec = meta.get(_CODEC, b"null").decode("utf-8", "replace")
        self.schema = json.loads(meta[_SCHEMA])
        try:
            self._type = record_type(self.schema, wanted)
        except (ValueError, RecursionError):
            raise Damaged("F602", location, "its schema is garbled", hint=_HINT) from None

    def fields_of(self, number: int) -> list[tuple[int, str]]:
        """Return id and name of each field in the record that is the field with this id."""
        return field_names(self.schema, number)

    def __iter__(self) -> Iterator[Record]:
        for count, block in self._blocks:
            decoder = Decoder(self._unpacked(block))
            if not 0 <= count <= decoder.left:
                raise self._damaged("a block has not as many records as it says")
            for _ in range(count):
                try:
                    record = self._type.read(decoder)
                except (EOFError, ValueError, TypeError):
                    raise self._damaged("its records are garbled") from None
                if not isinstance(record, dict):
                    raise self._damaged("it holds no records")
                yield record
            if decoder.left:
                raise self._damaged("a block is longer than its records")

    def _unpacked(self, block: bytes) -> bytes:
        try:
            data = _unpack(self._codec, block)
        except (zlib.error, OSError, EOFError, ValueError):
            raise self._damaged("a block cannot be unpacked") from None
        if data is None:
            raise Unsupported(f"{self._location}: its compression, {self._codec[:40]!a}, is not known")
        if len(data) > _MAX_BLOCK_BYTES:
            raise Unsupported(f"{self._location}: a block unpacks to more than {_MAX_BLOCK_BYTES:,} bytes", hint="")
        return data

    def _damaged(self, reason: str) -> Damaged:
        return Damaged("F602", self._location, reason, hint=_HINT)


def open_container(data: bytes, location: str) -> tuple[dict[str, bytes], list[tuple[int, bytes]]]:
    """Return the header's entries, and the blocks with their number of records. Raise Damaged if the file is
    incomplete.
    """
    if not data:
        raise Damaged("F602", location, "it is empty", hint=_HINT)
    if data.startswith(_ENCRYPTED):
        raise Unsupported(f"{location}: it is encrypted", hint="")
    if not data.startswith(_MAGIC[: len(data)]):
        raise Damaged("F602", location, "it is not an Avro file", hint=_HINT)
    decoder, blocks = Decoder(data), []
    try:
        meta = _header(decoder)
        sync = decoder.take(_SYNC)
        while decoder.left:
            blocks.append((decoder.long(), decoder.bytes()))
            if decoder.take(_SYNC) != sync:
                raise Damaged("F602", location, "its blocks do not follow each other", hint=_HINT)
        whole = isinstance(json.loads(meta.get(_SCHEMA, b"")), dict)
    except EOFError:
        raise Damaged("F602", location, f"it is cut short: {plural(len(data), 'byte')}", hint=_HINT) from None
    except (ValueError, RecursionError):
        whole = False
    if not whole:
        raise Damaged("F602", location, "its header or its blocks are garbled", hint=_HINT)
    return meta, blocks


def _header(decoder: Decoder) -> dict[str, bytes]:
    meta: dict[str, bytes] = {}
    decoder.skip(len(_MAGIC))
    while count := decoder.items():
        for _ in range(count):
            key = decoder.text()
            meta[key] = decoder.bytes()
    return meta


def _unpack(codec: str, block: bytes) -> bytes | None:
    """Unpack a block, up to one byte beyond the limit. Return None for an unknown codec."""
    most = _MAX_BLOCK_BYTES + 1
    match codec:
        case "null":
            return block
        case "deflate":
            unpacker = zlib.decompressobj(-15)
            data = unpacker.decompress(block, most)
            if not unpacker.eof and len(data) < most:
                raise EOFError
            return data
        case "bzip2":
            return bz2.BZ2Decompressor().decompress(block, most)
        case "zstandard":
            with pyarrow.CompressedInputStream(io.BytesIO(block), "zstd") as stream:
                return bytes(stream.read(most))
        case "snappy":
            # the size is at the beginning, the checksum of the unpacked data at the end
            size = _plain_varint(block)
            if size > most:
                return bytes(most)
            data = bytes(pyarrow.decompress(block[:-4], decompressed_size=size, codec="snappy", asbytes=True))
            if zlib.crc32(data) != int.from_bytes(block[-4:], "big"):
                raise ValueError("the checksum differs")
            return data
        case _:
            return None


def _plain_varint(data: bytes) -> int:
    number = 0
    for at, byte in enumerate(data[:5]):
        number |= (byte & 0x7F) << (7 * at)
        if byte < 0x80:
            return number
    raise ValueError("no size")
