"""Findings of table data, kept to a number that people can read.

Of each table the first missing files are findings of their own and the rest is a number; of a store that cannot be
looked at, the first tables are.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from olympia_cli.errors import InvalidLocation, OlympiaError
from olympia_cli.iceberg.locations import place_of
from olympia_cli.iceberg.seen import Seen
from olympia_cli.names import TableName
from olympia_cli.ops.findings import MAX_OBJECTS, Finding, finding

EACH = 20
"""So many findings of one code a table, and so many tables of a store that cannot be looked at."""
_REPORTED = 1_000_000


@dataclass(slots=True)
class _Count:
    location: str
    total: int = 0


@dataclass(slots=True)
class _Store:
    """Tables whose data on one store could not be looked at."""

    error: OlympiaError
    tables: int = 0
    rest: int = 0
    names: list[TableName] = field(default_factory=list)


class DataFindings:
    """Takes what is wrong with files, gives findings. A file that hits a table in several ways is found once."""

    def __init__(self) -> None:
        self._counts: dict[tuple[TableName, str], _Count] = {}
        self._stores: dict[str, _Store] = {}
        self._unseen: dict[TableName, _Count] = {}
        self._reported = Seen(_REPORTED)

    def wrong(self, code: str, path: str, message: str, tables: Iterable[tuple[TableName, str]]) -> Iterator[Finding]:
        """A file is missing or cannot be read; `tables` are those that it belongs to, each with its metadata."""
        hit = self._new(code, path, tables)
        shown = False
        for name, location in hit:
            count = self._counts.setdefault((name, code), _Count(location))
            count.total += 1
            shown = shown or count.total <= EACH
        if shown:
            yield finding(code, path, message, objects=[name for name, _ in hit], hint=_next(hit))

    def not_looked_at(
        self, path: str, error: OlympiaError, tables: Iterable[tuple[TableName, str]]
    ) -> Iterator[Finding]:
        """Nobody knows whether the file is there."""
        hit = self._new("F604", path, tables)
        known = [name for name, _ in hit if name in self._unseen]
        fresh = [(name, location) for name, location in hit if name not in self._unseen]
        for name in known:
            self._unseen[name].total += 1
        if not fresh:
            return
        store = self._stores.setdefault(_store(path), _Store(error))
        store.tables += len(fresh)
        if store.tables <= EACH:
            self._unseen.update((name, _Count(location)) for name, location in fresh)
            yield finding("F604", path, error.message, objects=[name for name, _ in fresh])
            return
        store.rest += len(fresh)
        store.names += [name for name, _ in fresh][: MAX_OBJECTS - len(store.names)]

    def rest(self) -> Iterator[Finding]:
        """What was only counted."""
        for (name, code), count in self._counts.items():
            if count.total > EACH:
                message = f"{count.total - EACH:,} more of its files, {count.total:,} in all"
                yield finding(code, count.location, message, objects=[name], hint=_next([(name, count.location)]))
        for name, count in self._unseen.items():
            if count.total:
                yield finding("F604", count.location, f"{count.total:,} more of its files", objects=[name])
        for uri, store in self._stores.items():
            if store.rest:
                message = f"{store.rest:,} more tables could not be looked at: {store.error.message}"
                yield finding("F604", uri, message, objects=sorted(store.names), objects_total=store.rest)

    def _new(self, code: str, path: str, tables: Iterable[tuple[TableName, str]]) -> list[tuple[TableName, str]]:
        """The tables for which this is news, in order, each once."""
        named = dict(tables)
        return [(name, named[name]) for name in sorted(named) if self._reported.add(f"{code}\0{path}\0{name}")]


def _next(hit: list[tuple[TableName, str]]) -> str:
    # its older metadata is where to look for what is lost
    return f"table history {shlex.quote(str(hit[0][0]))}" if hit else ""


def _store(location: str) -> str:
    try:
        return place_of(location).store
    except InvalidLocation:
        return ""
