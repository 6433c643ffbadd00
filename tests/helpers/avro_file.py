"""Avro files as polars writes them for DeltaCAT: an independent encoder of a few lines."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

_SYNC = bytes(range(16))
_PLAIN: Mapping[str, Any] = {
    "null": lambda value: b"",
    "boolean": lambda value: bytes([value]),
    "int": lambda value: long(value),
    "long": lambda value: long(value),
    "float": lambda value: struct.pack("<f", value),
    "double": lambda value: struct.pack("<d", value),
    "bytes": lambda value: long(len(value)) + value,
    "string": lambda value: long(len(value.encode())) + value.encode(),
}


def long(number: int) -> bytes:
    number = (number << 1) ^ (number >> 63)
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def encode(schema: Any, value: Any) -> bytes:
    if isinstance(schema, list):
        at = next(at for at, branch in enumerate(schema) if (branch == "null") == (value is None))
        return long(at) + encode(schema[at], value)
    if isinstance(schema, str):
        return bytes(_PLAIN[schema](value))
    match schema["type"]:
        case "record":
            return b"".join(encode(field["type"], value[field["name"]]) for field in schema["fields"])
        case "array":
            items = b"".join(encode(schema["items"], item) for item in value)
            return (long(len(value)) + items if value else b"") + long(0)
        case "map":
            pairs = b"".join(encode("string", key) + encode(schema["values"], item) for key, item in value.items())
            return (long(len(value)) + pairs if value else b"") + long(0)
        case "fixed":
            return bytes(value)
        case "enum":
            return long(schema["symbols"].index(value))
        case plain:
            return encode(plain, value)


def write_avro(
    fields: Mapping[str, Any], rows: Sequence[Sequence[Any]], codec: str = "null", rows_a_block: int = 1000
) -> bytes:
    """A file of records with these fields, each with its Avro type."""
    schema = {"type": "record", "name": "", "fields": [{"name": name, "type": type} for name, type in fields.items()]}
    header = {"avro.schema": json.dumps(schema).encode(), "avro.codec": codec.encode()}
    entries = b"".join(encode("string", key) + encode("bytes", value) for key, value in header.items())
    out = b"Obj\x01" + long(len(header)) + entries + long(0) + _SYNC
    for start in range(0, len(rows), rows_a_block):
        some = rows[start : start + rows_a_block]
        block = b"".join(encode(schema, dict(zip(fields, row, strict=True))) for row in some)
        if codec == "deflate":
            packer = zlib.compressobj(wbits=-15)
            block = packer.compress(block) + packer.flush()
        out += long(len(some)) + encode("bytes", block) + _SYNC
    return out
