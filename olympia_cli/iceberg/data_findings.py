"""Findings of table data, kept to a number that people can read, and independent of the order in which it was found.

Of each table the first wrong files are findings of their own and the rest is a number; of a store that cannot be
looked at, the first tables are. First means first in order: of files by their locations, of tables by their names.
"""

from __future__ import annotations

import shlex
from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from olympia_cli.iceberg.data_parts import UNSEEN, Wrong, store_of
from olympia_cli.iceberg.seen import Seen
from olympia_cli.names import TableName
from olympia_cli.ops.fsck.findings import MAX_OBJECTS, Finding, finding

EACH = 20
"""So many findings of one code a table, and so many tables of a store that cannot be looked at."""
TABLES = EACH + MAX_OBJECTS
"""So many tables of such a store are known by name."""
_REPORTED = 1_000_000

K = TypeVar("K", str, TableName)
V = TypeVar("V")


class _First(Generic[K, V]):
    """The smallest of many keys, each with a value. What is among them at the end was so from when it first came."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._order: list[K] = []
        self._values: dict[K, V] = {}

    def put(self, key: K, value: V) -> V | None:
        """The value of a key, which is this one if it is new; None for a key that is not among the smallest."""
        if key in self._values:
            return self._values[key]
        if len(self._order) >= self._most:
            if key > self._order[-1]:
                return None
            del self._values[self._order.pop()]
        insort(self._order, key)
        self._values[key] = value
        return value

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return ((key, self._values[key]) for key in self._order)


@dataclass(slots=True)
class WrongFiles:
    """The files of a table that are wrong in the way of one code: their number, a metadata location of the table, and
    of the first files what is said of them."""

    location: str
    total: int = 0
    first: _First[str, str] = field(default_factory=lambda: _First(EACH))


@dataclass(slots=True)
class Unseen:
    """The files of a table on one store that could not be looked at: their number, a metadata location of the table,
    and the first file with the reason."""

    location: str
    path: str
    reason: str
    total: int = 0


@dataclass(slots=True)
class UnseenStore:
    """Tables whose data on one store could not be looked at: their number, the first file with the reason, and what is
    known of the first tables."""

    path: str
    reason: str
    total: int = 0
    first: _First[TableName, Unseen] = field(default_factory=lambda: _First(TABLES))


class DataFindings:
    """Takes what is wrong with files, one by one or counted already; gives findings."""

    def __init__(self) -> None:
        self._tables: dict[tuple[TableName, str], WrongFiles] = {}
        self._stores: dict[str, UnseenStore] = {}
        self._taken = Seen(_REPORTED)

    def take(self, path: str, wrong: Wrong, tables: Iterable[tuple[TableName, str]]) -> None:
        """A file is wrong; `tables` are those that it belongs to, each with its metadata. To hit a table in several
        ways, or to be told of again, counts once."""
        for name, location in tables:
            if wrong.code == UNSEEN:
                self._take_unseen(path, wrong.message, name, location)
                continue
            found = self.files(name, wrong.code, location)
            found.location = min(found.location, location)
            if self._taken.add(f"{wrong.code}\0{path}\0{name}"):
                found.total += 1
                found.first.put(path, wrong.message)

    def files(self, name: TableName, code: str, location: str) -> WrongFiles:
        """What is known of a table, to be added to."""
        return self._tables.setdefault((name, code), WrongFiles(location))

    def store(self, uri: str, path: str, reason: str) -> UnseenStore:
        """What is known of a store, to be added to."""
        return self._stores.setdefault(uri, UnseenStore(path, reason))

    def _take_unseen(self, path: str, reason: str, name: TableName, location: str) -> None:
        uri = store_of(path)
        store = self.store(uri, path, reason)
        if path < store.path:
            store.path, store.reason = path, reason
        if self._taken.add(f"store\0{uri}\0{name}"):
            store.total += 1
        found = store.first.put(name, Unseen(location, path, reason))
        if found is None:
            return
        found.location = min(found.location, location)
        if path < found.path:
            found.path, found.reason = path, reason
        if self._taken.add(f"{UNSEEN}\0{path}\0{name}"):
            found.total += 1

    def all(self) -> Iterator[Finding]:
        """One for each file, with the tables of which it is among the first; then what is only counted."""
        tables = sorted(self._tables.items(), key=lambda one: one[0])
        named: dict[tuple[str, str], tuple[str, list[TableName]]] = {}
        for (name, code), files in tables:
            for path, message in files.first:
                named.setdefault((code, path), (message, []))[1].append(name)
        for (code, path), (message, names) in sorted(named.items()):
            yield finding(code, path, message, objects=names, hint=_next(names[0]))
        for (name, code), files in tables:
            if files.total > EACH:
                message = f"{files.total - EACH:,} more of its files, {files.total:,} in all"
                yield finding(code, files.location, message, objects=[name], hint=_next(name))
        for uri, store in sorted(self._stores.items()):
            yield from _of_store(uri, store)


def _of_store(uri: str, store: UnseenStore) -> Iterator[Finding]:
    known = list(store.first)
    named: dict[str, tuple[str, list[TableName]]] = {}
    for name, files in known[:EACH]:
        named.setdefault(files.path, (files.reason, []))[1].append(name)
    for path, (reason, names) in sorted(named.items()):
        yield finding(UNSEEN, path, reason, objects=names)
    for name, files in known[:EACH]:
        if files.total > 1:
            yield finding(UNSEEN, files.location, f"{files.total - 1:,} more of its files", objects=[name])
    if store.total > EACH:
        rest = store.total - EACH
        message = f"{rest:,} more tables could not be looked at: {store.reason}"
        yield finding(UNSEEN, uri, message, objects=[name for name, _ in known[EACH:]], objects_total=rest)


def _next(name: TableName) -> str:
    # its older metadata is where to look for what is lost
    return f"table history {shlex.quote(str(name))}"
