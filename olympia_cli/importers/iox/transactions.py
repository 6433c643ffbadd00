"""Decode transaction and checkpoint files. Pure.

Ids are texts in older versions (fields 4 and 5), and bytes in newer ones (8 and 9).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote
from uuid import UUID

from olympia_cli.importers.wire import Garbled, Wire, bytes_of, double_of, fields, number_of, signed, text_of

# Decode the actions of transactions. Pure.
#
# Versions of the format differ in their fields, which tell them apart: chunk ids were numbers and are bytes. Older
# values in deletes had an unsigned number among their types, which shifts the field numbers after it.

_OPERATORS = {1: "=", 2: "!="}


@dataclass(frozen=True, slots=True)
class AddFile:
    """A Parquet file, its size (0 if not stated), and its footer as the transaction stores it."""

    path: str
    size: int
    metadata: memoryview


@dataclass(frozen=True, slots=True)
class RemoveFile:
    path: str


Chunk = tuple[str, str, bytes | int]
"""The table, the partition and the id of a Parquet file's chunk."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A comparison of a column with a value; `operator` is = or !=."""

    column: str
    operator: str
    value: bool | int | float | str

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {self.value!a}"


@dataclass(frozen=True, slots=True)
class Predicate:
    """The deleted rows: those from `start` up to `end`, exclusive, in nanoseconds, for which all comparisons hold."""

    start: int
    end: int
    comparisons: tuple[Comparison, ...]

    def __str__(self) -> str:
        return " and ".join([f"time from {self.start} until {self.end}", *map(str, self.comparisons)])


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A delete of rows in some chunks."""

    predicate: Predicate
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Upgrade:
    """A change of the catalog to another format, from this transaction on."""

    format: str


Action = AddFile | RemoveFile | Tombstone | Upgrade


def decode_action(data: memoryview) -> Action | None:
    """Return an action, or None for an action of a later version."""
    for number, _, value in fields(data):
        inner = bytes_of(value)
        match number:
            case 1:
                return Upgrade(next((text_of(one) for at, _, one in fields(inner) if at == 1), ""))
            case 2:
                return _add(inner)
            case 3:
                return RemoveFile(_path(next((bytes_of(one) for at, _, one in fields(inner) if at == 1), None)))
            case 4:
                return _tombstone(inner)
    return None


def _add(data: memoryview) -> AddFile:
    path: memoryview | None = None
    metadata, size = memoryview(b""), 0
    for number, _, value in fields(data):
        match number:
            case 1:
                path = bytes_of(value)
            case 2:
                metadata = bytes_of(value)
            case 3:
                size = number_of(value)
    return AddFile(_path(path), size, metadata)


def _path(data: memoryview | None) -> str:
    """Return the path as the store has it: its parts stay encoded."""
    if data is None:
        raise Garbled("a file has no path")
    folders: list[str] = []
    name = ""
    for number, _, value in fields(data):
        if number == 1:
            folders.append(text_of(value))
        elif number == 2:
            name = text_of(value)
    parts = [*folders, name]
    if any(part in ("", ".", "..") or "/" in part or "\\" in part or "\0" in part for part in parts):
        raise Garbled(f"a file has a path that leads elsewhere: {'/'.join(parts)[:200]!a}")
    return "/".join(parts)


def _tombstone(data: memoryview) -> Tombstone:
    predicate: Predicate | None = None
    chunks: list[Chunk] = []
    for number, _, value in fields(data):
        if number == 1:
            predicate = _predicate(bytes_of(value))
        elif number == 2:
            chunks.append(read_chunk(bytes_of(value), (1, 2, 3, 4)))
    if predicate is None:
        raise Garbled("a delete has no predicate")
    return Tombstone(predicate, tuple(chunks))


def read_chunk(data: memoryview, numbers: tuple[int, int, int, int]) -> Chunk:
    """Return the chunk in a message. `numbers` are the fields with its table, partition, number and UUID."""
    table = partition = ""
    id: bytes | int = 0
    for number, _, value in fields(data):
        match numbers.index(number) if number in numbers else None:
            case 0:
                table = text_of(value)
            case 1:
                partition = text_of(value)
            case 2:
                id = number_of(value)
            case 3:
                id = bytes(bytes_of(value))
    return table, partition, id


def _predicate(data: memoryview) -> Predicate:
    span: tuple[int, int] | None = None
    comparisons: list[Comparison] = []
    for number, _, value in fields(data):
        # fields 1 and 3 are the tables and the partition of the delete; the chunks are more exact
        if number == 2:
            raise Garbled("a delete is for some fields only, which is not supported")
        if number == 4:
            found = {at: signed(number_of(one)) for at, _, one in fields(bytes_of(value))}
            span = (found.get(1, 0), found.get(2, 0))
        elif number == 5:
            comparisons.append(_comparison(bytes_of(value)))
    if span is None:
        raise Garbled("a delete has no time range")
    return Predicate(*span, tuple(comparisons))


def _comparison(data: memoryview) -> Comparison:
    column, operator = "", ""
    value: bool | int | float | str | None = None
    for number, _, content in fields(data):
        match number:
            case 1:
                column = text_of(content)
            case 2:
                operator = _OPERATORS.get(number_of(content), "")
            case 3:
                value = _scalar(bytes_of(content))
    if not column or not operator or value is None:
        raise Garbled("a delete has an unknown comparison")
    return Comparison(column, operator, value)


def _scalar(data: memoryview) -> bool | int | float | str | None:
    for number, wire, value in fields(data):
        match number, wire:
            case 1, Wire.VARINT:
                return bool(value)
            case 2, Wire.VARINT:
                return signed(number_of(value))
            case 3, Wire.VARINT:
                return number_of(value)
            case ((3 | 4), Wire.FIXED64):
                return double_of(value)
            case ((4 | 5), Wire.BYTES):
                return text_of(value)
    return None


VERSIONS = range(14, 20)
_PATH = re.compile(r"transactions/([0-9]{20})/([0-9a-fA-F-]{36})\.(txn|ckpt)")
_DELTA, _FULL = 1, 2


@dataclass(frozen=True, slots=True, order=True)
class TransactionFile:
    """A file by its path: the transaction itself, or a checkpoint of the full state after it."""

    revision: int
    uuid: UUID
    is_checkpoint: bool
    path: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """The content of a file. Its actions are decoded on demand: a checkpoint has one per file."""

    version: int
    revision: int
    uuid: UUID | None
    previous: UUID | None
    start_nanos: int
    is_full: bool | None
    encoded: tuple[memoryview, ...]

    @property
    def start_millis(self) -> int:
        return self.start_nanos // 1_000_000

    def actions(self) -> Iterator[Action]:
        """Yield the actions. Raise Garbled if one is malformed."""
        for data in self.encoded:
            if (action := decode_action(data)) is not None:
                yield action


def parse_path(path: str) -> TransactionFile | None:
    """Return the transaction file that a path names; None for any other path."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    try:
        return TransactionFile(int(found[1]), UUID(found[2]), found[3] == "ckpt", path)
    except ValueError:
        return None


def decode(data: bytes) -> Transaction:
    """Decode a transaction file. Raise Garbled if it is malformed or cut short."""
    if not data:
        raise Garbled("it is empty")
    version = revision = encoding = 0
    uuid = previous = None
    start: int | None = None
    actions: list[memoryview] = []
    for number, _, value in fields(memoryview(data)):
        match number:
            case 1:
                version = number_of(value)
            case 2:
                actions.append(bytes_of(value))
            case 3:
                revision = number_of(value)
            case 4 | 8:
                uuid = _uuid(bytes_of(value), is_text=number == 4)
            case 5 | 9:
                previous = _uuid(bytes_of(value), is_text=number == 5)
            case 6:
                start = timestamp(bytes_of(value))
            case 7:
                encoding = number_of(value)
    if start is None:
        raise Garbled("it does not say when it began")
    is_full = {_DELTA: False, _FULL: True}.get(encoding)
    return Transaction(version, revision, uuid, previous, start, is_full, tuple(actions))


def timestamp(data: memoryview) -> int:
    """Return the nanoseconds since 1970."""
    seconds = nanos = 0
    for number, _, value in fields(data):
        if number == 1:
            seconds = signed(number_of(value))
        elif number == 2:
            nanos = signed(number_of(value))
    return seconds * 1_000_000_000 + nanos


def decoded_part(part: str) -> str:
    """Return a part of a path as it was before it was encoded for the store."""
    return unquote(part, errors="surrogateescape")


def _uuid(data: memoryview, is_text: bool) -> UUID | None:
    if not data:
        return None
    try:
        return UUID(text_of(data)) if is_text else UUID(bytes=bytes(data))
    except ValueError:
        raise Garbled("an id is malformed") from None
