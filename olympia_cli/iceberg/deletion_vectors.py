"""Deletion vectors: the positions of deleted rows of several data files, in one Puffin file."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence

_PUFFIN = b"PFA1"
_VECTOR = b"\xd1\xd3\x39\x64"
_ROW_POSITION = 2147483645
"""Iceberg's field id for the position of a row in its file."""


def puffin(deleted: Sequence[tuple[str, Sequence[int]]]) -> tuple[bytes, list[tuple[int, int]]]:
    """Return a file with one vector per data file, and the offset and length of each vector."""
    data, places = bytearray(_PUFFIN), []
    described = []
    for path, rows in deleted:
        blob = _vector(rows)
        places.append((len(data), len(blob)))
        described.append(
            {
                "type": "deletion-vector-v1",
                "fields": [_ROW_POSITION],
                # assigned when the snapshot is committed
                "snapshot-id": -1,
                "sequence-number": -1,
                "offset": len(data),
                "length": len(blob),
                "properties": {"referenced-data-file": path, "cardinality": str(len(rows))},
            }
        )
        data += blob
    footer = json.dumps({"blobs": described}).encode()
    data += _PUFFIN + footer + struct.pack("<i", len(footer)) + bytes(4) + _PUFFIN
    return bytes(data), places


def _vector(positions: Sequence[int]) -> bytes:
    """Encode row positions as a deletion vector: 32-bit Roaring bitmaps by upper half, in a frame with a checksum."""
    from pyroaring import BitMap

    halves: dict[int, list[int]] = {}
    for position in positions:
        halves.setdefault(position >> 32, []).append(position & 0xFFFFFFFF)
    parts = [struct.pack("<Q", len(halves))]
    for upper, lower in sorted(halves.items()):
        parts += [struct.pack("<I", upper), BitMap(lower).serialize()]
    content = _VECTOR + b"".join(parts)
    return struct.pack(">I", len(content)) + content + struct.pack(">I", zlib.crc32(content))
