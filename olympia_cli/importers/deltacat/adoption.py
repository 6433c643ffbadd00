"""Import a DeltaCAT catalog: its state at a time, or transaction by transaction.

Objects keep their ids, and their properties record their source. The next import uses these: an object that changed at
the source, and not here, changes here, and an object that was dropped there is dropped. An object that was changed here
stays as it is, and is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import cast

from olympia_cli.errors import InvalidName, InvalidOption
from olympia_cli.format.pb.objects_pb2 import NamespaceDef, TableDef
from olympia_cli.iceberg.columns import columns_told
from olympia_cli.iceberg.conversion import identifier_of
from olympia_cli.importers.deltacat import staging
from olympia_cli.importers.deltacat.bodies import Namespace, Table, TransactionLog
from olympia_cli.importers.deltacat.index import KINDS, Ended, began_at
from olympia_cli.importers.deltacat.schemas import Unfit
from olympia_cli.importers.deltacat.source import Contents, Found, Source, SourceTable, Unreadable, contents
from olympia_cli.importers.deltacat.staging import Key, Staging, is_as_made
from olympia_cli.importers.deltacat.tables import TablePlan, Written, bring, known_files, make, plan
from olympia_cli.importers.olympia import ImportNote, check_into, read_note
from olympia_cli.importers.properties import (
    DELTACAT_LEFT_OUT,
    DELTACAT_METADATA,
    DELTACAT_NAMESPACE,
    DELTACAT_REWRITTEN,
    DELTACAT_TABLE,
    DELTACAT_TRANSACTION,
)
from olympia_cli.importers.result import ImportedTable, ImportResult, Omission
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, as_found, time_text

# Run an import: one commit for a whole catalog, or one per transaction.
#
# The same commit sets a property of this catalog: the time of the source up to which everything was imported. So an
# interrupted history continues where it stopped.


def import_at(adoption: Adoption, before: int, message: str) -> tuple[ImportResult, int]:
    """Import the catalog as it is at a time, in one commit. Return the result, and the version."""
    left_out: list[Omission] = []
    adoption.begin(before)
    _check_note(adoption, before)
    adoption.take(_readable(adoption.source, before, left_out), adoption.dropped(before))
    version = _commit(adoption, before, message)
    return _told(adoption, left_out), version


def _readable(source: Source, before: int, left_out: list[Omission]) -> Iterator[Namespace | SourceTable]:
    for found in source.tables(before):
        if isinstance(found, Found):
            left_out.append(unread(found))
        else:
            yield found


def unread(found: Found) -> Omission:
    """Return an unreadable object, with the reason."""
    return Omission(f"{KINDS[len(found.row.object) - 1]} {found.row.object[-1]}", f"{found.row.path}: {found.body}")


def import_history(adoption: Adoption, before: int, message: str) -> tuple[ImportResult, int]:
    """Import each new transaction as a commit, in the order of their ends."""
    adoption.begin(before)
    note = _check_note(adoption, before)
    version = adoption.transaction.base.version
    state = _State()
    for ended in adoption.source.index.ended(0, before):
        touched, gone = state.apply(adoption, adoption.source.read(adoption.source.index.of_transaction(ended.id)))
        if note is not None and ended.ended_at <= note.version:
            continue
        about = _about(ended, adoption.source.log(ended))
        adoption.begin(ended.ended_at + 1)
        adoption.take(touched, gone)
        version = _commit(adoption, ended.ended_at + 1, f"{message}\n{about}" if message else about)
    adoption.begin(before)
    adoption.take(state.others(adoption), ())
    return _told(adoption, [*state.unread.values()]), max(version, _commit(adoption, before, message))


def _about(ended: Ended, log: TransactionLog | str) -> str:
    """Return the commit message for a transaction of the source."""
    said = log.message if isinstance(log, TransactionLog) and log.message else "transaction"
    return f"{said} {ended.id}, {time_text(ended.ended_at // 1_000_000)}"


@dataclass(slots=True)
class _State:
    """The state of the catalog as transactions build it."""

    namespaces: dict[str, Namespace] = field(default_factory=dict)
    tables: dict[tuple[str, ...], SourceTable] = field(default_factory=dict)
    inside: dict[str, set[tuple[str, ...]]] = field(default_factory=dict)
    unread: dict[tuple[str, ...], Omission] = field(default_factory=dict)

    def apply(self, adoption: Adoption, written: Iterator[Found]) -> tuple[list[Namespace | SourceTable], list[Key]]:
        """Apply the objects that one transaction wrote. Return those that it touched, and those that it dropped."""
        touched: dict[tuple[str, ...], None] = {}
        gone: list[Key] = []
        for found in written:
            folders = found.row.object
            self.unread.pop(folders, None)
            touched[folders[:2]] = None
            if len(folders) == 1:
                # a renamed namespace takes its tables along
                touched |= dict.fromkeys(self.inside.get(folders[0], ()))
            if found.row.operation == "delete":
                gone += self._drop(adoption, folders)
            elif len(folders) == 1:
                if isinstance(found.body, Namespace):
                    self.namespaces[folders[0]] = found.body
                else:
                    self.unread[folders] = unread(found)
            elif len(folders) == 2:
                self._put_table(folders, found)
            elif folders[:2] in self.tables:
                self.tables[folders[:2]].put(found)
        return list(self._living(touched)), gone

    def others(self, adoption: Adoption) -> Iterator[Namespace | SourceTable]:
        """Return the living objects that no transaction has touched: they are unchanged, or were dropped here."""
        untold: dict[tuple[str, ...], None] = {(one,): None for one in self.namespaces}
        untold |= {one: None for one, table in self.tables.items() if not adoption.has_told(table)}
        return self._living(untold)

    def _put_table(self, folders: tuple[str, ...], found: Found) -> None:
        if not isinstance(found.body, Table):
            self.unread[folders] = unread(found)
            return
        self.inside.setdefault(folders[0], set()).add(folders)
        if folders in self.tables:
            self.tables[folders].found = found
        else:
            self.tables[folders] = SourceTable("", found)

    def _drop(self, adoption: Adoption, folders: tuple[str, ...]) -> Iterator[Key]:
        if len(folders) == 1:
            self.namespaces.pop(folders[0], None)
            yield Kind.NAMESPACE, adoption.id_of(folders[0])
            for table in self.inside.pop(folders[0], set()):
                yield from self._drop(adoption, table)
        elif len(folders) == 2:
            self.tables.pop(folders, None)
            self.inside.get(folders[0], set()).discard(folders)
            yield Kind.TABLE, adoption.id_of(folders[1])
        elif folders[:2] in self.tables:
            self.tables[folders[:2]].remove(folders)

    def _living(self, touched: dict[tuple[str, ...], None]) -> Iterator[Namespace | SourceTable]:
        for folders in sorted(touched):
            namespace = self.namespaces.get(folders[0])
            if len(folders) == 1 and namespace is not None:
                yield namespace
            elif namespace is not None and folders in self.tables:
                self.tables[folders].namespace = namespace.name
                yield self.tables[folders]


def _check_note(adoption: Adoption, before: int) -> ImportNote | None:
    note = read_note(adoption.transaction, adoption.source.index.identity or "")
    check_into(note, adoption.renaming.into)
    last = adoption.source.index.last_end(before)
    if note is not None and note.version > last:
        raise InvalidOption(
            f"that catalog was imported already as it was at {time_text(note.version // 1_000_000)}, which is later",
            hint="leave out --at, or name a later time",
        )
    return note


def _commit(adoption: Adoption, before: int, message: str) -> int:
    """Commit the staged changes with the note; do nothing if there is nothing new."""
    transaction, index = adoption.transaction, adoption.source.index
    note = ImportNote(index.last_end(before), adoption.renaming.into)
    if index.identity is not None and read_note(transaction, index.identity) != note:
        transaction.note_import(index.identity, note.encode())
    if adoption.dry_run or not transaction.has_writes:
        return transaction.base.version
    return adoption.commit(message)


def _told(adoption: Adoption, left_out: list[Omission]) -> ImportResult:
    adoption.done.created, adoption.done.moved_on = [*adoption.created.values()], [*adoption.moved_on.values()]
    adoption.done.left_out = [*left_out, *(one for told in adoption.told.values() for one in told)]
    return adoption.done


_UNWRITTEN = "they could not be read when the table was rewritten; an import of newer data tries them again"
_CHANGED_HERE = "it was changed here"
_NOT_MADE = "not made"


class Adoption(Staging):
    """Stages the objects of a source."""

    __slots__ = ()

    def take(self, found: Iterable[Namespace | SourceTable], gone: Iterable[Key]) -> None:
        """Stage drops, creations and changes. A name may become free only when another object has moved on from it."""
        for key in sorted(gone, reverse=True):
            # tables before their namespaces
            self._drop(key)
        for one in found:
            if isinstance(one, SourceTable):
                self._table(one)
            elif self.renaming.into is None:
                self._namespace(one)
        waiting: list[Callable[[], bool]] = []
        while len(self._waiting) != len(waiting):
            waiting = self._waiting
            self._waiting = [attempt for attempt in waiting if not attempt()]

    def has_told(self, table: SourceTable) -> bool:
        """Return True if this import created or moved on the table."""
        key = (Kind.TABLE, self.id_of(table.id))
        return key in self.created or key in self.moved_on

    # Namespaces

    def _namespace(self, found: Namespace) -> None:
        named = as_found(Kind.NAMESPACE, found.name)
        key, name = (Kind.NAMESPACE, self.id_of(found.id)), cast(NamespaceName, self.renaming.name(named))
        revisions = self.source.index.revisions((found.id,), self._before)
        properties = staging.of_namespace(found, self.source.index.identity or "", revisions) | self._former(named)
        here = self.here.get(key)
        if not name.namespace:
            self._leave(key, f"namespace {found.id}", "it has no name")
        elif here is None:
            if not self.transaction.draft.find(name):
                self._create(NamespaceDef(id=key[1], properties=properties), name, named)
                self.done.namespaces += 1
        else:
            self._follow_namespace(key, here, name, named, properties)

    def _follow_namespace(
        self, key: Key, here: ObjectName, name: NamespaceName, named: ObjectName, properties: dict[str, str]
    ) -> None:
        present = self._present(here)
        before = self.renaming.name(as_found(Kind.NAMESPACE, present.properties.get(DELTACAT_NAMESPACE, "")))
        if here == name and all(present.properties.get(one) == value for one, value in properties.items()):
            self.done.unchanged += 1
        elif here != before and here != name:
            self._leave(key, f"namespace {named}", _CHANGED_HERE)
        else:
            self._change(key, name, properties, f"namespace {named}")

    # Tables

    def _table(self, table: SourceTable) -> None:
        key = (Kind.TABLE, self.id_of(table.id))
        self.told.pop(key, None)
        try:
            was_rewritten = self._was_rewritten(key)
            held = contents(self.source, table, self.rewriter is not None or was_rewritten, was_rewritten)
            self._hold(key, table, held)
        except (Unreadable, Unfit) as error:
            self._leave(key, f"table {table.name}", str(error))
        except InvalidName as error:
            self._leave(key, f"table {table.name}", error.message)

    def _was_rewritten(self, key: Key) -> bool:
        here = self.here.get(key)
        return here is not None and self._present(here).properties.get(DELTACAT_REWRITTEN) == "true"

    def _hold(self, key: Key, table: SourceTable, held: Contents) -> None:
        body = table.found.body
        assert isinstance(body, Table)
        index, renamed = self.source.index, self.renaming.name(table.name)
        # raises InvalidName for an empty name, which no rule makes legal
        name = TableName(renamed.namespace, renamed.name)
        last = index.last_of(table.found.row.object, self._before)
        here = self.here.get(key)
        if here is not None and key not in self.mine:
            self._leave(key, f"table {table.name}", "another import has made it")
            return
        revisions = index.revisions(table.found.row.object, self._before)
        properties = staging.of_table(body, table.namespace, index.identity or "", last, revisions, held)
        properties |= self._former(table.name)
        if here is None:
            new = plan(self.base, self.io, held)
            self._try(key, lambda: self._make(key, table.name, name, new, properties), name, f"table {table.name}")
            return
        assert isinstance(here, TableName)
        present = self._present(here)
        former = (present.properties.get(name, "") for name in (DELTACAT_NAMESPACE, DELTACAT_TABLE))
        known_as = TableName.known_legal(*former)
        is_new = here != name or known_as != table.name or present.properties.get(DELTACAT_TRANSACTION) != last
        is_new = is_new or (bool(held.pieces) and not self._was_rewritten(key))
        planned: TablePlan | None = None
        if is_new or held.skipped or present.properties.get(DELTACAT_LEFT_OUT) != "0":
            planned, known = self._plan(here, held)
            # files that were left out before may exist now
            is_new = is_new or not planned.files.keys() <= known
            is_new = is_new or (bool(planned.pieces) and not self._was_rewritten(key))
        if not is_new:
            self.done.unchanged += 1
            self._tell_skipped(key, table.name, planned, _unwritten(present.properties, planned))
        elif here not in (name, self._former_name(known_as)) or not is_as_made(present):
            self._leave(key, f"table {table.name}", _CHANGED_HERE)
        elif planned is not None and planned.pieces and self.rewriter is None:
            why = "its rows were rewritten here, and it has newer data at the source"
            self._leave(key, f"table {table.name}", why, self.source.remedy)
        elif planned is None or planned.is_torn:
            # the table here may have rows that can no longer be read at the source
            self._tell_skipped(key, table.name, planned)
        else:
            self._follow(key, here, name, table.name, planned, properties)

    def _follow(
        self,
        key: Key,
        here: TableName,
        name: TableName,
        named: TableName,
        planned: TablePlan,
        properties: dict[str, str],
    ) -> None:
        written = Written() if self.dry_run else bring(self.staged, here, planned, self.rewriter)
        if written.skipped:
            # the table here may have rows that can no longer be read at the source
            self._tell_skipped(key, named, planned, written.skipped)
            return
        made = cast(TableDef, self._present(here)).iceberg_metadata_location
        if planned.pieces or self._was_rewritten(key):
            properties[DELTACAT_REWRITTEN] = "true" if planned.pieces else "false"
        self._note(key, here, named, made, planned, written, self.moved_on)
        self._change(key, name, properties | _made(made, planned, written), f"table {named}")

    def _make(
        self, key: Key, named: TableName, name: TableName, planned: TablePlan, properties: dict[str, str]
    ) -> None:
        namespace = NamespaceName(name.namespace)
        if not self.transaction.draft.find(namespace):
            if self.renaming.into is None:
                self._leave(key, f"table {named}", "its namespace is not here")
                return
            self.transaction.create_namespace(namespace)
            self.done.namespaces += 1
        location, written = _NOT_MADE, Written()
        if not self.dry_run:
            state, written = make(self.staged, name, key[1], planned, self.rewriter)
            location = self.staged.stage(state)
        properties |= _made(location, planned, written) | ({DELTACAT_REWRITTEN: "true"} if planned.pieces else {})
        definition = TableDef(id=key[1], properties=properties, iceberg_metadata_location=location)
        self._create(definition, name, named)
        self._note(key, name, named, location, planned, written, self.created)

    def _note(
        self,
        key: Key,
        name: TableName,
        named: TableName,
        location: str,
        planned: TablePlan,
        written: Written,
        into: dict[Key, ImportedTable],
    ) -> None:
        """Record a table that is created or moves on; a table that this import created only counts as created.
        Unwritten files are not counted."""
        files: int | None = len(planned.files) + len(written.files)
        rows = None if planned.rows is None else planned.rows + sum(file.record_count for file in written.files)
        size: int | None = planned.size + sum(file.file_size_in_bytes for file in written.files)
        if planned.pieces and self.dry_run:
            files = rows = size = None
        skipped, columns = (*planned.skipped, *written.skipped), columns_told(planned.schema)
        found = ImportedTable(name, str(named), location, frozenset(), files, rows, skipped, size, columns)
        (self.created if key in self.created else into)[key] = found

    def _plan(self, here: TableName, held: Contents) -> tuple[TablePlan, frozenset[str]]:
        """Return the plan of a table, and the files that it has."""
        table = self.staged.load_table(identifier_of(here))
        known = frozenset(known_files(table))
        return plan(self.base, self.io, held, table.spec(), known), known

    def _tell_skipped(
        self, key: Key, name: TableName, planned: TablePlan | None, more: Sequence[Omission] = ()
    ) -> None:
        skipped = [*(() if planned is None else planned.skipped), *more]
        if skipped:
            self.told[key] = [Omission(f"{one.part} of table {name}", one.reason, one.advice) for one in skipped]


def _unwritten(properties: Mapping[str, str], planned: TablePlan | None) -> list[Omission]:
    """Return the rows that an earlier rewrite could not read: they are not tried again, and are still missing."""
    noted = properties.get(DELTACAT_LEFT_OUT, "")
    missing = int(noted) - len(planned.skipped) if planned is not None and noted.isdecimal() else 0
    is_rewritten = properties.get(DELTACAT_REWRITTEN) == "true"
    return [Omission(f"rows of {missing} partitions", _UNWRITTEN)] if is_rewritten and missing > 0 else []


def _made(location: str, planned: TablePlan, written: Written) -> dict[str, str]:
    """Return the properties of a table that the next import needs."""
    left_out = str(len(planned.skipped) + len(written.skipped))
    # without a transaction, the table counts as changed and is rewritten
    again = {DELTACAT_TRANSACTION: ""} if written.may_come else {}
    return {DELTACAT_METADATA: location, DELTACAT_LEFT_OUT: left_out, **again}


# Inspect a DeltaCAT catalog at a time, with its transactions, without importing it.


@dataclass(frozen=True, slots=True)
class Told:
    """A transaction: its state, its end, if any, and its log. Times are nanoseconds since 1970."""

    id: str
    state: str
    began_at: int
    ended_at: int | None
    message: str | None
    operations: tuple[str, ...]
    problem: str | None = None


def look(adoption: Adoption, before: int) -> tuple[ImportResult, list[Told]]:
    """Return the result of an import into an empty catalog, which the adoption must use, and the transactions.
    Transactions are read first, because they define where URLs lead."""
    log = list(_transactions(adoption.source, before))
    done, _ = import_at(adoption, before, "")
    return done, log


def _transactions(source: Source, before: int) -> Iterator[Told]:
    """Yield the transactions that had begun by a time, in that order. A transaction that ended later was still running
    then."""
    query = "SELECT id, state, ended, path FROM txn WHERE began < ? ORDER BY began, id, path"
    for id, state, ended, path in source.index.ask(query, before):
        if state == "success" and ended >= before:
            state, ended = "running", None
        log = source.log(Ended(id, ended or 0, path))
        if isinstance(log, TransactionLog):
            types = tuple(operation.type for operation in log.operations)
            yield Told(id, state, began_at(id), ended or log.ended_at, log.message, types)
        else:
            yield Told(id, state, began_at(id), ended, None, (), log)
