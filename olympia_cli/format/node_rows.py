"""The rows of a node file as columns, read batch by batch on demand.

A list reads hundreds of nodes, so whole Arrow buffers are processed at once rather than single values. Arrow validates
the buffers of a file before they are used, because the file may be damaged.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

import pyarrow as pa

from olympia_cli.errors import Damaged, Unsupported
from olympia_cli.format.arrow_messages import Block, Nonsense, block_layout, footer_blocks
from olympia_cli.format.bounds import Bounds, TooMuch, check_batch, root_bounds
from olympia_cli.format.node import Sizes
from olympia_cli.format.strict_json import read_json
from olympia_cli.names import plural

COLUMNS = ("key", "value", "pnode")
SCHEMA = pa.schema([pa.field(name, pa.string()) for name in COLUMNS])
DIGEST_KEY = b"olympia.sha256"
ACTIONS_DIGEST_KEY = b"olympia.actions-sha256"
SIZES_KEY = b"olympia.sizes"
LOST_KEY = b"olympia.lost"
LOST = "F106"
"""The code of the fsck finding for a file that is the placeholder of a lost root."""
READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)

_MAGIC = b"ARROW1"
_SHORTEST = 16
"""The length of the shortest Arrow file: the magic word at both ends, and the footer's length."""

Values = Sequence[str | None]
Packed = tuple[bytes | bytearray, bytes | memoryview]
"""A column: the lengths of its values as 32-bit numbers (NULL is -1), and their UTF-8 bytes concatenated."""


class NodeRows:
    """The rows of a file. `columns` holds the rows read so far; `reach` reads more."""

    def __init__(self, data: bytes, path: str, bounds: Bounds | None = None) -> None:
        """Open the file. `bounds` are those of a node. Without them the file is a root, whose own sizes give its
        bounds.
        """
        self._data = data
        self._path = path
        try:
            self._reader = pa.ipc.open_file(pa.py_buffer(data), options=READ_OPTIONS)
            schema = self._reader.schema
            usual = schema.equals(SCHEMA)
            names = COLUMNS if usual else tuple(schema.names)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise Damaged(*_not_arrow(data, path, error)) from None
        if not usual:
            _check_columns(schema, names, path)
        metadata: dict[bytes, bytes] = schema.metadata or {}
        if LOST_KEY in metadata:
            raise Damaged(LOST, path, "the root is lost, and this file keeps its name")
        self.digest = metadata_text(metadata.get(DIGEST_KEY))
        self.actions_digest = metadata_text(metadata.get(ACTIONS_DIGEST_KEY))
        self.sizes = decode_sizes(metadata.get(SIZES_KEY), path)
        self._bounds = bounds if bounds is not None else root_bounds(self.sizes, len(data))
        self._blocks: list[Block] | None = None
        self._batches = 0
        self._arrays: dict[tuple[int, int], list[Any]] = {}
        # strings, or None for NULL
        self.columns: tuple[list[Any], list[Any], list[Any]] = ([], [], [])

    def reach(self, end: int | None = None) -> int:
        """Read the first `end` rows, or all rows, into the columns. Return how many of them exist."""
        keys = self.columns[0]
        while (end is None or len(keys) < end) and self._next_batch():
            pass
        return len(keys) if end is None else min(end, len(keys))

    def system(self) -> dict[str, str]:
        """Return the system rows, which are those before the first NULL key."""
        keys, values, _ = self.columns
        system: dict[str, str] = {}
        while self.reach(len(system) + 1) > len(system):
            key, value = keys[len(system)], values[len(system)]
            if key is None:
                return system
            if value is None or key in system:
                raise Damaged("F207", self._path, f"its system row {key[:60]!a} is empty or there twice")
            system[key] = value
        raise Damaged("F207", self._path, "it ends before its pivot table")

    def packed(self, start: int, end: int) -> list[Packed] | None:
        """Return the columns of a range of rows in the form of their checksum. Return None unless the range is one
        batch.
        """
        packed = []
        for array, values in zip(self._arrays.get((start, end), ()), self.columns, strict=False):
            column = _packed(array, values[start:end])
            if column is None:
                return None
            packed.append(column)
        return packed or None

    def _next_batch(self) -> bool:
        try:
            if self._batches >= self._reader.num_record_batches:
                return False
            self._check_bounds()
            batch = self._reader.get_batch(self._batches)
            # finds offsets outside the buffers before they are followed
            batch.validate(full=True)
            arrays, rows = batch.columns, batch.num_rows
            values = [[None] * rows if array.null_count == rows else array.to_pylist() for array in arrays]
        except (pa.ArrowException, OSError, ValueError, Nonsense, TooMuch) as error:
            if isinstance(error, MemoryError):
                raise  # within the bounds, a MemoryError is the machine's limit, not the file's damage
            reason = f"its record batch {self._batches} cannot be read: {one_line(error)}"
            raise Damaged("F205", self._path, reason) from None
        start = len(self.columns[0])
        self._batches += 1
        self._arrays[start, start + rows] = arrays
        for column, more in zip(self.columns, values, strict=True):
            column += more
        return True

    def _check_bounds(self) -> None:
        """Check the claimed size of the next batch before it is unpacked."""
        if self._blocks is None:
            dictionaries, batches = footer_blocks(self._data)
            if dictionaries:
                raise Nonsense("it has dictionaries, and columns without")
            self._blocks = batches
        layout = block_layout(self._data, self._blocks[self._batches])
        self._bounds = check_batch(self._data, *layout, self._bounds)


def _check_columns(schema: Any, names: tuple[str, ...], path: str) -> None:
    if set(names) > set(COLUMNS):
        extra = ", ".join(sorted(set(names) - set(COLUMNS)))
        raise Unsupported(f"{path} has columns that this program does not know: {extra!a}")
    if names != COLUMNS or any(field.type != pa.string() for field in schema):
        raise Damaged("F203", path, "it is an Arrow file, but its columns are not key, value and pnode")


def hash_columns(rows: int, columns: Iterable[Iterable[bytes | bytearray | memoryview]]) -> str:
    """Return the SHA-256 of rows, in a form that any program can compute, whatever its Arrow library.

    The input is the number of rows, then for each column the lengths of its values (NULL is -1) and their UTF-8 bytes
    concatenated. Numbers are 32-bit little-endian. A column may be given in several parts.
    """
    hashed = sha256(rows.to_bytes(4, "little"))
    for column in columns:
        for part in column:
            hashed.update(part)
    return hashed.hexdigest()


def _packed(column: Any, values: Values) -> Packed | None:
    """Return a column from its buffers. Return None for other layouts: the caller then uses the values."""
    size, nulls = 4 * len(values), column.null_count
    if nulls == len(values):
        return b"\xff" * size, b""
    _, offsets, data = column.buffers()
    if column.offset or data is None or sys.byteorder != "little":
        return None
    edges = offsets.to_pybytes()
    # A value's length is the difference of two adjacent offsets. Offsets never decrease, so one subtraction of all
    # offsets as two long integers never borrows between values.
    ends, starts = int.from_bytes(edges[4 : 4 + size], "little"), int.from_bytes(edges[:size], "little")
    lengths = bytearray((ends - starts).to_bytes(size, "little"))
    at = -1
    for _ in range(nulls):
        at = values.index(None, at + 1)
        if any(lengths[4 * at : 4 * at + 4]):
            return None  # a NULL with bytes, which are not part of the rows
        lengths[4 * at : 4 * at + 4] = b"\xff\xff\xff\xff"
    first, last = int.from_bytes(edges[:4], "little"), int.from_bytes(edges[size : size + 4], "little")
    return lengths, memoryview(data)[first:last]


def decode_sizes(text: bytes | None, path: str) -> Sizes | None:
    if text is None:
        return None
    try:
        sizes = _parse_sizes(text)
    except (ValueError, KeyError, TypeError):
        raise Damaged("F207", path, "its sizes cannot be read") from None
    names = (sizes.namespace, sizes.table, sizes.view)
    if not 3 <= sizes.order <= 2**20 or not all(1 <= size <= 2**16 for size in names):
        raise Damaged("F207", path, "its sizes are out of range")
    return sizes


@lru_cache(maxsize=16)
def _parse_sizes(text: bytes) -> Sizes:
    """Parse the sizes. Cached, because all roots of a catalog have the same sizes."""
    fields = read_json(text)
    return Sizes(*(int(fields[name]) for name in ("order", "namespace", "table", "view")))


def metadata_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("ascii", "replace")


def _not_arrow(data: bytes, path: str, error: Exception) -> tuple[str, str, str]:
    if not data:
        return "F202", path, "it is empty"
    begins = _MAGIC.startswith(data[: len(_MAGIC)])
    if begins and (len(data) < _SHORTEST or not data.endswith(_MAGIC)):
        return "F204", path, f"it is cut short after {plural(len(data), 'byte')}"
    if not begins:
        return "F203", path, "it is not an Arrow file"
    return "F205", path, f"it cannot be read as an Arrow file: {one_line(error)}"


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
