"""Transaction and checkpoint files, decoded: pure.

What the versions write differently is told by the fields themselves: ids of transactions were texts (fields 4 and 5)
and are bytes (8 and 9); ids of chunks were numbers and are bytes; the values in delete predicates had an unsigned
number among them, which moved the numbers of the types after it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote
from uuid import UUID

from olympia_cli.importers.iox.wire import (
    Garbled,
    Wire,
    bytes_of,
    double_of,
    fields,
    number_of,
    signed,
    text_of,
)

VERSIONS = range(14, 20)
_PATH = re.compile(r"transactions/([0-9]{20})/([0-9a-fA-F-]{36})\.(txn|ckpt)")
_DELTA, _FULL = 1, 2
_OPERATORS = {1: "=", 2: "!="}


@dataclass(frozen=True, slots=True, order=True)
class TransactionFile:
    """A file by its path: the transaction itself, or a checkpoint of all that was there with it."""

    revision: int
    uuid: UUID
    is_checkpoint: bool
    path: str


@dataclass(frozen=True, slots=True)
class AddFile:
    """A Parquet file, its size (0 where it is not said) and its footer, as it is written here."""

    path: str
    size: int
    metadata: memoryview


@dataclass(frozen=True, slots=True)
class RemoveFile:
    path: str


Chunk = tuple[str, str, bytes | int]
"""The table, the partition, and the id of what a Parquet file holds."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column against a value; `operator` is = or !=."""

    column: str
    operator: str
    value: bool | int | float | str

    def __str__(self) -> str:
        return f"{self.column} {self.operator} {self.value!a}"


@dataclass(frozen=True, slots=True)
class Predicate:
    """Which rows were deleted: those of a time, in nanoseconds without the end, for which all comparisons hold."""

    start: int
    end: int
    comparisons: tuple[Comparison, ...]

    def __str__(self) -> str:
        return " and ".join([f"time from {self.start} until {self.end}", *map(str, self.comparisons)])


@dataclass(frozen=True, slots=True)
class Tombstone:
    """Rows that were deleted, in these chunks."""

    predicate: Predicate
    chunks: tuple[Chunk, ...]


@dataclass(frozen=True, slots=True)
class Upgrade:
    """From here on the catalog is of another format."""

    format: str


Action = AddFile | RemoveFile | Tombstone | Upgrade


@dataclass(frozen=True, slots=True)
class Transaction:
    """What a file says. Its actions are decoded when they are asked for: a checkpoint has one for every file."""

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
        """Garbled where one of them is."""
        for data in self.encoded:
            if (action := _action(data)) is not None:
                yield action


def parse_path(path: str) -> TransactionFile | None:
    """What a path says; None for one that is no transaction's."""
    found = _PATH.fullmatch(path)
    if found is None:
        return None
    try:
        return TransactionFile(int(found[1]), UUID(found[2]), found[3] == "ckpt", path)
    except ValueError:
        return None


def decode(data: bytes) -> Transaction:
    """Garbled where it is none, or only half of one."""
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
    """Nanoseconds since 1970."""
    seconds = nanos = 0
    for number, _, value in fields(data):
        if number == 1:
            seconds = signed(number_of(value))
        elif number == 2:
            nanos = signed(number_of(value))
    return seconds * 1_000_000_000 + nanos


def decoded_part(part: str) -> str:
    """A part of a path as it was before it was encoded for the store."""
    return unquote(part, errors="surrogateescape")


def _uuid(data: memoryview, is_text: bool) -> UUID | None:
    if not data:
        return None
    try:
        return UUID(text_of(data)) if is_text else UUID(bytes=bytes(data))
    except ValueError:
        raise Garbled("an id is none") from None


def _action(data: memoryview) -> Action | None:
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
    """The path as the store has it: its parts stay encoded."""
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
            chunks.append(_chunk(bytes_of(value)))
    if predicate is None:
        raise Garbled("a delete has no predicate")
    return Tombstone(predicate, tuple(chunks))


def _chunk(data: memoryview) -> Chunk:
    table = partition = ""
    id: bytes | int = 0
    for number, _, value in fields(data):
        match number:
            case 1:
                table = text_of(value)
            case 2:
                partition = text_of(value)
            case 3:
                id = number_of(value)
            case 4:
                id = bytes(bytes_of(value))
    return table, partition, id


def _predicate(data: memoryview) -> Predicate:
    span: tuple[int, int] | None = None
    comparisons: list[Comparison] = []
    for number, _, value in fields(data):
        # 1 and 3 are the tables and the partition that it is for: the chunks say so more exactly
        if number == 2:
            raise Garbled("a delete is for some fields only, which is not known")
        if number == 4:
            found = {at: signed(number_of(one)) for at, _, one in fields(bytes_of(value))}
            span = (found.get(1, 0), found.get(2, 0))
        elif number == 5:
            comparisons.append(_comparison(bytes_of(value)))
    if span is None:
        raise Garbled("a delete says no time")
    return Predicate(*span, tuple(comparisons))


def _comparison(data: memoryview) -> Comparison:
    column, operator = "", ""
    value: bool | int | float | str | None = None
    for number, _, field in fields(data):
        match number:
            case 1:
                column = text_of(field)
            case 2:
                operator = _OPERATORS.get(number_of(field), "")
            case 3:
                value = _scalar(bytes_of(field))
    if not column or not operator or value is None:
        raise Garbled("a delete compares in a way that is not known")
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
