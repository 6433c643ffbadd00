"""Node files: Arrow IPC bytes <-> nodes, roots and action rows. The only module that knows Arrow.

A file has the columns key, value and pnode. Its rows, from top to bottom: system rows (key and value), the pivot
table (a leftmost row without key and value, then a row for each key), and in roots the action rows. We put the
action rows into record batches of their own, so that a search does not decode them; readers take any batches.
"""

from __future__ import annotations

import json
import operator
import re
import struct
from array import array
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from itertools import accumulate, islice
from typing import Any

import pyarrow as pa

from olympia_cli.errors import Damaged, TransactionTooLarge, Unsupported
from olympia_cli.format.arrow_messages import Block, Nonsense, block_layout, footer_blocks
from olympia_cli.format.bounds import Bounds, TooMuch, check_batch, check_file, root_bounds, tree_bounds
from olympia_cli.format.keys import CATALOG_DEF, utf16_units
from olympia_cli.format.node import EMPTY, Node, Root, Sizes
from olympia_cli.format.paths import MAX_FILE_BYTES, parse_root_path

PREVIOUS_ROOT = "previous_root"
ROLLBACK_FROM_ROOT = "rollback_from_root"
CREATED_AT_MILLIS = "created_at_millis"
N_KEYS = "n_keys"

COLUMNS = ("key", "value", "pnode")
DIGEST_KEY = b"olympia.sha256"
ACTIONS_DIGEST_KEY = b"olympia.actions-sha256"
SIZES_KEY = b"olympia.sizes"
_SCHEMA = pa.schema([pa.field(name, pa.string()) for name in COLUMNS])
# a node is too small for threads to pay: handing work over costs more than the work
_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4", use_threads=False)
READ_OPTIONS = pa.ipc.IpcReadOptions(use_threads=False)

_SLASHES = re.compile("/+")
_MAGIC = b"ARROW1"
_ACTIONS_AT_ONCE = 4096
_SHORTEST = 16
"""No Arrow file is shorter: it begins and ends with those letters, and says in between how long its footer is."""

Row = tuple[str | None, str | None, str | None]
Values = Sequence[str | None]


@dataclass(frozen=True, slots=True)
class NodeFile:
    """A decoded file:

    its node, its system rows, and whether its digest was there and right (a wrong one is Damaged).
    """

    node: Node
    system: dict[str, str]
    sizes: Sizes | None
    verified: bool


def encode_node(node: Node, created_at_millis: int) -> bytes:
    """A non-root node; all of its children must be paths by now."""
    return _encode(_tree(node, {CREATED_AT_MILLIS: str(created_at_millis)}), [], None)


def encode_root(root: Root, actions: Iterable[tuple[str, str]]) -> bytes:
    """A root with its action rows, each an object key and the action as text; TransactionTooLarge when no reader would
    take it. A commit may have a hundred thousand of them, so they are taken a few thousand at a time."""
    system = {CATALOG_DEF: root.catalog_def, CREATED_AT_MILLIS: str(root.created_at_millis)}
    if root.previous_root is not None:
        system[PREVIOUS_ROOT] = root.previous_root
    if root.rollback_from_root is not None:
        system[ROLLBACK_FROM_ROOT] = root.rollback_from_root
    data = _encode(_tree(root.node, system), actions, root.sizes)
    try:
        check_file(data, root_bounds(root.sizes, len(data)))
        if len(data) > MAX_FILE_BYTES:
            raise TooMuch(f"it has {len(data):,} bytes")
    except TooMuch as error:
        raise TransactionTooLarge(f"the root would be too large: {error}", hint="commit in steps") from None
    return data


def encode_java(node: Node, created_at_millis: int, root: Root | None = None) -> bytes:
    """A node, or a root, as the Java SDK lays it out: one batch without compression, and no word of who wrote it."""
    system = {CREATED_AT_MILLIS: str(created_at_millis), N_KEYS: str(len(node.keys))}
    if root is not None:
        system[CATALOG_DEF] = root.catalog_def
        if root.previous_root is not None:
            system[PREVIOUS_ROOT] = root.previous_root
    columns = [pa.array(column, pa.string()) for column in _tree(node, system)]
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, _SCHEMA) as writer:
        writer.write_batch(pa.record_batch(columns, schema=_SCHEMA))
    return bytes(sink.getvalue())


def decode_node(data: bytes, path: str, java: bool = False, sizes: Sizes | None = None) -> NodeFile:
    """The node in the file `path`; rows after its pivot table are action rows, which only roots have. `sizes` are the
    catalog's, where they are known: a node that says that it holds more than they allow is not unpacked.

    The Java SDK counts `n_keys` in several ways, writes nothing behind the pivot table, leaves single pointers
    NULL, and sorts by UTF-16 units.
    """
    bounds = tree_bounds(None if java else sizes)
    return _decode_file(_Rows(data, path, bounds if parse_root_path(path) is None else None), path, java)


def _decode_file(rows: _Rows, path: str, java: bool) -> NodeFile:
    return _decode_java(rows, path) if java else _decode(rows, path)


def decode_root(data: bytes, path: str, java: bool = False) -> Root:
    """The root in the file `path`, without its action rows."""
    return _root(_decode_file(_Rows(data, path), path, java), path)


def decode_commit(data: bytes, path: str) -> tuple[Root, Callable[[], list[tuple[str, str]]]]:
    """The root in the file `path`, and what reads its action rows as `decode_action_rows` does: the file is opened and
    checked once for both."""
    rows = _Rows(data, path)
    return _root(_decode(rows, path), path), lambda: _action_rows(rows, path)


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
    """The action rows of a root: object keys and actions as text, in the order in which they were done."""
    try:
        rows = _Rows(data, path)
    except Damaged as error:
        raise _lost_log(error) from None
    return _action_rows(rows, path)


def _action_rows(rows: _Rows, path: str) -> list[tuple[str, str]]:
    try:
        found = list(rows.from_row(rows.tree_end()))
    except Damaged as error:
        raise _lost_log(error) from None
    if rows.actions_digest is not None and digest(found) != rows.actions_digest:
        raise Damaged("F401", path, "its action rows are not what their digest says")
    actions = []
    for key, value, pnode in found:
        if key is None and value is None and pnode is None:
            continue
        if key is None or value is None or pnode is not None:
            raise Damaged("F401", path, "a row after the pivot table is not an action row")
        actions.append((key, value))
    return actions


def _lost_log(error: Damaged) -> Damaged:
    """Whatever part of the file is damaged, what is lost is the log."""
    return Damaged("F401", error.path, error.reason)


def digest(rows: Sequence[Row]) -> str:
    """The SHA-256 of rows, so that any program can recompute it whatever its Arrow library does with bytes.

    The number of rows; then for each column its lengths, NULL as -1, and its UTF-8 bytes one after the
    other. Numbers are 32-bit little-endian.
    """
    return _digest([[_column(values) for values in zip(*rows, strict=True)] if rows else [([], b"")] * len(COLUMNS)])


Column = tuple[Sequence[int], bytes]
"""The lengths of the values in bytes, NULL as -1, and their UTF-8 bytes one after the other."""


def _column(values: Values) -> Column:
    text = "".join([value for value in values if value is not None])
    data = text.encode()
    if len(data) == len(text):
        return [-1 if value is None else len(value) for value in values], data
    return [-1 if value is None else len(value.encode()) for value in values], data


def _digest(batches: Sequence[Sequence[Column]]) -> str:
    """Of rows that are in several batches, as if they were in one."""
    hashed = sha256(struct.pack("<i", sum(len(columns[0][0]) for columns in batches)))
    for at in range(len(COLUMNS)):
        for columns in batches:
            lengths, _ = columns[at]
            hashed.update(struct.pack(f"<{len(lengths)}i", *lengths))
        for columns in batches:
            hashed.update(columns[at][1])
    return hashed.hexdigest()


def _tree(node: Node, system: dict[str, str]) -> tuple[Values, Values, Values]:
    """The columns of the system rows and the pivot table."""
    system = {**system, N_KEYS: str(len(node.keys))}
    rows = len(node.keys) + 1
    paths: Values = [child for child in node.children if isinstance(child, str)] if node.children else [None] * rows
    if len(paths) != rows:
        raise ValueError("a node is encoded after its children have paths")
    return (*system, None, *node.keys), (*system.values(), None, *node.values), (*[None] * len(system), *paths)


def _encode(tree: Sequence[Values], actions: Iterable[tuple[str, str]], sizes: Sizes | None) -> bytes:
    batches = [[_column(values) for values in tree]]
    metadata = {DIGEST_KEY: _digest(batches)}
    if sizes is not None:
        fields = {
            "order": sizes.order,
            "namespace": sizes.namespace,
            "table": sizes.table,
            "view": sizes.view,
        }
        metadata[SIZES_KEY] = json.dumps(fields, separators=(",", ":"))
    batches += _action_batches(iter(actions))
    if len(batches) > 1:
        metadata[ACTIONS_DIGEST_KEY] = _digest(batches[1:])
    schema = _SCHEMA.with_metadata(metadata)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_file(sink, schema, options=_OPTIONS) as writer:
        for _ in range(len(batches)):
            # what is written is not held any longer
            arrays = [_array(*column) for column in batches.pop(0)]
            writer.write_batch(pa.RecordBatch.from_arrays(arrays, schema=schema))
    return bytes(sink.getvalue())


def _action_batches(actions: Iterator[tuple[str, str]]) -> Iterator[list[Column]]:
    while rows := list(islice(actions, _ACTIONS_AT_ONCE)):
        keys, texts = zip(*rows, strict=True)
        columns = (_column(values) for values in (keys, texts, [None] * len(rows)))
        # a number takes seven times as much in a list
        yield [(array("i", lengths), data) for lengths, data in columns]


def _array(lengths: Sequence[int], data: bytes) -> Any:
    """A column from its buffers. `pa.array` asks pandas whether it knows the values, where pandas is installed, and
    importing that takes longer than a whole commit."""
    number, validity = len(lengths), None
    if -1 in lengths:
        bits = int("".join(["0" if length < 0 else "1" for length in reversed(lengths)]), 2)
        validity = pa.py_buffer(bits.to_bytes((number + 7) // 8, "little"))
        lengths = [length if length > 0 else 0 for length in lengths]
    offsets = struct.pack(f"<{number + 1}i", 0, *accumulate(lengths))
    return pa.Array.from_buffers(pa.string(), number, [validity, pa.py_buffer(offsets), pa.py_buffer(data)])


class _Rows:
    """The rows of a file, decoded batch by batch as far as they are asked for."""

    def __init__(self, data: bytes, path: str, bounds: Bounds | None = None) -> None:
        """`bounds` are those of a node; without them the file is a root, which says what its catalog's sizes are."""
        self._data = data
        self._path = path
        try:
            self._reader = pa.ipc.open_file(pa.py_buffer(data), options=READ_OPTIONS)
            schema = self._reader.schema
            names = tuple(schema.names)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise Damaged(*_not_arrow(data, path, error)) from None
        if set(names) > set(COLUMNS):
            extra = ", ".join(sorted(set(names) - set(COLUMNS)))
            raise Unsupported(f"{path} has columns that this program does not know: {extra!a}")
        if names != COLUMNS or any(field.type != pa.string() for field in schema):
            raise Damaged("F203", path, "it is an Arrow file, but its columns are not key, value and pnode")
        metadata: dict[bytes, bytes] = schema.metadata or {}
        self.digest = metadata_text(metadata.get(DIGEST_KEY))
        self.actions_digest = metadata_text(metadata.get(ACTIONS_DIGEST_KEY))
        self.sizes = decode_sizes(metadata.get(SIZES_KEY), path)
        self._bounds = bounds if bounds is not None else root_bounds(self.sizes, len(data))
        self._blocks: list[Block] | None = None
        self._batches = 0
        self._rows: list[Row] = []

    def row(self, at: int) -> Row | None:
        """Row `at`, or None past the end."""
        while at >= len(self._rows) and self._next_batch():
            pass
        return self._rows[at] if at < len(self._rows) else None

    def rows(self, start: int, end: int) -> list[Row]:
        """The rows from start up to end, or as many as there are."""
        if end > start:
            self.row(end - 1)
        return self._rows[start:end]

    def from_row(self, start: int) -> Iterator[Row]:
        """All rows from start to the end of the file."""
        while self._next_batch():
            pass
        return iter(self._rows[start:])

    def system(self) -> dict[str, str]:
        """The rows before the first NULL key."""
        system: dict[str, str] = {}
        while True:
            row = self.row(len(system))
            if row is None:
                raise Damaged("F207", self._path, "it ends before its pivot table")
            key, value, _ = row
            if key is None:
                return system
            if value is None or key in system:
                raise Damaged("F207", self._path, f"its system row {key[:60]!a} is empty or there twice")
            system[key] = value

    def tree_end(self) -> int:
        """The row behind the pivot table."""
        system = self.system()
        return len(system) + 1 + _number(system, N_KEYS, self._path)

    def _next_batch(self) -> bool:
        try:
            if self._batches >= self._reader.num_record_batches:
                return False
            self._check_bounds()
            batch = self._reader.get_batch(self._batches)
            # offsets that lead out of the buffers are found here, before they are followed
            batch.validate(full=True)
            columns: list[list[Any]] = [column.to_pylist() for column in batch.columns]
        except (pa.ArrowException, OSError, ValueError, Nonsense, TooMuch) as error:
            if isinstance(error, MemoryError):
                raise  # within the bounds it is this machine that is too small
            reason = f"its record batch {self._batches} cannot be read: {one_line(error)}"
            raise Damaged("F205", self._path, reason) from None
        self._batches += 1
        self._rows.extend(zip(*columns, strict=True))
        return True

    def _check_bounds(self) -> None:
        """The next batch is unpacked only when what it says of itself is within the bounds."""
        if self._blocks is None:
            dictionaries, batches = footer_blocks(self._data)
            if dictionaries:
                raise Nonsense("it has dictionaries, and columns without")
            self._blocks = batches
        layout = block_layout(self._data, self._blocks[self._batches])
        self._bounds = check_batch(self._data, *layout, self._bounds)


def _decode(rows: _Rows, path: str) -> NodeFile:
    system = rows.system()
    n_keys = _number(system, N_KEYS, path)
    start, end = len(system), len(system) + 1 + n_keys
    pivot = rows.rows(start, end)
    if len(pivot) != n_keys + 1:
        raise Damaged("F207", path, f"its pivot table has {len(pivot) - 1} keys, but n_keys says {n_keys}")
    if CATALOG_DEF not in system and any(row != (None, None, None) for row in rows.from_row(end)):
        raise Damaged("F207", path, "it has rows behind its pivot table, and is not a root")
    if rows.digest is not None and digest(rows.rows(0, end)) != rows.digest:
        raise Damaged("F206", path, "its rows are not what its digest says")
    keys, values, children = zip(*pivot, strict=True)
    if values[0] is not None or None in keys[1:]:
        raise Damaged("F207", path, "its pivot table is not a leftmost row and rows with keys")
    keys, values = keys[1:], values[1:]
    if not all(map(operator.lt, keys, keys[1:])):
        raise Damaged("F208", path, "its keys are not in order")
    if None in children:
        if any(child is not None for child in children):
            raise Damaged("F207", path, "some of its rows point to a child and some do not")
        children = ()
    return NodeFile(Node(keys, values, children), system, rows.sizes, rows.digest is not None)


def _decode_java(rows: _Rows, path: str) -> NodeFile:
    system = rows.system()
    # a name with two slashes in a row goes into a path as it is, and the folders of a disk know only one
    pivot = [
        (key and utf16_units(key), value and _SLASHES.sub("/", value), child)
        for key, value, child in rows.from_row(len(system))
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
    """All roots of a catalog say the same."""
    fields = json.loads(text)
    return Sizes(*(int(fields[name]) for name in ("order", "namespace", "table", "view")))


def metadata_text(value: bytes | None) -> str | None:
    return None if value is None else value.decode("ascii", "replace")


def _not_arrow(data: bytes, path: str, error: Exception) -> tuple[str, str, str]:
    if not data:
        return "F202", path, "it is empty"
    begins = _MAGIC.startswith(data[: len(_MAGIC)])
    if begins and (len(data) < _SHORTEST or not data.endswith(_MAGIC)):
        return "F204", path, f"it is cut short after {len(data):,} bytes"
    if not begins:
        return "F203", path, "it is not an Arrow file"
    return "F205", path, f"it cannot be read as an Arrow file: {one_line(error)}"


def one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
