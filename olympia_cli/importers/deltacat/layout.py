"""What a path in a DeltaCAT catalog says: which object it is of, which revision, by which transaction.

Older releases put files flat where newer ones number folders in between; both are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KINDS = ("namespace", "table", "table version", "stream", "partition", "delta")
"""The objects from the root down: each lies in the folder of the one before it."""

_TRANSACTION = r"[0-9]{1,19}_[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_FOLDERS = r"(?:[0-9]+/)*"
_NAME = rf"{_FOLDERS}([0-9]{{20}})_(create|update|replace|delete)_({_TRANSACTION})"
_REVISION = re.compile(rf"((?:[^/]+/){{1,6}})rev/{_NAME}\.(mpk|json)")
_MAPPING = re.compile(rf"((?:[^/]+/){{0,5}})([0-9a-f]{{40}})/{_NAME}\.([^/]+)")
_SUCCESS = re.compile(rf"txn/success/{_FOLDERS}({_TRANSACTION})/([0-9]{{1,19}})")
_OTHER = re.compile(rf"txn/(failed|running|paused)/{_FOLDERS}({_TRANSACTION})")
TRANSACTION_ID = re.compile(_TRANSACTION)
_LARGEST = 2**63


@dataclass(frozen=True, slots=True)
class Revision:
    """A file with the content of an object. `object` are the folders down to it; the last is its id."""

    object: tuple[str, ...]
    number: int
    operation: str
    transaction: str


@dataclass(frozen=True, slots=True)
class NameEntry:
    """An empty file that says which object has a name. `parent` are the folders down to where the name counts."""

    parent: tuple[str, ...]
    digest: str
    number: int
    operation: str
    transaction: str
    id: str


@dataclass(frozen=True, slots=True)
class TransactionFile:
    """What is left of a transaction: it succeeded at `ended_at`, or is `failed`, `running` or `paused`."""

    id: str
    state: str
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A file that is of the catalog and holds no metadata: `data`, or a note of the `version` that opened it."""

    part: str


Parsed = Revision | NameEntry | TransactionFile | Elsewhere


def parse(path: str) -> Parsed | None:
    """What a path says; None for one that no release writes."""
    if path.startswith(("data/", "version/")):
        return Elsewhere(path.partition("/")[0])
    if found := _SUCCESS.fullmatch(path):
        return TransactionFile(found[1], "success", int(found[2])) if int(found[2]) < _LARGEST else None
    if found := _OTHER.fullmatch(path):
        return TransactionFile(found[2], found[1])
    if path.startswith("txn/"):
        return None
    if (found := _REVISION.fullmatch(path)) and int(found[2]) < _LARGEST:
        return Revision(tuple(found[1].split("/")[:-1]), int(found[2]), found[3], found[4])
    if (found := _MAPPING.fullmatch(path)) and int(found[3]) < _LARGEST:
        return NameEntry(tuple(found[1].split("/")[:-1]), found[2], int(found[3]), found[4], found[5], found[6])
    return None


def began_at(transaction: str) -> int:
    """When a transaction began, in nanoseconds since 1970: its id says so."""
    return int(transaction.partition("_")[0])
