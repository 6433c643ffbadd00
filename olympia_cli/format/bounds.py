"""Limits for the unpacked size of a node file, checked before anything is unpacked.

A few kilobytes can unpack to gigabytes. The rows of a tree are limited by the catalog's order and name sizes. The
action rows are limited by the size of their file.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from olympia_cli.format.arrow_messages import Layout, block_layout, footer_blocks
from olympia_cli.format.node import Sizes

MAX_NODE_BYTES = 2**27
"""The largest unpacked size of a node in any catalog."""

_MAX_ORDER = 2**20
_POINTERS = 2 * 4096 + 64
"""Bytes for the two paths of a row and Arrow's overhead. Paths of this program have at most 267 bytes."""
_MORE_ROWS = 1024
"""Room for system rows, and for rows with which other programs pad a node."""
_LOG_BYTES, _LOG_ROWS = 2**24, 2**12
_LARGEST_ACTION = 2**26 * 4 // 3 + 2**20
"""Bytes of an action with the largest definition, in base64, plus some others. It may compress well, and is legal."""
_PACKED_ACTION = 32
"""The smallest packed size of an action: its ids do not compress."""
_UNPACKED_ACTION = 1024
"""Average unpacked bytes of an action beside its key."""


class Bounds(NamedTuple):
    """The largest number of rows, and of bytes in all buffers together."""

    rows: int
    bytes: int


@lru_cache(maxsize=16)
def tree_bounds(sizes: Sizes | None) -> Bounds:
    """Return the bounds of a node in a catalog with these sizes, or in any catalog."""
    rows = 2 * (sizes.order if sizes is not None else _MAX_ORDER) + _MORE_ROWS
    if sizes is None:
        return Bounds(rows, MAX_NODE_BYTES)
    return Bounds(rows, min(rows * (_key_bytes(sizes) + _POINTERS), MAX_NODE_BYTES))


def root_bounds(sizes: Sizes | None, packed: int) -> Bounds:
    """Return the bounds of a root whose file has `packed` bytes. They allow for more actions in a larger file."""
    tree, actions = tree_bounds(sizes), packed // _PACKED_ACTION
    wanted = actions * ((_key_bytes(sizes) if sizes is not None else 0) + _UNPACKED_ACTION)
    log = min(wanted, 2 * MAX_NODE_BYTES + actions * _UNPACKED_ACTION)
    return Bounds(tree.rows + _LOG_ROWS + actions, max(tree.bytes + _LOG_BYTES, _LARGEST_ACTION) + log)


def _key_bytes(sizes: Sizes) -> int:
    return 4 + sizes.namespace + max(sizes.table, sizes.view)


class TooMuch(Exception):
    """The unpacked size of a file exceeds its bounds."""


def unpacked_bytes(data: bytes, body: int, layout: Layout) -> int:
    """Return the unpacked size that the buffers of a batch claim."""
    if layout.codec is None:
        return sum(size for _, size in layout.buffers)
    total = 0
    for offset, size in layout.buffers:
        if size:
            # a compressed buffer begins with its unpacked length; -1 means that it is stored uncompressed
            start = body + offset
            claimed = struct.unpack_from("<q", data, start)[0] if start + 8 <= len(data) else 0
            total += size if claimed == -1 else claimed & 2**63 - 1
    return total


def check_batch(data: bytes, body: int, layout: Layout, bounds: Bounds) -> Bounds:
    """Return the bounds left after a batch. Raise TooMuch if the batch exceeds them."""
    return within(layout.rows, unpacked_bytes(data, body, layout), bounds)


def within(rows: int, unpacked: int, bounds: Bounds) -> Bounds:
    """Like `check_batch`, for a batch with `rows` rows and `unpacked` bytes."""
    if rows > bounds.rows or unpacked > bounds.bytes:
        raise TooMuch(f"it unpacks to {rows:,} rows and {unpacked:,} bytes, more than any node")
    return Bounds(bounds.rows - rows, bounds.bytes - unpacked)


def check_file(data: bytes, bounds: Bounds) -> None:
    """Raise TooMuch if the batches in the footer exceed the bounds, and Nonsense if they cannot be read."""
    dictionaries, batches = footer_blocks(data)
    for block in (*dictionaries, *batches):
        bounds = check_batch(data, *block_layout(data, block), bounds)
