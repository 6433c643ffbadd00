"""Findings about table data, limited to a readable number and independent of the order of discovery.

The first damaged files of each table are separate findings, the rest is a count. For a store that cannot be read, the
first tables are separate findings. First means in sort order: files by location, tables by name. Views count as tables
here.
"""

from __future__ import annotations

import shlex
from bisect import insort
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from olympia_cli.iceberg.data_parts import UNSEEN, Wrong, store_of
from olympia_cli.iceberg.seen import Seen
from olympia_cli.names import TableName, ViewName, plural
from olympia_cli.ops.fsck.data import DataFinding
from olympia_cli.ops.fsck.findings import MAX_OBJECTS, finding

EACH = 20
"""The maximum number of findings per code and table, and of tables per unreadable store."""
TABLES = EACH + MAX_OBJECTS
"""The maximum number of tables per unreadable store that are known by name."""
_REPORTED = 1_000_000

Name = TableName | ViewName
K = TypeVar("K", str, Name)
V = TypeVar("V")


class _First(Generic[K, V]):
    """The smallest keys of many, each with a value. Keys that remain at the end were never evicted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._order: list[K] = []
        self._values: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def put(self, key: K, value: V) -> V | None:
        """Add a new key. Return the value that is evicted, which may be the new one, or None."""
        if len(self._order) >= self._most and _order(key) > _order(self._order[-1]):
            return value
        insort(self._order, key, key=_order)
        self._values[key] = value
        return self._values.pop(self._order.pop()) if len(self._order) > self._most else None

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return ((key, self._values[key]) for key in self._order)


@dataclass(slots=True)
class WrongFile:
    """The problem with a file, and the metadata locations of one table that lead to it."""

    message: str
    locations: set[str] = field(default_factory=set)


class WrongFiles:
    """The files of a table with one kind of problem: their number, and the first `most` of them.

    `rest` holds the metadata locations that lead to the others.
    """

    def __init__(self, most: int = EACH) -> None:
        self.total = 0
        self.first: _First[str, WrongFile] = _First(most)
        self.rest: set[str] = set()

    @property
    def locations(self) -> set[str]:
        return self.rest.union(*(file.locations for _, file in self.first))

    def add(self, path: str, message: str, locations: Iterable[str]) -> None:
        """Add a file, or further metadata that leads to it."""
        file = self.first.get(path)
        if file is not None:
            file.locations.update(locations)
            return
        left_over = self.first.put(path, WrongFile(message, set(locations)))
        if left_over is not None:
            self.rest |= left_over.locations


@dataclass(slots=True)
class UnseenStore:
    """Tables with data on a store that could not be read: their number, the first file with the reason, and the first
    tables.
    """

    path: str
    reason: str
    total: int = 0
    first: _First[Name, WrongFiles] = field(default_factory=lambda: _First(TABLES))

    def files(self, name: Name) -> WrongFiles | None:
        """Return the entry of a table, to be added to, or None if it is not among the first."""
        known = self.first.get(name)
        if known is None:
            known = WrongFiles(1)
            if self.first.put(name, known) is known:
                return None
        return known


class DataFindings:
    """Collects problems with files, and returns findings."""

    def __init__(self) -> None:
        self._tables: dict[tuple[Name, str], WrongFiles] = {}
        self._stores: dict[str, UnseenStore] = {}
        self._taken = Seen(_REPORTED)

    def take(self, path: str, wrong: Wrong, tables: Iterable[tuple[Name, str]]) -> None:
        """Record a damaged file. `tables` are the tables with that file, each with metadata that leads to it.

        A repeated report, or a second path to the same table, counts once.
        """
        for name, location in tables:
            unseen = wrong.code == UNSEEN
            files = self._unseen(path, wrong.message, name) if unseen else self.files(name, wrong.code)
            if files is not None:
                files.add(path, wrong.message, [location])
                files.total += self._taken.add(f"{wrong.code}\0{path}\0{name.kind.word} {name}")

    def files(self, name: Name, code: str) -> WrongFiles:
        """Return the entry of a table, to be added to."""
        return self._tables.setdefault((name, code), WrongFiles())

    def store(self, uri: str, path: str, reason: str) -> UnseenStore:
        """Return the entry of a store, to be added to."""
        return self._stores.setdefault(uri, UnseenStore(path, reason))

    def _unseen(self, path: str, reason: str, name: Name) -> WrongFiles | None:
        uri = store_of(path)
        store = self.store(uri, path, reason)
        if path < store.path:
            store.path, store.reason = path, reason
        store.total += self._taken.add(f"store\0{uri}\0{name.kind.word} {name}")
        return store.files(name)

    def all(self) -> Iterator[DataFinding]:
        """Yield a finding for each of the first files, with its tables, then findings that count the rest."""
        tables = sorted(self._tables.items(), key=lambda one: (_order(one[0][0]), one[0][1]))
        for code in sorted({code for _, code in self._tables}):
            yield from _of_files(code, [(name, files) for (name, of_code), files in tables if of_code == code])
        for (name, code), files in tables:
            if files.rest:
                message = f"{files.total - EACH:,} more of its files, {files.total:,} in all"
                summary = finding(code, min(files.rest), message, objects=[name], hint=_next(name))
                yield DataFinding(summary, frozenset(files.rest))
        for uri, store in sorted(self._stores.items()):
            yield from _of_store(uri, store)


def _of_files(code: str, tables: Iterable[tuple[Name, WrongFiles]]) -> Iterator[DataFinding]:
    """Yield a finding for each of the tables' first files, with all tables that have it."""
    named: dict[str, tuple[WrongFile, list[Name]]] = {}
    for name, files in tables:
        for path, file in files.first:
            told, names = named.setdefault(path, (WrongFile(file.message), []))
            told.locations |= file.locations
            names.append(name)
    for path, (file, names) in sorted(named.items()):
        hint = _next(names[0]) if code != UNSEEN else ""
        yield DataFinding(finding(code, path, file.message, objects=names, hint=hint), frozenset(file.locations))


def _of_store(uri: str, store: UnseenStore) -> Iterator[DataFinding]:
    known = list(store.first)
    first, others = known[:EACH], known[EACH:]
    yield from _of_files(UNSEEN, first)
    for name, files in first:
        if files.rest:
            summary = finding(UNSEEN, min(files.rest), f"{files.total - 1:,} more of its files", objects=[name])
            yield DataFinding(summary, frozenset(files.rest))
    if others:
        rest = store.total - EACH
        message = f"{plural(rest, 'more table')} could not be looked at: {store.reason}"
        summary = finding(UNSEEN, uri, message, objects=[name for name, _ in others], objects_total=rest)
        # the remaining tables are only counted: the store may hold a whole lake
        yield DataFinding(summary, frozenset().union(*(files.locations for _, files in others)))


def _order(key: str | Name) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else (key.namespace, key.name, key.kind.word)


def _next(name: Name) -> str:
    # lost data may be recovered from older metadata
    command = "table history" if isinstance(name, TableName) else "log -p"
    return f"{command} {shlex.quote(str(name))}"
