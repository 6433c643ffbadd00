"""How much a node file may unpack to, and how much it says that it does: looked up before anything is unpacked.

A few kilobytes can unpack to gigabytes. The rows of a tree are bounded by the order and the name sizes of the catalog,
those of a log by the size of the file that holds them.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from typing import NamedTuple

from olympia_cli.format.arrow_messages import Layout, block_layout, footer_blocks
from olympia_cli.format.node import Sizes

MAX_NODE_BYTES = 2**27
"""No node of any catalog unpacks to more."""

_MAX_ORDER = 2**20
_POINTERS = 2 * 4096 + 64
"""The two paths of a row and what Arrow needs besides: paths of this program have at most 267 bytes."""
_MORE_ROWS = 1024
"""System rows, and rows that other programs pad a node with."""
_LOG_BYTES, _LOG_ROWS = 2**24, 2**12
_LARGEST_ACTION = 2**26 * 4 // 3 + 2**20
"""One with the largest definition, as text, and some others: that packs to little, and is legal."""
_PACKED_ACTION = 32
"""Actions hold ids, which do not compress: no action packs to fewer bytes."""
_UNPACKED_ACTION = 1024
"""What an action has beside its key. One may have far more, where others have less."""


class Bounds(NamedTuple):
    """At most so many rows, and so many bytes in all buffers together."""

    rows: int
    bytes: int


@lru_cache(maxsize=16)
def tree_bounds(sizes: Sizes | None) -> Bounds:
    """The bounds of a node of a catalog of these sizes, or of any catalog."""
    rows = 2 * (sizes.order if sizes is not None else _MAX_ORDER) + _MORE_ROWS
    if sizes is None:
        return Bounds(rows, MAX_NODE_BYTES)
    return Bounds(rows, min(rows * (_key_bytes(sizes) + _POINTERS), MAX_NODE_BYTES))


def root_bounds(sizes: Sizes | None, packed: int) -> Bounds:
    """The bounds of a root, whose file has so many bytes: those of a node, and the more actions the larger it is."""
    tree, actions = tree_bounds(sizes), packed // _PACKED_ACTION
    wanted = actions * ((_key_bytes(sizes) if sizes is not None else 0) + _UNPACKED_ACTION)
    log = min(wanted, 2 * MAX_NODE_BYTES + actions * _UNPACKED_ACTION)
    return Bounds(tree.rows + _LOG_ROWS + actions, max(tree.bytes + _LOG_BYTES, _LARGEST_ACTION) + log)


def _key_bytes(sizes: Sizes) -> int:
    return 4 + sizes.namespace + max(sizes.table, sizes.view)


class TooMuch(Exception):
    """A file says that it unpacks to more than it may."""


def unpacked_bytes(data: bytes, body: int, layout: Layout) -> int:
    """How many bytes the buffers of a batch say that they unpack to."""
    if layout.codec is None:
        return sum(size for _, size in layout.buffers)
    total = 0
    for offset, size in layout.buffers:
        if size:
            # a compressed buffer begins with its length; -1 stands before one that is stored as it is
            start = body + offset
            claimed = struct.unpack_from("<q", data, start)[0] if start + 8 <= len(data) else 0
            total += size if claimed == -1 else claimed & 2**63 - 1
    return total


def check_batch(data: bytes, body: int, layout: Layout, bounds: Bounds) -> Bounds:
    """What is left of the bounds after a batch; TooMuch when it goes beyond them."""
    return within(layout.rows, unpacked_bytes(data, body, layout), bounds)


def within(rows: int, unpacked: int, bounds: Bounds) -> Bounds:
    """The same of a batch with so many rows, and so many bytes once it is unpacked."""
    if rows > bounds.rows or unpacked > bounds.bytes:
        raise TooMuch(f"it unpacks to {rows:,} rows and {unpacked:,} bytes, which no node has")
    return Bounds(bounds.rows - rows, bounds.bytes - unpacked)


def check_file(data: bytes, bounds: Bounds) -> None:
    """Raise TooMuch, or Nonsense, unless all that the footer names is within the bounds."""
    dictionaries, batches = footer_blocks(data)
    for block in (*dictionaries, *batches):
        bounds = check_batch(data, *block_layout(data, block), bounds)
