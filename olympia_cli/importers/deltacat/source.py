"""A DeltaCAT catalog as a source: its objects at a time, or transaction by transaction, each file read once."""

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
"""No metadata file is larger: a delta of a hundred thousand files has a quarter of that."""


@dataclass(frozen=True, slots=True)
class Found:
    """A revision and its content, or why it cannot be read."""

    row: Row
    body: Body | str


Inside = dict[tuple[str, ...], dict[tuple[str, ...], Found]]
"""Objects by the folders that lead to them, in the folders that they lie in."""


@dataclass(slots=True)
class SourceTable:
    """A table, and what lies in it: versions, streams, partitions, deltas, by the folders that lead there."""

    namespace: str
    found: Found
    inside: Inside = field(default_factory=dict)

    @property
    def id(self) -> str:
        return self.found.row.object[1]

    @property
    def name(self) -> TableName:
        """What it is called there, legal here or not."""
        assert isinstance(self.found.body, Table)
        return TableName.known_legal(self.namespace, self.found.body.name)

    def put(self, found: Found) -> None:
        self.inside.setdefault(found.row.object[:-1], {})[found.row.object] = found

    def remove(self, folders: tuple[str, ...]) -> None:
        self.inside.get(folders[:-1], {}).pop(folders, None)

    def at(self, folders: tuple[str, ...]) -> Found | None:
        return self.inside.get(folders[:-1], {}).get(folders)

    def below(self, folders: tuple[str, ...]) -> Iterable[Found]:
        """What lies in a folder, one level down."""
        return self.inside.get(folders, {}).values()


class Source:
    """What is there. `remedy` is what brings what plain files cannot say, where somebody can do it, and `last_remedy`
    what brings that of which it is not known how to."""

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
        """The time up to which transactions count, in nanoseconds; one that is named counts itself."""
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
        """The contents of revisions, in the order asked for."""
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
        """As `read`, of rows that each have a mark."""
        marks: deque[bool] = deque()

        def unmarked() -> Iterator[Row]:
            for row, mark in rows:
                marks.append(mark)
                yield row

        return ((found, marks.popleft()) for found in self.read(unmarked()))

    def log(self, transaction: Ended) -> TransactionLog | str:
        """What a transaction says of itself, or why that cannot be read."""
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
        """Where the catalog was when a transaction wrote."""
        if transaction not in self._roots:
            ended = next(self.index.ask("SELECT id, ended, path FROM committed WHERE id = ?", transaction), None)
            self._roots[transaction] = None
            if ended is not None:
                self.log(Ended(*ended))
        return self._roots[transaction]

    def tables(self, before: int) -> Iterator[Namespace | SourceTable | Found]:
        """What lives at a time: each namespace, and then its tables, one in memory at a time. What cannot be read is
        there as it was found."""
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
