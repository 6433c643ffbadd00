"""Decode metadata files, MessagePack or JSON, into values. No I/O.

Below the namespace, the names of ancestors inside a body are placeholders, so none is read.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from olympia_cli.importers.deltacat.index import KINDS

T = TypeVar("T")
_LOCATORS = {
    "namespace": "namespaceLocator",
    "table": "tableLocator",
    "table version": "tableVersionLocator",
    "stream": "streamLocator",
    "partition": "partitionLocator",
    "delta": "deltaLocator",
}
PARQUET = "application/parquet"
COMMITTED = "committed"


@dataclass(frozen=True, slots=True)
class Namespace:
    id: str
    name: str
    properties: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Table:
    """`active` is the version that readers get."""

    id: str
    name: str
    description: str | None
    properties: Mapping[str, Any]
    active: str | None


@dataclass(frozen=True, slots=True)
class PartitionKey:
    """A part of a partition scheme: the column, if it is one, and the transform of its values."""

    column: str | int | None
    transform: str


@dataclass(frozen=True, slots=True)
class TableVersion:
    """`schema` is an Arrow schema in IPC format, or None; `schemas` are all schemas that the version had. `scheme` is
    the id of the present partition scheme: partitions of another scheme have values of another kind."""

    version: str
    state: str
    description: str | None
    schema: bytes | None
    schemas: tuple[bytes, ...]
    keys: tuple[PartitionKey, ...]
    scheme: str | None


@dataclass(frozen=True, slots=True)
class Stream:
    format: str
    state: str


@dataclass(frozen=True, slots=True)
class Partition:
    values: tuple[Any, ...]
    state: str
    scheme: str | None


@dataclass(frozen=True, slots=True)
class DeltaFile:
    """A file of a delta. `rows` and `size` come from the manifest, if stated. `keys` are the columns by which the file
    deletes; None is a field within a column. `schema` is the id of the schema with which the file was written."""

    url: str
    rows: int | None
    size: int | None
    content_type: str
    encoding: str
    type: str
    keys: tuple[str | int | None, ...] = ()
    schema: int | None = None


@dataclass(frozen=True, slots=True)
class Delta:
    """`previous` is None for a delta without an order."""

    position: int
    type: str
    previous: int | None
    entries: tuple[DeltaFile, ...]

    @property
    def merges(self) -> bool:
        """True if the delta changes rows of earlier deltas."""
        return self.type not in ("add", "append") or any(entry.type != "data" for entry in self.entries)


Body = Namespace | Table | TableVersion | Stream | Partition | Delta


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation of a transaction: `create`, `update`, `replace` or `delete` of an object."""

    type: str
    id: str
    files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TransactionLog:
    """The log of a transaction. `root` is the catalog's location at that time."""

    id: str
    began_at: int | None
    ended_at: int | None
    message: str | None
    root: str | None
    operations: tuple[Operation, ...]


def read_map(data: bytes, path: str) -> dict[str, Any]:
    """Decode a metadata file, which is one map."""
    if not data:
        raise Malformed("it is empty")
    if path.endswith(".json"):
        try:
            found = json.loads(data)
        except (ValueError, RecursionError):
            raise Malformed("it is not JSON") from None
    else:
        found = decode(data)
    if not isinstance(found, dict):
        raise Malformed("it is not a map")
    return found


def read_body(data: bytes, path: str, depth: int) -> Body:
    """Decode the object in a file. `depth` is the number of folders that lead to it, which determines its kind."""
    body = read_map(data, path)
    kind = KINDS[depth - 1]
    if _LOCATORS[kind] not in body:
        others = [other for other, key in _LOCATORS.items() if key in body]
        raise Malformed(f"it is of a {others[0] if others else 'foreign thing'}, and its folder is that of a {kind}")
    return _READERS[kind](body, _take(body, _LOCATORS[kind], dict))


def read_log(data: bytes, path: str) -> TransactionLog:
    """Decode the log of a transaction, without its read operations."""
    body = read_map(data, path)
    return TransactionLog(
        _take(body, "id", str),
        _maybe(body, "start_time", int),
        _maybe(body, "end_time", int),
        _maybe(body, "commit_message", str),
        _maybe(body, "catalog_root_normalized", str),
        tuple(_operations(_maybe(body, "operations", list) or [])),
    )


def _operations(found: list[Any]) -> list[Operation]:
    operations = []
    for one in found:
        if not isinstance(one, dict):
            raise Malformed("an operation in it is no map")
        type = _take(one, "type", str)
        if not type.startswith("read_"):
            files = [_text(path) for path in _maybe(one, "metafile_write_paths", list) or []]
            id = _maybe(_maybe(one, "dest_metafile", dict) or {}, "id", str) or ""
            operations.append(Operation(type, id, tuple(files)))
    return operations


def _namespace(body: dict[str, Any], locator: dict[str, Any]) -> Namespace:
    return Namespace(_take(body, "id", str), _take(locator, "namespace", str), _maybe(body, "properties", dict) or {})


def _table(body: dict[str, Any], locator: dict[str, Any]) -> Table:
    return Table(
        _take(body, "id", str),
        _take(locator, "tableName", str),
        _maybe(body, "description", str),
        _maybe(body, "properties", dict) or {},
        _maybe(body, "latest_active_table_version", str),
    )


def _table_version(body: dict[str, Any], locator: dict[str, Any]) -> TableVersion:
    scheme = _maybe(body, "partitionScheme", dict) or {}
    return TableVersion(
        _take(locator, "tableVersion", str),
        _maybe(body, "state", str) or "",
        _maybe(body, "description", str),
        _maybe(body, "schema", bytes),
        tuple(one for one in _maybe(body, "schemas", list) or [] if isinstance(one, bytes)),
        tuple(_key(one) for one in _maybe(scheme, "keys", list) or []),
        _maybe(scheme, "id", str),
    )


def _key(found: Any) -> PartitionKey:
    if not isinstance(found, dict):
        raise Malformed("a key of its partition scheme is no map")
    columns = found.get("key")
    column = columns[0] if isinstance(columns, list) and len(columns) == 1 else columns
    transform = _maybe(_maybe(found, "transform", dict) or {}, "name", str) or "identity"
    return PartitionKey(column if isinstance(column, str | int) else None, transform)


def _stream(body: dict[str, Any], locator: dict[str, Any]) -> Stream:
    return Stream(_maybe(locator, "format", str) or "", _maybe(body, "state", str) or "")


def _partition(body: dict[str, Any], locator: dict[str, Any]) -> Partition:
    return Partition(
        tuple(_maybe(locator, "partitionValues", list) or []),
        _maybe(body, "state", str) or "",
        _maybe(body, "partitionSchemeId", str),
    )


def _delta(body: dict[str, Any], locator: dict[str, Any]) -> Delta:
    entries = _maybe(_maybe(body, "manifest", dict) or {}, "entries", list) or []
    return Delta(
        _take(locator, "streamPosition", int),
        _take(body, "type", str),
        _maybe(body, "previousStreamPosition", int),
        tuple(_entry(one) for one in entries),
    )


def _entry(found: Any) -> DeltaFile:
    if not isinstance(found, dict):
        raise Malformed("a file in its manifest is no map")
    meta = _maybe(found, "meta", dict) or {}
    params = _maybe(meta, "entry_params", dict) or {}
    return DeltaFile(
        _maybe(found, "url", str) or _take(found, "uri", str),
        _maybe(meta, "record_count", int),
        _maybe(meta, "content_length", int),
        _maybe(meta, "content_type", str) or "",
        _maybe(meta, "content_encoding", str) or "identity",
        _maybe(meta, "entry_type", str) or "data",
        tuple(
            one if isinstance(one, str | int) else None for one in _maybe(params, "equality_field_locators", list) or []
        ),
        _maybe(meta, "schema_id", int),
    )


_READERS: dict[str, Callable[[dict[str, Any], dict[str, Any]], Body]] = {
    "namespace": _namespace,
    "table": _table,
    "table version": _table_version,
    "stream": _stream,
    "partition": _partition,
    "delta": _delta,
}


def _take(body: Mapping[str, Any], key: str, type: type[T]) -> T:
    found = _maybe(body, key, type)
    if found is None:
        raise Malformed(f"it has no {key}")
    return found


def _maybe(body: Mapping[str, Any], key: str, type: type[T]) -> T | None:
    found = body.get(key)
    if found is not None and not isinstance(found, type):
        raise Malformed(f"its {key} is no {type.__name__}")
    return found


def _text(found: Any) -> str:
    if not isinstance(found, str):
        raise Malformed("a path in it is no text")
    return found


# Decode MessagePack, as far as metadata uses it: one value from its bytes.
#
# A length beyond the end of the bytes is refused before memory is allocated. So hostile input costs no more memory than
# sound input.

MAX_DEPTH = 64
_NUMBERS = {
    0xCA: ">f",
    0xCB: ">d",
    0xCC: ">B",
    0xCD: ">H",
    0xCE: ">I",
    0xCF: ">Q",
    0xD0: ">b",
    0xD1: ">h",
    0xD2: ">i",
    0xD3: ">q",
}
_CONSTANTS = {0xC0: None, 0xC2: False, 0xC3: True}
_LENGTHS = {1: ">B", 2: ">H", 4: ">I"}


class Malformed(ValueError):
    """The bytes are not valid."""


def decode(data: bytes) -> Any:
    """Return the value. Raise Malformed if there is none, or more than one."""
    reader = _MsgpackReader(data)
    value = reader.value(0)
    if reader.at != len(data):
        raise Malformed(f"{len(data) - reader.at} bytes follow its end")
    return value


class _MsgpackReader:
    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def value(self, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise Malformed("it is nested too deeply")
        first = self._number(">B")
        if first < 0x80:
            return first
        if first >= 0xE0:
            return first - 0x100
        if first < 0x90:
            return self._map(first & 0x0F, depth)
        if first < 0xA0:
            return self._list(first & 0x0F, depth)
        if first < 0xC0:
            return self._text(first & 0x1F)
        if first in _CONSTANTS:
            return _CONSTANTS[first]
        if first in _NUMBERS:
            return self._number(_NUMBERS[first])
        for base, widths, read in self._kinds(depth):
            if base <= first < base + len(widths):
                return read(self._number(_LENGTHS[widths[first - base]]))
        raise Malformed(f"no value begins with the byte {first:#04x}")

    def _kinds(self, depth: int) -> tuple[tuple[int, tuple[int, ...], Callable[[int], Any]], ...]:
        """Return the kinds of values with a length: the first byte of each kind, and the widths of the length."""
        return (
            (0xC4, (1, 2, 4), self._bytes),
            (0xD9, (1, 2, 4), self._text),
            (0xDC, (2, 4), lambda length: self._list(length, depth)),
            (0xDE, (2, 4), lambda length: self._map(length, depth)),
        )

    def _bytes(self, length: int) -> bytes:
        if self.at + length > len(self.data):
            raise Malformed("it is cut short")
        self.at += length
        return self.data[self.at - length : self.at]

    def _number(self, form: str) -> Any:
        [number] = struct.unpack(form, self._bytes(struct.calcsize(form)))
        return number

    def _text(self, length: int) -> str:
        try:
            return self._bytes(length).decode()
        except UnicodeDecodeError:
            raise Malformed("a text in it is not UTF-8") from None

    def _list(self, length: int, depth: int) -> list[Any]:
        self._check(length)
        return [self.value(depth + 1) for _ in range(length)]

    def _map(self, length: int, depth: int) -> dict[Any, Any]:
        self._check(2 * length)
        found = {}
        for _ in range(length):
            key = self.value(depth + 1)
            if not isinstance(key, str | int):
                raise Malformed("a key in it is no text")
            found[key] = self.value(depth + 1)
        return found

    def _check(self, values: int) -> None:
        """Raise Malformed if the bytes cannot hold this many values: each has at least one byte."""
        if self.at + values > len(self.data):
            raise Malformed("it is cut short")
