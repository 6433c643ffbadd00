"""Reader for the Avro files of manifests, with checks for damage.

PyIceberg's reader is made for sound files. It takes a truncated file for a shorter one, leaks memory for every file,
and can crash the program on a damaged one.
"""

from __future__ import annotations

import bz2
import io
import json
import zlib
from collections.abc import Container, Iterator

import pyarrow

from olympia_cli.errors import Damaged, Unsupported
from olympia_cli.iceberg.avro_types import Decoder, Record, field_names, record_type
from olympia_cli.names import plural

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
