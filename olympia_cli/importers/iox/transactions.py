"""Decode transaction and checkpoint files. Pure.

Ids are texts in older versions (fields 4 and 5), and bytes in newer ones (8 and 9).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import unquote
from uuid import UUID

from olympia_cli.importers.iox.actions import Action, decode_action
from olympia_cli.importers.iox.wire import Garbled, bytes_of, fields, number_of, signed, text_of

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
