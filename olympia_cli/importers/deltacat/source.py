"""A DeltaCAT catalog as a source: its objects at a time, or transaction by transaction. Each file is read once."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice

from olympia_cli.days import OnDay
from olympia_cli.errors import CatalogNotFound, InvalidOption, InvalidReference, OlympiaError
from olympia_cli.importers.deltacat.bodies import Body, Namespace, Table, TransactionLog, read_body, read_log
from olympia_cli.importers.deltacat.index import FOREVER, Ended, Index, Row
from olympia_cli.importers.deltacat.layout import KINDS, TRANSACTION_ID
from olympia_cli.importers.deltacat.msgpack import Malformed
from olympia_cli.importers.iceberg import Remedy
from olympia_cli.names import Ago, AtTime, TableName, parse_reference, settle
from olympia_cli.storage.protocol import Store

AT_ONCE = 1024
MAX_SIZE = 2**26
"""Highest number of bytes of a metadata file: a delta of a hundred thousand files has a quarter of it."""


@dataclass(frozen=True, slots=True)
class Found:
    """A revision and its content, or the reason why it is unreadable."""

    row: Row
    body: Body | str


Inside = dict[tuple[str, ...], dict[tuple[str, ...], Found]]
"""Objects by their folders, per parent folder."""


@dataclass(slots=True)
class SourceTable:
    """A table and its versions, streams, partitions and deltas, by their folders."""

    namespace: str
    found: Found
    inside: Inside = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.found.row.object[1]

    @property
    def name(self) -> TableName:
        """The table's name at the source, legal here or not."""
        assert isinstance(self.found.body, Table)
        return TableName.known_legal(self.namespace, self.found.body.name)

    def put(self, found: Found) -> None:
        self.inside.setdefault(found.row.object[:-1], {})[found.row.object] = found

    def remove(self, folders: tuple[str, ...]) -> None:
        self.inside.get(folders[:-1], {}).pop(folders, None)

    def at(self, folders: tuple[str, ...]) -> Found | None:
        return self.inside.get(folders[:-1], {}).get(folders)

    def below(self, folders: tuple[str, ...]) -> Iterable[Found]:
        """Return the children of a folder."""
        return self.inside.get(folders, {}).values()


class Source:
    """A catalog to import. `remedy` advises how to import parts that plain files cannot express, if there is a way.
    `last_remedy` is for partitions whose rows are unknown."""

    remedy: Remedy | None = None
    last_remedy: Remedy | None = None

    def __init__(self, store: Store) -> None:
        self.store = store
        self.index = Index(store.list())
        if not self.index.is_catalog:
            raise CatalogNotFound(
                f"there is no DeltaCAT catalog at {store.uri}", hint="name the folder that txn/ is in"
            )
        self._roots: dict[str, str | None] = {}

    def before(self, at: str | None, now_millis: int) -> int:
        """Return the time before which transactions count, in nanoseconds. A transaction that is named
        counts itself."""
        if at is None:
            return FOREVER
        if TRANSACTION_ID.fullmatch(at):
            ended = self.index.end_of(at)
            if ended is None:
                raise InvalidOption(f"no transaction {at} has succeeded", hint="see those of --inspect")
            return ended + 1
        reference = parse_reference(at)
        if isinstance(reference, AtTime | Ago | OnDay):
            settled = settle(reference, now_millis, tuple)
            assert isinstance(settled, AtTime)
            return min(settled.millis * 1_000_000, FOREVER)
        raise InvalidReference(
            f"{at!a} is no time", hint="give a time, yesterday, a duration ago (2h) or the id of a transaction"
        )

    def read(self, rows: Iterable[Row]) -> Iterator[Found]:
        """Yield the contents of revisions, in the order of `rows`."""
        waiting = iter(rows)
        while batch := list(islice(waiting, AT_ONCE)):
            small = (row.path for row in batch if row.size <= MAX_SIZE)
            contents = self.store.read_many(small)
            for row in batch:
                if row.size > MAX_SIZE:
                    yield Found(row, f"it has {row.size:,} bytes, which no metadata has")
                    continue
                _, data = next(contents)
                yield Found(row, _body(row, data))

    def read_marked(self, rows: Iterable[tuple[Row, bool]]) -> Iterator[tuple[Found, bool]]:
        """Yield the same as `read` for rows that each have a mark."""
        marks: deque[bool] = deque()

        def unmarked() -> Iterator[Row]:
            for row, mark in rows:
                marks.append(mark)
                yield row

        return ((found, marks.popleft()) for found in self.read(unmarked()))

    def log(self, transaction: Ended) -> TransactionLog | str:
        """Return the log of a transaction, or the reason why it is unreadable."""
        try:
            log = read_log(self.store.read(transaction.path), transaction.path)
        except Malformed as error:
            self._roots[transaction.id] = None
            return str(error)
        except OlympiaError as error:
            return error.message
        self._roots[transaction.id] = log.root
        return log

    def root_of(self, transaction: str) -> str | None:
        """Return the location of the catalog when a transaction wrote."""
        if transaction not in self._roots:
            ended = next(self.index.ask("SELECT id, ended, path FROM committed WHERE id = ?", transaction), None)
            self._roots[transaction] = None
            if ended is not None:
                self.log(Ended(*ended))
        return self._roots[transaction]

    def tables(self, before: int) -> Iterator[Namespace | SourceTable | Found]:
        """Yield the living objects at a time: each namespace, then its tables, with one table in memory at a time. An
        unreadable object is yielded as Found."""
        namespace: Namespace | None = None
        for folders, group in groupby(self.read(self.index.living(before)), lambda found: found.row.object[:2]):
            first = next(group)
            if len(folders) == 1:
                namespace = first.body if isinstance(first.body, Namespace) else None
                yield first if namespace is None else namespace
            elif namespace is None:
                yield Found(first.row, "its namespace cannot be read")
            elif not isinstance(first.body, Table):
                yield first
            else:
                table = SourceTable(namespace.name, first)
                for one in group:
                    table.put(one)
                yield table


def _body(row: Row, data: bytes | OlympiaError) -> Body | str:
    if isinstance(data, OlympiaError):
        return data.message
    try:
        body = read_body(data, row.path, len(row.object))
    except Malformed as error:
        return str(error)
    if isinstance(body, Namespace | Table) and body.id != row.object[-1]:
        return f"its id is {body.id[:60]}, and its folder is that of another {KINDS[len(row.object) - 1]}"
    return body
