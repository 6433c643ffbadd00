"""Index the files of a DeltaCAT catalog from one listing, on disk: a catalog may have millions of them.

A transaction counts if its folder of success has exactly one file, whose name is the time of its end. The files of
other transactions exist, but count for nothing.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from olympia_cli.storage.protocol import FileInfo

# Parse the paths in a DeltaCAT catalog: the object, the revision and the transaction of a file.
#
# Older releases have flat folders where newer ones insert numbered folders; both are read.

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
class ObjectFile:
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


Parsed = ObjectFile | NameEntry | TransactionFile | Elsewhere


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
        return ObjectFile(tuple(found[1].split("/")[:-1]), int(found[2]), found[3], found[4])
    if (found := _MAPPING.fullmatch(path)) and int(found[3]) < _LARGEST:
        return NameEntry(tuple(found[1].split("/")[:-1]), found[2], int(found[3]), found[4], found[5], found[6])
    return None


def began_at(transaction: str) -> int:
    """Return the beginning of a transaction in nanoseconds since 1970, which is part of its id."""
    return int(transaction.partition("_")[0])


_LEVELS, _AT_ONCE = 6, 1024
_TABLES = """
CREATE TABLE txn (id TEXT, state TEXT, began INTEGER, ended INTEGER, path TEXT);
CREATE TABLE revision (o1 TEXT, o2 TEXT, o3 TEXT, o4 TEXT, o5 TEXT, o6 TEXT, depth INTEGER,
                       number INTEGER, operation TEXT, txn TEXT, path TEXT, size INTEGER);
CREATE TABLE mapping (parent TEXT, digest TEXT, number INTEGER, operation TEXT, txn TEXT, id TEXT, path TEXT);
CREATE TABLE data (path TEXT PRIMARY KEY, size INTEGER) WITHOUT ROWID;
CREATE TABLE other (path TEXT, part TEXT);
"""
_COMMITTED = """
CREATE INDEX by_object ON revision (o1, o2, o3, o4, o5, o6, number);
CREATE INDEX by_transaction ON revision (txn);
CREATE TABLE committed (id TEXT PRIMARY KEY, ended INTEGER, path TEXT) WITHOUT ROWID;
INSERT INTO committed SELECT id, ended, path FROM txn WHERE state = 'success' GROUP BY id HAVING COUNT(*) = 1;
CREATE INDEX by_end ON committed (ended);
"""
_OBJECT = "o1, o2, o3, o4, o5, o6"
FOREVER = 2**63 - 1
"""A time after all others."""


@dataclass(frozen=True, slots=True)
class Row:
    """A revision that counts: its object, its transaction, and the end of that transaction."""

    object: tuple[str, ...]
    number: int
    operation: str
    transaction: str
    ended_at: int
    path: str
    size: int


@dataclass(frozen=True, slots=True)
class Ended:
    """A transaction that counts."""

    id: str
    ended_at: int
    path: str


class Index:
    """The files of one catalog, with queries in order."""

    def __init__(self, files: Iterable[FileInfo]) -> None:
        self._database = sqlite3.connect("")
        self._database.executescript(_TABLES)
        waiting = iter(files)
        while batch := list(islice(waiting, _AT_ONCE)):
            rows: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
            for file in batch:
                table, row = _table_row(file)
                rows[table].append(row)
            for table, same in rows.items():
                self._database.executemany(f"INSERT INTO {table} VALUES ({', '.join('?' * len(same[0]))})", same)
        self._database.executescript(_COMMITTED)

    def ask(self, query: str, *values: Any) -> Iterator[Any]:
        return self._database.execute(query, values)

    @property
    def is_catalog(self) -> bool:
        """True if a file is at a path that every DeltaCAT catalog has. Paths of objects are valid at any depth, so a
        folder above a catalog would have them, too, but no transaction."""
        queries = ("txn", "other WHERE part = 'version'")
        return any(next(self.ask(f"SELECT 1 FROM {query} LIMIT 1"), None) for query in queries)

    @property
    def counts(self) -> dict[str, int]:
        """The number of files of each kind."""
        sorts = {"transactions": "txn", "revisions": "revision", "names": "mapping", "data_files": "data"}
        return {noun: next(self.ask(f"SELECT COUNT(*) FROM {table}"))[0] for noun, table in sorts.items()}

    @property
    def identity(self) -> str | None:
        """The id that tells this catalog from others, wherever it is copied to: that of its first transaction."""
        found = next(self.ask("SELECT id FROM committed ORDER BY ended, id LIMIT 1"), None)
        return None if found is None else str(found[0]).partition("_")[2]

    def size(self, path: str) -> int | None:
        """Return the size of a data file; None if it does not exist."""
        found = next(self.ask("SELECT size FROM data WHERE path = ?", path), None)
        return None if found is None else int(found[0])

    def ended(self, after: int, before: int) -> Iterator[Ended]:
        """Yield the transactions that count, in the order of their ends."""
        query = "SELECT id, ended, path FROM committed WHERE ended > ? AND ended < ? ORDER BY ended, id"
        return (Ended(*row) for row in self.ask(query, after, before))

    def end_of(self, transaction: str) -> int | None:
        """Return the time of a transaction's end; None if it does not count."""
        found = next(self.ask("SELECT ended FROM committed WHERE id = ?", transaction), None)
        return None if found is None else int(found[0])

    def last_end(self, before: int) -> int:
        """Return the time of the last transaction's end; 0 if there is none."""
        found = next(self.ask("SELECT MAX(ended) FROM committed WHERE ended < ?", before))
        return int(found[0] or 0)

    def last_of(self, table: tuple[str, ...], before: int) -> str:
        """Return the last transaction that wrote to a table."""
        query = (
            "SELECT txn, MAX(ended) FROM revision JOIN committed ON committed.id = txn"
            " WHERE o1 = ? AND o2 = ? AND ended < ?"
        )
        return str(next(self.ask(query, *table, before))[0])

    def roots(self, before: int) -> Iterator[tuple[tuple[str, ...], bool]]:
        """Yield the folders of all namespaces and tables, and whether each lives. A dead one was dropped, or is in a
        namespace that was dropped."""
        dropped: set[str] = set()
        for row in self._latest(before, 2):
            gone = row.operation == "delete" or row.object[0] in dropped
            if gone and len(row.object) == 1:
                dropped.add(row.object[0])
            yield row.object, not gone

    def living(self, before: int) -> Iterator[Row]:
        """Yield the latest revision of each living object from the root down, each after its parent. An object below a
        dropped one has no delete of its own, but is not yielded."""
        above: tuple[str, ...] = ()
        for row in self._latest(before, _LEVELS):
            if row.operation == "delete" or row.object[:-1] != above[: len(row.object) - 1]:
                continue
            above = row.object
            yield row

    def _latest(self, before: int, depth: int) -> Iterator[Row]:
        query = (
            f"SELECT {_OBJECT}, depth, MAX(number), operation, txn, ended, revision.path, size FROM revision"
            " JOIN committed ON committed.id = txn WHERE ended < ? AND depth <= ?"
            f" GROUP BY {_OBJECT} ORDER BY {_OBJECT}"
        )
        return map(_row, self.ask(query, before, depth))

    def of_transaction(self, transaction: str) -> Iterator[Row]:
        """Yield the revisions that a transaction wrote: parents before children, and revisions in order."""
        query = (
            f"SELECT {_OBJECT}, depth, number, operation, txn, ended, revision.path, size FROM revision"
            " JOIN committed ON committed.id = txn WHERE txn = ? ORDER BY depth, number"
        )
        return map(_row, self.ask(query, transaction))

    def revisions(self, object: tuple[str, ...], before: int) -> Iterator[Row]:
        """Yield the revisions of an object that count."""
        where = " AND ".join(f"o{level + 1} = ?" for level in range(_LEVELS))
        query = (
            f"SELECT {_OBJECT}, depth, number, operation, txn, ended, revision.path, size FROM revision"
            f" JOIN committed ON committed.id = txn WHERE {where} AND ended < ? ORDER BY number"
        )
        folders = object + ("",) * (_LEVELS - len(object))
        return map(_row, self.ask(query, *folders, before))

    # What a check asks

    def prepare_check(self, before: int) -> None:
        """Record the living revisions, and create the tables for the check."""
        self._database.executescript(
            "CREATE INDEX by_path ON revision (path);"
            "CREATE INDEX by_name ON mapping (parent, digest);"
            "CREATE INDEX by_id ON mapping (id);"
            "CREATE TABLE live (path TEXT PRIMARY KEY) WITHOUT ROWID;"
            "CREATE TABLE named (path TEXT PRIMARY KEY) WITHOUT ROWID;"
        )
        self._database.executemany("INSERT INTO live VALUES (?)", ((row.path,) for row in self.living(before)))

    def everything(self, before: int) -> Iterator[tuple[Row, bool]]:
        """Yield all revisions that count from the root down, and whether each is the present state of a
        living object."""
        query = (
            f"SELECT {_OBJECT}, depth, number, operation, txn, ended, revision.path, size, live.path IS NOT NULL"
            " FROM revision JOIN committed ON committed.id = txn LEFT JOIN live ON live.path = revision.path"
            f" WHERE ended < ? AND operation != 'delete' ORDER BY {_OBJECT}, number"
        )
        return ((_row(found[:-1]), bool(found[-1])) for found in self.ask(query, before))

    def has_revision(self, path: str) -> bool:
        return next(self.ask("SELECT 1 FROM revision WHERE path = ?", path), None) is not None

    def named(self, parent: str, digest: str) -> str | None:
        """Return the object that a name leads to."""
        query = (
            "SELECT mapping.id, operation, MAX(number) FROM mapping JOIN committed ON committed.id = txn"
            " WHERE parent = ? AND digest = ?"
        )
        id, operation, _ = next(self.ask(query, parent, digest))
        return None if operation == "delete" else id

    def name_data(self, path: str) -> None:
        self._database.execute("INSERT OR IGNORE INTO named VALUES (?)", (path,))

    def unnamed_data(self) -> Iterator[tuple[str, int]]:
        query = "SELECT data.path, size FROM data LEFT JOIN named USING (path) WHERE named.path IS NULL ORDER BY 1"
        return iter(self.ask(query))


def _table_row(file: FileInfo) -> tuple[str, tuple[Any, ...]]:
    """Return the table of the index for a file, and the row."""
    if not file.path.isprintable():
        # no release writes such a name, and SQLite cannot store bytes that are not text
        return "other", (ascii(file.path), "")
    match parse(file.path):
        case ObjectFile(object, number, operation, transaction):
            folders = object + ("",) * (_LEVELS - len(object))
            return "revision", (*folders, len(object), number, operation, transaction, file.path, file.size)
        case NameEntry(parent, digest, number, operation, transaction, id):
            return "mapping", ("/".join(parent), digest, number, operation, transaction, id, file.path)
        case TransactionFile(id, state, ended_at):
            return "txn", (id, state, began_at(id), ended_at, file.path)
        case Elsewhere("data"):
            return "data", (file.path, file.size)
        case Elsewhere(part):
            return "other", (file.path, part)
    return "other", (file.path, "")


def _row(values: tuple[Any, ...]) -> Row:
    depth = values[_LEVELS]
    return Row(tuple(values[:depth]), *values[_LEVELS + 1 :])
