"""Parse the paths in a DeltaCAT catalog: the object, the revision and the transaction of a file.

Older releases have flat folders where newer ones insert numbered folders; both are read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

KINDS = ("namespace", "table", "table version", "stream", "partition", "delta")
"""The kinds of objects from the root down: each is in the folder of its parent."""

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
    """A file with the content of an object. `object` has the folders down to it; the last is its id."""

    object: tuple[str, ...]
    number: int
    operation: str
    transaction: str


@dataclass(frozen=True, slots=True)
class NameEntry:
    """An empty file that maps a name to an object. `parent` has the folders down to the name's scope."""

    parent: tuple[str, ...]
    digest: str
    number: int
    operation: str
    transaction: str
    id: str


@dataclass(frozen=True, slots=True)
class TransactionFile:
    """The file of a transaction: it succeeded at `ended_at`, or is `failed`, `running` or `paused`."""

    id: str
    state: str
    ended_at: int | None = None


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """A file of the catalog without metadata: `data`, or a note of the `version` that opened it."""

    part: str


Parsed = Revision | NameEntry | TransactionFile | Elsewhere


def parse(path: str) -> Parsed | None:
    """Return the meaning of a path; None for a path that no release writes."""
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
    """Return the beginning of a transaction in nanoseconds since 1970, which is part of its id."""
    return int(transaction.partition("_")[0])
