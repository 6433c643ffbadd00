"""A DeltaCAT catalog as a source: its objects at a time, or transaction by transaction. Each file is read once."""

from __future__ import annotations

import re
import uuid
from collections import deque
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby, islice

from olympia_cli.errors import (
    CatalogNotFound,
    InvalidOption,
    InvalidReference,
    OlympiaError,
    PathOutside,
    command_words,
)
from olympia_cli.importers.deltacat.index import FOREVER, KINDS, TRANSACTION_ID, Ended, Index, Row, began_at
from olympia_cli.importers.deltacat.metadata import (
    Body,
    DeltaFile,
    Malformed,
    Namespace,
    Table,
    TransactionLog,
    read_body,
    read_log,
)
from olympia_cli.importers.objects import Key
from olympia_cli.importers.result import ImportAdvice, Omission
from olympia_cli.names import Ago, AtTime, Kind, OnDay, TableName, parse_reference, settle
from olympia_cli.storage.protocol import Store, check_path

AT_ONCE = 1024
MAX_SIZE = 2**26
"""Highest number of bytes of a metadata file: a delta of a hundred thousand files has a quarter of it."""
_UUID = re.compile("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")


@dataclass(frozen=True, slots=True)
class Metafile:
    """A revision and its content, or the reason why it is unreadable."""

    row: Row
    body: Body | str

    @property
    def position(self) -> int:
        """The position of a delta in its partition, from its folder, so that it is known for an unreadable delta,
        too."""
        text = self.row.object[-1]
        return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1

    def unread(self) -> Omission:
        """Return an unreadable object, with the reason."""
        return Omission(f"{KINDS[len(self.row.object) - 1]} {self.row.object[-1]}", f"{self.row.path}: {self.body}")


@dataclass(slots=True)
class SourceTable:
    """A table and its versions, streams, partitions and deltas: by their folders, per parent folder."""

    namespace: str
    file: Metafile
    inside: dict[tuple[str, ...], dict[tuple[str, ...], Metafile]] = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.file.row.object[1]

    @property
    def table(self) -> Table:
        assert isinstance(self.file.body, Table)
        return self.file.body

    @property
    def name(self) -> TableName:
        """The table's name at the source, legal here or not."""
        return TableName.known_legal(self.namespace, self.table.name)

    def put(self, file: Metafile) -> None:
        self.inside.setdefault(file.row.object[:-1], {})[file.row.object] = file

    def remove(self, folders: tuple[str, ...]) -> None:
        self.inside.get(folders[:-1], {}).pop(folders, None)

    def at(self, folders: tuple[str, ...]) -> Metafile | None:
        return self.inside.get(folders[:-1], {}).get(folders)

    def below(self, folders: tuple[str, ...]) -> Iterable[Metafile]:
        """Return the children of a folder."""
        return self.inside.get(folders, {}).values()


SourceObject = Namespace | SourceTable


@dataclass(frozen=True, slots=True)
class SourceTransaction:
    """A transaction: its state, its end, if any, and its log. Times are nanoseconds since 1970."""

    id: str
    state: str
    began_at: int
    ended_at: int | None
    message: str | None
    operations: tuple[str, ...]
    problem: str | None = None


class DeltacatSource:
    """A catalog to import. `name` and `into` are the source and the namespace of the command, for its advice."""

    def __init__(self, store: Store, name: str = "", into: str | None = None) -> None:
        self.store = store
        self.index = Index(store.list())
        if not self.index.is_catalog:
            raise CatalogNotFound(
                f"there is no DeltaCAT catalog at {store.uri}", hint="name the folder that txn/ is in"
            )
        self._roots: dict[str, str | None] = {}
        options = [] if into is None else ["--into", into]
        words = command_words("import", "deltacat", "--rewrite", *options, names=[name])
        self.rewrite = ImportAdvice("import it too: merge and rewrite its rows on Spark", words)
        """Advice for parts that plain files cannot express."""
        self.compact = ImportAdvice("let DeltaCAT compact the partition, which keeps its rows, and import again", words)
        """Advice for partitions whose rows are unknown."""

    @property
    def identity(self) -> str:
        """The id of the catalog, wherever it is copied to."""
        return self.index.identity or ""

    def id_of(self, id: str) -> str:
        """Return the id of an object here: its own if it is a UUID, else one that is derived from it."""
        return id if _UUID.fullmatch(id) else str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.index.identity}/{id}"))

    def key(self, folders: tuple[str, ...]) -> Key:
        """Return the kind and the id here, of the namespace or table with these folders."""
        return (Kind.NAMESPACE if len(folders) == 1 else Kind.TABLE), self.id_of(folders[-1])

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

    # Files

    def read(self, rows: Iterable[Row]) -> Iterator[Metafile]:
        """Yield the contents of revisions, in the order of `rows`."""
        waiting = iter(rows)
        while batch := list(islice(waiting, AT_ONCE)):
            contents = self.store.read_many(row.path for row in batch if row.size <= MAX_SIZE)
            for row in batch:
                if row.size > MAX_SIZE:
                    yield Metafile(row, f"it has {row.size:,} bytes, which no metadata has")
                    continue
                _, data = next(contents)
                yield Metafile(row, data.message if isinstance(data, OlympiaError) else _body(row, data))

    def read_marked(self, rows: Iterable[tuple[Row, bool]]) -> Iterator[tuple[Metafile, bool]]:
        """Yield the same as `read` for rows that each have a mark."""
        marks: deque[bool] = deque()

        def unmarked() -> Iterator[Row]:
            for row, mark in rows:
                marks.append(mark)
                yield row

        return ((file, marks.popleft()) for file in self.read(unmarked()))

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

    def path_of(self, entry: DeltaFile, transaction: str) -> str | None:
        """Return the path of a file below the root; None for a file outside of it. A URL may be absolute, and name a
        former location of the catalog."""
        url = entry.url
        if self.index.size(url) is None and (root := self._root_of(transaction)):
            url = url.removeprefix(root.rstrip("/") + "/")
        try:
            check_path(url)
        except PathOutside:
            return None
        return None if "://" in url else url

    def _root_of(self, transaction: str) -> str | None:
        """Return the location of the catalog when a transaction wrote."""
        if transaction not in self._roots:
            ended = next(self.index.ask("SELECT id, ended, path FROM committed WHERE id = ?", transaction), None)
            self._roots[transaction] = None
            if ended is not None:
                self.log(Ended(*ended))
        return self._roots[transaction]

    # Objects

    def objects(self, before: int) -> Iterator[SourceObject | Metafile]:
        """Yield the living objects at a time: each namespace, then its tables, with one table in memory at a time. An
        unreadable object is yielded as its file."""
        namespace: Namespace | None = None
        for folders, group in groupby(self.read(self.index.living(before)), lambda file: file.row.object[:2]):
            first = next(group)
            if len(folders) == 1:
                namespace = first.body if isinstance(first.body, Namespace) else None
                yield first if namespace is None else namespace
            elif namespace is None:
                yield Metafile(first.row, "its namespace cannot be read")
            elif not isinstance(first.body, Table):
                yield first
            else:
                table = SourceTable(namespace.name, first)
                for file in group:
                    table.put(file)
                yield table

    def states(self, before: int) -> Iterator[tuple[Key, bool]]:
        """Yield all namespaces and tables that ever existed, and whether each lives at a time."""
        return ((self.key(folders), lives) for folders, lives in self.index.roots(before))

    def transactions(self, before: int) -> Iterator[SourceTransaction]:
        """Yield the transactions that had begun by a time, in that order. A transaction that ended later was still
        running then."""
        query = "SELECT id, state, ended, path FROM txn WHERE began < ? ORDER BY began, id, path"
        for id, state, ended, path in self.index.ask(query, before):
            if state == "success" and ended >= before:
                state, ended = "running", None
            log = self.log(Ended(id, ended or 0, path))
            if isinstance(log, TransactionLog):
                types = tuple(operation.type for operation in log.operations)
                yield SourceTransaction(id, state, began_at(id), ended or log.ended_at, log.message, types)
            else:
                yield SourceTransaction(id, state, began_at(id), ended, None, (), log)


def _body(row: Row, data: bytes) -> Body | str:
    try:
        body = read_body(data, row.path, len(row.object))
    except Malformed as error:
        return str(error)
    if isinstance(body, Namespace | Table) and body.id != row.object[-1]:
        return f"its id is {body.id[:60]}, and its folder is that of another {KINDS[len(row.object) - 1]}"
    return body


@dataclass(slots=True)
class CatalogHistory:
    """The catalog as its transactions build it, one after another."""

    source: DeltacatSource
    namespaces: dict[str, Namespace] = field(default_factory=dict)
    tables: dict[tuple[str, ...], SourceTable] = field(default_factory=dict)
    inside: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)
    unread: dict[tuple[str, ...], Omission] = field(default_factory=dict)

    def apply(self, transaction: Ended) -> tuple[list[SourceObject], list[Key]]:
        """Apply the next transaction. Return the living objects that it touched, and those that it dropped."""
        touched: dict[tuple[str, ...], None] = {}
        dropped: list[Key] = []
        for file in self.source.read(self.source.index.of_transaction(transaction.id)):
            folders = file.row.object
            self.unread.pop(folders, None)
            touched[folders[:2]] = None
            if len(folders) == 1:
                # a renamed namespace takes its tables along
                touched |= dict.fromkeys(self.inside.get(folders[0], ()))
            if file.row.operation == "delete":
                dropped += self._drop(folders)
            elif len(folders) > 2:
                if folders[:2] in self.tables:
                    self.tables[folders[:2]].put(file)
            elif isinstance(file.body, Namespace):
                self.namespaces[folders[0]] = file.body
            elif isinstance(file.body, Table):
                self._put_table(folders, file)
            else:
                self.unread[folders] = file.unread()
        return list(self._living(touched)), dropped

    def others(self, imported: Container[Key]) -> Iterator[SourceObject]:
        """Yield the living namespaces, and the living tables that were not imported from any transaction: they are
        unchanged, or were dropped here."""
        others: dict[tuple[str, ...], None] = {(namespace,): None for namespace in self.namespaces}
        others |= {folders: None for folders in self.tables if self.source.key(folders) not in imported}
        return self._living(others)

    def _put_table(self, folders: tuple[str, ...], file: Metafile) -> None:
        self.inside.setdefault(folders[0], set()).add(folders)
        if folders in self.tables:
            self.tables[folders].file = file
        else:
            self.tables[folders] = SourceTable("", file)

    def _drop(self, folders: tuple[str, ...]) -> Iterator[Key]:
        if len(folders) == 1:
            self.namespaces.pop(folders[0], None)
            yield self.source.key(folders)
            for table in self.inside.pop(folders[0], set()):
                yield from self._drop(table)
        elif len(folders) == 2:
            self.tables.pop(folders, None)
            self.inside.get(folders[0], set()).discard(folders)
            yield self.source.key(folders)
        elif folders[:2] in self.tables:
            self.tables[folders[:2]].remove(folders)

    def _living(self, touched: dict[tuple[str, ...], None]) -> Iterator[SourceObject]:
        for folders in sorted(touched):
            namespace = self.namespaces.get(folders[0])
            if len(folders) == 1 and namespace is not None:
                yield namespace
            elif namespace is not None and folders in self.tables:
                self.tables[folders].namespace = namespace.name
                yield self.tables[folders]
