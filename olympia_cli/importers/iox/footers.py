"""The footers of Parquet files that a catalog holds: columns, statistics, and what IOx says of the file. Pure."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq

from olympia_cli.importers.iox.transactions import Chunk
from olympia_cli.importers.iox.wire import Garbled, bytes_of, fields, number_of, text_of

TIME = "time"
_ZSTD = b"\x28\xb5\x2f\xfd"
_MAGIC = b"PAR1"
_IOX = b"IOX:metadata"
_LARGEST = 2**28
"""So large is no footer, whatever it says that it unpacks to."""


@dataclass(frozen=True, slots=True)
class Footer:
    """What a Parquet file says of itself."""

    table: str
    partition: str
    chunk: Chunk
    order: int
    metadata: pq.FileMetaData
    schema: pa.Schema

    @property
    def rows(self) -> int:
        return int(self.metadata.num_rows)

    def statistics(self, column: str) -> Iterator[tuple[pq.ColumnChunkMetaData, pq.Statistics | None]]:
        """A column group by group, and what is said of its values, if that is."""
        at = next(
            (at for at in range(self.metadata.num_columns) if self.metadata.schema.column(at).path == column), None
        )
        if at is not None:
            for group in range(self.metadata.num_row_groups):
                found = self.metadata.row_group(group).column(at)
                yield found, found.statistics if found.is_stats_set else None

    @property
    def times(self) -> tuple[int, int] | None:
        """The first and the last time in it, in nanoseconds; None where it does not say."""
        known = [found for _, found in self.statistics(TIME) if found is not None and found.has_min_max]
        if not known or len(known) != self.metadata.num_row_groups:
            return None
        return min(found.min_raw for found in known), max(found.max_raw for found in known)


def decode_footer(data: bytes) -> Footer:
    """Garbled where it cannot be read."""
    thrift = _unpacked(data)
    whole = b"".join((_MAGIC, thrift, struct.pack("<I", len(thrift)), _MAGIC))
    try:
        metadata = pq.read_metadata(pa.BufferReader(whole))
        schema = metadata.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise Garbled("its footer cannot be read: " + " ".join(str(error).split())[:200]) from None
    encoded = (metadata.metadata or {}).get(_IOX)
    if encoded is None:
        raise Garbled("its footer does not say which table it is of")
    try:
        own = base64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise Garbled("its footer is garbled where it says which table it is of") from None
    return _described(memoryview(own), metadata, schema)


def _unpacked(data: bytes) -> bytes:
    """Older versions did not compress footers."""
    if data[:4] != _ZSTD:
        return data
    try:
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            found: bytes = stream.read(_LARGEST + 1)
    except (pa.ArrowException, OSError) as error:
        raise Garbled("its footer cannot be unpacked: " + " ".join(str(error).split())[:200]) from None
    if len(found) > _LARGEST:
        raise Garbled(f"its footer unpacks to more than {_LARGEST:,} bytes")
    return found


def _described(data: memoryview, metadata: pq.FileMetaData, schema: pa.Schema) -> Footer:
    table = partition = ""
    id: bytes | int = 0
    order = 0
    for number, _, value in fields(data):
        match number:
            case 3:
                table = text_of(value)
            case 4:
                partition = text_of(value)
            case 5:
                id = number_of(value)
            case 10:
                order = number_of(value)
            case 11:
                id = bytes(bytes_of(value))
    if not table:
        raise Garbled("its footer does not say which table it is of")
    return Footer(table, partition, (table, partition, id), order, metadata, schema)
