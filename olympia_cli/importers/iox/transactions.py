"""Transaction and checkpoint files, decoded: pure.

Their ids were texts (fields 4 and 5) and are bytes (8 and 9).
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
    """A file by its path: the transaction itself, or a checkpoint of all that was there with it."""

    revision: int
    uuid: UUID
    is_checkpoint: bool
    path: str


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
            if (action := decode_action(data)) is not None:
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
