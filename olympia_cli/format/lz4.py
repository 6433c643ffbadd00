"""Unpack LZ4 frames up to the first damage. LZ4 libraries return a block completely or not at all.

A frame is a header and blocks of sequences. A sequence is a run of literal bytes and a copy of earlier output.
"""

from __future__ import annotations

_MAGIC = b"\x04\x22\x4d\x18"
_STORED = 0x8000_0000


def unpack_prefix(frame: bytes, limit: int) -> bytes:
    """Return the content of the frame up to the first unreadable byte, and at most `limit` bytes."""
    out = bytearray()
    if frame[:4] != _MAGIC or len(frame) < 7:
        return b""
    flags = frame[4]
    block_checksum = 4 if flags & 0x10 else 0
    at = 7 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)
    while at + 4 <= len(frame) and len(out) < limit:
        size = int.from_bytes(frame[at : at + 4], "little")
        if size == 0:
            break
        stored, size = bool(size & _STORED), size & ~_STORED
        block = frame[at + 4 : at + 4 + size]
        if stored:
            out += block
        elif not _unpack_block(block, out, limit):
            break
        if len(block) < size:
            break
        at += 4 + size + block_checksum
    return bytes(out[:limit])


def _unpack_block(block: bytes, out: bytearray, limit: int) -> bool:
    """Append the block's content. Return False if the block is invalid, or at the limit."""
    at, end = 0, len(block)
    while at < end:
        token = block[at]
        at += 1
        literals, at = _length(block, at, token >> 4)
        out += block[at : at + literals]
        at += literals
        if at + 2 > end or len(out) >= limit:
            # the last sequence of a sound block has only literals
            return at == end and len(out) < limit
        distance = block[at] | block[at + 1] << 8
        length, at = _length(block, at + 2, token & 15)
        if not 0 < distance <= len(out):
            return False
        wanted = min(length + 4, limit - len(out))
        # a copy may overlap its own output, which repeats the pattern
        pattern = out[len(out) - distance :]
        out += (pattern * (wanted // distance + 1))[:wanted]
    return True


def _length(block: bytes, at: int, length: int) -> tuple[int, int]:
    if length == 15:
        while at < len(block):
            length += block[at]
            at += 1
            if block[at - 1] != 255:
                break
    return length, at
