"""A DeltaCAT catalog as a source: its objects at a time, or transaction by transaction. Each file is read once."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby, islice
from typing import Any, TypeVar

from olympia_cli.errors import CatalogNotFound, InvalidOption, InvalidReference, OlympiaError, PathOutside
from olympia_cli.importers.deltacat.bodies import (
    COMMITTED,
    PARQUET,
    Body,
    Delta,
    Entry,
    Namespace,
    Partition,
    Stream,
    Table,
    TableVersion,
    TransactionLog,
    read_body,
    read_log,
)
from olympia_cli.importers.deltacat.index import FOREVER, KINDS, TRANSACTION_ID, Ended, Index, Row
from olympia_cli.importers.deltacat.rewrite import Piece, PieceFile, Step, why_not
from olympia_cli.importers.deltacat.schemas import with_default
from olympia_cli.importers.result import ImportAdvice, Omission
from olympia_cli.importers.wire import Malformed
from olympia_cli.names import Ago, AtTime, OnDay, TableName, parse_reference, settle
from olympia_cli.storage.protocol import Store, check_path

# Find the files of a table: those of the committed partitions of its active version.
#
# Plain files list rows. An upsert or a delete changes rows of earlier files, which plain files cannot express. So in a
# partition with one of these, only deltas that were appended after the last of them count: no row is imported that
# DeltaCAT would not show. A delta without a position in the order does not count either.

T = TypeVar("T")
_NOT_EXPRESSED = "an upsert or delete changes its rows, which plain files cannot say"


class Unreadable(Exception):
    """The content of a table is unknown."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A Parquet file of a table: its path in the catalog, its size, the number of rows that it should have, and the
    values of its partition. The values are None if they belong to another partition scheme. A missing file has no size.
    """

    path: str
    size: int | None
    rows: int | None
    values: tuple[Any, ...] | None


@dataclass(frozen=True, slots=True)
class Contents:
    """The content of a table, and the parts that are left out. `is_torn` says that some of it is unreadable, and
    `rewrites` that rows may be rewritten."""

    version: TableVersion
    files: tuple[SourceFile, ...]
    skipped: tuple[Omission, ...]
    is_torn: bool
    pieces: tuple[Piece, ...] = ()
    remedy: ImportAdvice | None = None
    rewrites: bool = False


def contents(source: Source, table: SourceTable, rewrites: bool = False, was_rewritten: bool = False) -> Contents:
    """Return the files of a table and, with `rewrites`, the partitions whose rows are to be rewritten. Raise
    Unreadable, with the reason, if they are unknown. If the table was rewritten before, an unknown partition marks the
    content as torn, so that its rows stay."""
    body = table.found.body
    assert isinstance(body, Table)
    if body.active is None:
        raise Unreadable("none of its versions is active")
    folders = (*table.found.row.object, body.active)
    version = _need(table.at(folders), TableVersion, f"its active version {body.active!a}")
    skipped = _Skipped(None if rewrites else source.remedy)
    for found in table.below(table.found.row.object):
        if found.row.object != folders and isinstance(found.body, TableVersion) and found.body.state == "active":
            skipped.add(f"version {found.row.object[-1]}", f"version {body.active} is the latest active one")
    files: list[SourceFile] = []
    pieces: list[Piece] = []
    stream = _stream(table, folders, skipped)
    for found in [] if stream is None else table.below(stream):
        partition = found.body
        if isinstance(partition, str):
            skipped.tear(f"partition {found.row.object[-1]}", partition)
        elif isinstance(partition, Partition) and partition.state == COMMITTED:
            values = partition.values if partition.scheme == version.scheme else None
            deltas = sorted(table.below(found.row.object), key=_position)
            piece = _piece(source, version, deltas) if rewrites else None
            if isinstance(piece, Unreadable) or (was_rewritten and isinstance(piece, str)):
                skipped.tear(f"partition {found.row.object[-1]}", f"it is not rewritten: {piece}")
            elif isinstance(piece, str):
                skipped.leave(f"partition {found.row.object[-1]}", f"it is not rewritten: {piece}", source.last_remedy)
            if isinstance(piece, Piece):
                pieces.append(piece)
            else:
                files += _files(source, deltas, values, skipped)
    return Contents(version, tuple(files), skipped.told(), skipped.is_torn, tuple(pieces), skipped.remedy, rewrites)


def _stream(table: SourceTable, version: tuple[str, ...], skipped: _Skipped) -> tuple[str, ...] | None:
    streams = []
    for found in table.below(version):
        stream = _need(found, Stream, f"its stream {found.row.object[-1]}")
        if stream.state == COMMITTED and stream.format == "deltacat":
            streams.append(found.row.object)
        elif stream.state == COMMITTED:
            skipped.add(f"stream {found.row.object[-1]}", f"its format is {stream.format!a}")
    if len(streams) > 1:
        raise Unreadable(f"{len(streams)} of its streams are committed")
    return streams[0] if streams else None


def _piece(source: Source, version: TableVersion, deltas: Sequence[Found]) -> Piece | Unreadable | str | None:
    """Return a partition that plain files cannot express as a Piece, or the reason why its rows are unknown. Return
    Unreadable if files of it are missing, and None if plain files express it."""
    bodies = [(one, one.body) for one in deltas if isinstance(one.body, Delta)]
    merges = any(body.merges for _, body in bodies)
    entries = [entry for _, body in bodies for entry in body.entries]
    needed = merges or bool(with_default(version)) or not all(_is_plain(entry) for entry in entries)
    if not needed or len(bodies) < len(deltas):
        return None
    steps = []
    for found, body in bodies:
        if merges and body.previous is None:
            return f"delta {_name(found)} is in no order with its upserts and deletes"
        files = []
        for entry in body.entries:
            path = place(source, entry, found.row.transaction)
            if path is None or (size := source.index.size(path)) is None:
                return Unreadable(f"{entry.url} is not there")
            files.append(PieceFile(path, size, entry))
        steps.append(Step(body.type, tuple(files)))
    return why_not(steps, version) or Piece(tuple(steps))


def _is_plain(entry: Entry) -> bool:
    return entry.content_type == PARQUET and entry.encoding == "identity"


def _files(
    source: Source, deltas: Sequence[Found], values: tuple[Any, ...] | None, skipped: _Skipped
) -> list[SourceFile]:
    merging = [one for one in deltas if not isinstance(one.body, Delta) or one.body.merges]
    last = _position(merging[-1]) if merging else None
    files = []
    for one in deltas:
        if not isinstance(one.body, Delta):
            skipped.tear(f"delta {_name(one)}", str(one.body))
        elif one.body.merges:
            skipped.leave(f"delta {_name(one)}", f"it is {_merge(one.body)}, which plain files cannot say")
        elif last is not None and (one.body.previous is None or _position(one) < last):
            skipped.leave(f"delta {_name(one)}", _NOT_EXPRESSED)
        else:
            for entry in one.body.entries:
                path = place(source, entry, one.row.transaction)
                if not _is_plain(entry):
                    packed = "" if entry.encoding == "identity" else f" in {entry.encoding!a}"
                    skipped.leave(entry.url, f"it is {entry.content_type!a}{packed}, and not plain Parquet")
                elif path is None:
                    skipped.add(entry.url, "it lies outside of the catalog")
                else:
                    size = source.index.size(path)
                    if size is None:
                        skipped.add(path, "it is missing")
                    files.append(SourceFile(path, size, entry.rows, values))
    return files


def _merge(delta: Delta) -> str:
    return "an upsert" if delta.type == "upsert" else "a delete"


def _position(found: Found) -> int:
    """Return the position of a delta in its partition, from its folder, so that it is known for an unreadable delta,
    too."""
    text = found.row.object[-1]
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else -1


def _name(found: Found) -> str:
    return "/".join(found.row.object[-2:])


def place(source: Source, entry: Entry, transaction: str) -> str | None:
    """Return the path of a file below the root; None for a file outside of it. A URL may be absolute, and name a former
    location of the catalog."""
    url = entry.url
    if source.index.size(url) is None:
        root = source.root_of(transaction)
        if root and url.startswith(root.rstrip("/") + "/"):
            url = url[len(root.rstrip("/")) + 1 :]
    try:
        check_path(url)
    except PathOutside:
        return None
    return None if "://" in url else url


def _need(found: Found | None, type: type[T], what: str) -> T:
    if found is None:
        raise Unreadable(f"{what} is not there")
    if not isinstance(found.body, type):
        raise Unreadable(f"{what} cannot be read: {found.body}")
    return found.body


class _Skipped:
    """Parts that are left out, grouped by reason: a table may have a million files."""

    def __init__(self, remedy: ImportAdvice | None) -> None:
        self._by_reason: dict[str, list[str]] = defaultdict(list)
        self.remedy = remedy
        self._remedies: dict[str, ImportAdvice | None] = {}
        self.is_torn = False

    def tear(self, what: str, why: str) -> None:
        """Add an unreadable part."""
        self.is_torn = True
        self.add(what, f"it cannot be read: {why}")

    def add(self, what: str, why: str) -> None:
        self._by_reason[why].append(what)

    def leave(self, what: str, why: str, remedy: ImportAdvice | None = None) -> None:
        """Add a part that could be imported if its rows were rewritten, or by another remedy."""
        self._remedies[why] = remedy or self.remedy
        self.add(what, why)

    def told(self) -> tuple[Omission, ...]:
        return tuple(Omission(told_as_one(what), why, self._remedies.get(why)) for why, what in self._by_reason.items())


def told_as_one(things: list[str]) -> str:
    """Return several things in a few words."""
    return things[0] if len(things) == 1 else f"{things[0]} and {len(things) - 1:,} more"


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

    remedy: ImportAdvice | None = None
    last_remedy: ImportAdvice | None = None

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
