"""Node files: encode and decode nodes, roots and action rows in Arrow IPC. Rows are read batch by batch on demand."""

from __future__ import annotations

import json
import operator
import re
import struct
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate, islice
from typing import Any, NamedTuple, cast

import pyarrow as pa

from olympia_cli.errors import Damaged, TransactionTooLarge, Unsupported
from olympia_cli.format.arrow import (
    Block,
    Bounds,
    Nonsense,
    TooMuch,
    block_layout,
    check_batch,
    footer_blocks,
    root_bounds,
    tree_bounds,
    within,
)
from olympia_cli.format.keys import CATALOG_DEF, utf16_units
from olympia_cli.format.node import EMPTY, Node, Root, Sizes
from olympia_cli.format.paths import MAX_FILE_BYTES, parse_root_path
from olympia_cli.names import plural

# The rows of a node file as columns, read batch by batch on demand.
#
# A list reads hundreds of nodes, so whole Arrow buffers are processed at once rather than single values. Arrow
# validates the buffers of a file before they are used, because the file may be damaged.

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
        self._bounds = bounds
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
        if self._bounds is None:
            self._bounds = root_bounds(self.sizes, len(self._data))
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
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        raise Damaged("F207", path, "its sizes cannot be read") from None
    names = (sizes.namespace, sizes.table, sizes.view)
    if not 3 <= sizes.order <= 2**20 or not all(1 <= size <= 2**16 for size in names):
        raise Damaged("F207", path, "its sizes are out of range")
    return sizes


@lru_cache(maxsize=16)
def _parse_sizes(text: bytes) -> Sizes:
    """Parse the sizes. Cached, because all roots of a catalog have the same sizes."""
    fields = json.loads(text.decode("utf-8-sig"))
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


# Node files: encode and decode nodes, roots and action rows in Arrow IPC.
#
# A file has the columns key, value and pnode. Its rows are, in order: system rows (key and value), the pivot table, and
# in roots the action rows. The pivot table is a leftmost row without key and value, then one row per key. Action rows
# are written in separate record batches, so that a search does not decode them. Readers accept any division into
# batches.

PREVIOUS_ROOT = "previous_root"
ROLLBACK_FROM_ROOT = "rollback_from_root"
CREATED_AT_MILLIS = "created_at_millis"
N_KEYS = "n_keys"

# a node is too small for threads: the hand-over costs more than the work
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)

_SLASHES = re.compile("/+")
_ACTIONS_AT_ONCE = 4096

Row = tuple[str | None, str | None, str | None]


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A decoded file: node, system rows, sizes, and whether it has a checksum, which then matched."""

    node: Node
    system: dict[str, str]
    sizes: Sizes | None
    verified: bool


def encode_node(node: Node, created_at_millis: int) -> bytes:
    """Encode a node that is not a root. All of its children must be paths."""
    return _encode([_batch(_tree(node, {CREATED_AT_MILLIS: str(created_at_millis)}))], None)


def encode_root(root: Root, actions: Iterable[tuple[str, str]]) -> bytes:
    """Encode a root with its action rows, each an object key and the action as text.

    Actions are consumed a few thousand at a time, because a commit may have a hundred thousand. Raise
    TransactionTooLarge if readers would reject the file's size.
    """
    system = {CATALOG_DEF: root.catalog_def, CREATED_AT_MILLIS: str(root.created_at_millis)}
    if root.previous_root is not None:
        system[PREVIOUS_ROOT] = root.previous_root
    if root.rollback_from_root is not None:
        system[ROLLBACK_FROM_ROOT] = root.rollback_from_root
    batches = [_batch(_tree(root.node, system)), *_action_batches(iter(actions))]
    rows, unpacked = sum(batch.rows for batch in batches), sum(batch.unpacked for batch in batches)
    data = _encode(batches, root.sizes)
    try:
        within(rows, unpacked, root_bounds(root.sizes, len(data)))
        if len(data) > MAX_FILE_BYTES:
            raise TooMuch(f"it has {len(data):,} bytes")
    except TooMuch as error:
        raise TransactionTooLarge(f"the root would be too large: {error}", hint="commit in steps") from None
    return data


def encode_lost(version: int) -> bytes:
    """Encode the placeholder for a lost root. It has no rows, so that no program takes it for a root."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA.with_metadata({LOST_KEY: str(version).encode()})):
        pass
    return bytes(sink.getvalue())


def encode_java(node: Node, created_at_millis: int, root: Root | None = None) -> bytes:
    """Encode a node, or a root, in the Java SDK's layout: one batch, uncompressed, without our metadata."""
    system = {CREATED_AT_MILLIS: str(created_at_millis), N_KEYS: str(len(node.keys))}
    if root is not None:
        system[CATALOG_DEF] = root.catalog_def
        if root.previous_root is not None:
            system[PREVIOUS_ROOT] = root.previous_root
    columns = [_array(*column) for column in _tree(node, system)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, SCHEMA) as writer:
        writer.write_batch(pa.record_batch(columns, schema=SCHEMA))
    return bytes(sink.getvalue())


def decode_node(data: bytes, path: str, java: bool = False, sizes: Sizes | None = None) -> NodeFile:
    """Decode the node in the file `path`. Rows after its pivot table are allowed in roots only, as action rows.

    `sizes` are the catalog's, if known: a node whose claimed size exceeds their bounds is not unpacked. The Java SDK
    counts `n_keys` in several ways and writes no rows after the pivot table. It may leave single pointers NULL, and
    sorts by UTF-16 units.
    """
    bounds = tree_bounds(None if java else sizes)
    return _decode_file(NodeRows(data, path, bounds if parse_root_path(path) is None else None), path, java)


def _decode_file(rows: NodeRows, path: str, java: bool) -> NodeFile:
    return _decode_java(rows, path) if java else _decode(rows, path)


def decode_root(data: bytes, path: str, java: bool = False) -> Root:
    """Decode the root in the file `path`, without its action rows."""
    return _root(_decode_file(NodeRows(data, path), path, java), path)


def decode_commit(data: bytes, path: str) -> tuple[Root, Callable[[], list[tuple[str, str]]]]:
    """Decode the root in the file `path`. Also return a function that reads its action rows from the same open file."""
    rows = NodeRows(data, path)
    file = _decode(rows, path)
    start = len(file.system) + 1 + len(file.node.keys)
    return _root(file, path), lambda: _action_rows(rows, path, start)


def _root(file: NodeFile, path: str) -> Root:
    system = file.system
    catalog_def = system.get(CATALOG_DEF)
    if catalog_def is None:
        raise Damaged("F207", path, "it names no catalog definition, so it is not a root")
    return Root(
        node=file.node,
        catalog_def=catalog_def,
        created_at_millis=_number(system, CREATED_AT_MILLIS, path),
        previous_root=system.get(PREVIOUS_ROOT),
        rollback_from_root=system.get(ROLLBACK_FROM_ROOT),
        sizes=file.sizes,
    )


def decode_action_rows(data: bytes, path: str) -> list[tuple[str, str]]:
    """Return the action rows of a root in the order of the actions: object keys and actions as text."""
    try:
        rows = NodeRows(data, path)
        system = rows.system()
        start = len(system) + 1 + _number(system, N_KEYS, path)
    except Damaged as error:
        raise _lost_log(error) from None
    return _action_rows(rows, path, start)


def _action_rows(rows: NodeRows, path: str, start: int) -> list[tuple[str, str]]:
    """Return the rows from `start`, the first one after the pivot table."""
    try:
        end = rows.reach()
    except Damaged as error:
        raise _lost_log(error) from None
    start = min(start, end)
    if rows.actions_digest is not None and _digest_of(rows, start, end) != rows.actions_digest:
        raise Damaged("F401", path, "checksum mismatch in its action rows")
    actions = []
    for key, value, pnode in zip(*(column[start:] for column in rows.columns), strict=True):
        if key is None and value is None and pnode is None:
            continue
        if key is None or value is None or pnode is not None:
            raise Damaged("F401", path, "a row after the pivot table is not an action row")
        actions.append((key, value))
    return actions


def _lost_log(error: Damaged) -> Damaged:
    """Return the error for a lost action log, whatever part of the file is damaged."""
    return Damaged("F401", error.path, error.reason)


def digest(rows: Sequence[Row]) -> str:
    """Return the checksum of rows; see `hash_columns`."""
    return hash_columns(len(rows), [_pack(_column(values)) for values in zip(*rows, strict=True)])


Column = tuple[list[int], bytes]
"""A column: the lengths of its values in bytes (NULL is -1), and their UTF-8 bytes concatenated."""


def _column(values: Values) -> Column:
    # NULL and the empty string add no bytes
    text = "".join(filter(None, values))
    data = text.encode()
    if len(data) != len(text):
        return [-1 if value is None else len(value.encode()) for value in values], data
    try:
        # fast path: few columns have NULLs between their values
        return list(map(len, cast("Sequence[str]", values))), data
    except TypeError:
        return [-1 if value is None else len(value) for value in values], data


def _pack(column: Column) -> tuple[bytes, bytes]:
    lengths, data = column
    return struct.pack(f"<{len(lengths)}i", *lengths), data


def _tree(node: Node, system: dict[str, str]) -> list[Column]:
    """Return the columns of the system rows and the pivot table."""
    system = {**system, N_KEYS: str(len(node.keys))}
    rows, leftmost = len(node.keys) + 1, ([-1], b"")
    paths: Column = ([-1] * rows, b"")
    if node.children:
        found = [child for child in node.children if isinstance(child, str)]
        if len(found) != rows:
            raise ValueError("a node is encoded after its children have paths")
        paths = _column(found)
    return [
        _joined(_column(list(system)), leftmost, _column(node.keys)),
        _joined(_column(list(system.values())), leftmost, _column(node.values)),
        _joined(([-1] * len(system), b""), paths),
    ]


def _joined(*columns: Column) -> Column:
    """Concatenate columns."""
    lengths: list[int] = []
    for column, _ in columns:
        lengths += column
    return lengths, b"".join([data for _, data in columns])


class _Batch(NamedTuple):
    """Rows to be written, as Arrow arrays and in the packed form of their checksum."""

    arrays: list[Any]
    packed: list[tuple[bytes, bytes]]

    @property
    def rows(self) -> int:
        return len(self.arrays[0])

    @property
    def unpacked(self) -> int:
        """The largest unpacked size that a reader can find: an incompressible buffer is stored as it is, after its
        length.
        """
        buffers = [buffer for array in self.arrays for buffer in array.buffers() if buffer is not None]
        return sum(buffer.size + 8 for buffer in buffers)


def _batch(columns: list[Column]) -> _Batch:
    return _Batch([_array(*column) for column in columns], [_pack(column) for column in columns])


def _action_batches(actions: Iterator[tuple[str, str]]) -> Iterator[_Batch]:
    while rows := list(islice(actions, _ACTIONS_AT_ONCE)):
        keys, texts = zip(*rows, strict=True)
        yield _batch([_column(keys), _column(texts), ([-1] * len(rows), b"")])


def _digest(batches: Sequence[_Batch]) -> str:
    """Return the checksum of rows in several batches, which equals that of one batch."""
    columns = zip(*(batch.packed for batch in batches), strict=True)
    parts = ([part for both in zip(*column, strict=True) for part in both] for column in columns)
    return hash_columns(sum(batch.rows for batch in batches), parts)


def _encode(batches: list[_Batch], sizes: Sizes | None) -> bytes:
    """Encode the tree's rows and the action rows. Each batch is released once it is written."""
    metadata = {DIGEST_KEY: _digest(batches[:1])}
    if sizes is not None:
        metadata[SIZES_KEY] = _sizes_text(sizes)
    if len(batches) > 1:
        metadata[ACTIONS_DIGEST_KEY] = _digest(batches[1:])
    schema = SCHEMA.with_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=_OPTIONS) as writer:
        while batches:
            writer.write_batch(pa.RecordBatch.from_arrays(batches.pop(0).arrays, schema=schema))
    return bytes(sink.getvalue())


@lru_cache(maxsize=16)
def _sizes_text(sizes: Sizes) -> str:
    """Return the sizes as JSON. Cached, because all roots of a catalog have the same sizes."""
    fields = {"order": sizes.order, "namespace": sizes.namespace, "table": sizes.table, "view": sizes.view}
    return json.dumps(fields, separators=(",", ":"))


def _array(lengths: list[int], data: bytes) -> Any:
    """Return a column from its buffers. `pa.array` would import pandas, if installed, which takes longer than a
    commit.
    """
    number, nulls, validity = len(lengths), lengths.count(-1), None
    if nulls == number:
        validity, lengths = pa.py_buffer(bytes((number + 7) // 8)), [0] * number
    elif nulls:
        lengths, at = list(lengths), -1
        valid = bytearray(((1 << number) - 1).to_bytes((number + 7) // 8, "little"))
        for _ in range(nulls):
            at = lengths.index(-1, at + 1)
            lengths[at] = 0
            valid[at // 8] -= 1 << at % 8
        validity = pa.py_buffer(valid)
    offsets = struct.pack(f"<{number + 1}i", 0, *accumulate(lengths))
    return pa.Array.from_buffers(pa.string(), number, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


def _decode(rows: NodeRows, path: str) -> NodeFile:
    system = rows.system()
    n_keys = _number(system, N_KEYS, path)
    start, end = len(system), len(system) + 1 + n_keys
    there = rows.reach(end)
    if there != end:
        raise Damaged("F207", path, f"its pivot table has {plural(there - start - 1, 'key')}, but n_keys says {n_keys}")
    behind = [] if CATALOG_DEF in system or rows.reach() == end else [column[end:] for column in rows.columns]
    if any(value is not None for column in behind for value in column):
        raise Damaged("F207", path, "it has rows after its pivot table, but is not a root")
    if rows.digest is not None and _digest_of(rows, 0, end) != rows.digest:
        raise Damaged("F206", path, "checksum mismatch")
    keys, values, children = (tuple(column[start:end]) for column in rows.columns)
    if values[0] is not None or None in keys[1:]:
        raise Damaged("F207", path, "its pivot table is not a leftmost row and rows with keys")
    keys, values = keys[1:], values[1:]
    if not all(map(operator.lt, keys, keys[1:])):
        raise Damaged("F208", path, "its keys are not in order")
    if missing := children.count(None):
        if missing != len(children):
            raise Damaged("F207", path, "some of its rows point to a child and some do not")
        children = ()
    return NodeFile(Node(keys, values, children), system, rows.sizes, rows.digest is not None)


def _digest_of(rows: NodeRows, start: int, end: int) -> str:
    packed = rows.packed(start, end)
    if packed is not None:
        return hash_columns(end - start, packed)
    return hash_columns(end - start, [_pack(_column(column[start:end])) for column in rows.columns])


def _decode_java(rows: NodeRows, path: str) -> NodeFile:
    system = rows.system()
    rows.reach()
    # in a pointer with two slashes, made from an object's name, local filesystems treat both as one
    pivot = [
        (key and utf16_units(key), value and _SLASHES.sub("/", value), child)
        for key, value, child in zip(*(column[len(system) :] for column in rows.columns), strict=True)
    ]
    if any(key is None for key, _, _ in pivot[1:]) or pivot[0][1] is not None:
        raise Damaged("F207", path, "its pivot table is not a leftmost row and rows with keys")
    if all(child is None for _, _, child in pivot):
        pivot[1:] = sorted(pivot[1:], key=lambda row: row[0] or "")
    keys, values, children = zip(*pivot, strict=True)
    keys, values = keys[1:], values[1:]
    if not all(map(operator.lt, keys, keys[1:])):
        raise Damaged("F208", path, "its keys are not in order")
    inner = any(child is not None for child in children)
    children = tuple(EMPTY if child is None else child for child in children) if inner else ()
    return NodeFile(Node(keys, values, children), system, None, False)


def _number(system: dict[str, str], key: str, path: str) -> int:
    text = system.get(key)
    if text is None:
        raise Damaged("F207", path, f"it has no system row {key}")
    if not (text.isascii() and text.isdigit() and len(text) <= 18):
        raise Damaged("F207", path, f"its {key} is {text[:40]!a}, not a number")
    return int(text)
