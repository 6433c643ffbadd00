"""Run an import: one commit for a whole catalog, or one per transaction.

The same commit sets a property of this catalog: the time of the source up to which everything was imported. So an
interrupted history continues where it stopped.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from olympia_cli.errors import InvalidOption
from olympia_cli.importers.deltacat.adoption import Adoption
from olympia_cli.importers.deltacat.bodies import Namespace, Table, TransactionLog
from olympia_cli.importers.deltacat.index import Ended
from olympia_cli.importers.deltacat.layout import KINDS
from olympia_cli.importers.deltacat.source import Found, Source, SourceTable
from olympia_cli.importers.deltacat.staging import Key
from olympia_cli.importers.iceberg import Imported, LeftOut
from olympia_cli.importers.olympia import ImportNote, check_into, read_note
from olympia_cli.names import Kind, time_text


def import_at(adoption: Adoption, before: int, message: str) -> tuple[Imported, int]:
    """Import the catalog as it is at a time, in one commit. Return the result, and the version."""
    left_out: list[LeftOut] = []
    adoption.begin(before)
    _check_note(adoption, before)
    adoption.take(_readable(adoption.source, before, left_out), adoption.dropped(before))
    version = _commit(adoption, before, message)
    return _told(adoption, left_out), version


def _readable(source: Source, before: int, left_out: list[LeftOut]) -> Iterator[Namespace | SourceTable]:
    for found in source.tables(before):
        if isinstance(found, Found):
            left_out.append(unread(found))
        else:
            yield found


def unread(found: Found) -> LeftOut:
    """Return an unreadable object, with the reason."""
    return LeftOut(f"{KINDS[len(found.row.object) - 1]} {found.row.object[-1]}", f"{found.row.path}: {found.body}")


def import_history(adoption: Adoption, before: int, message: str) -> tuple[Imported, int]:
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
    unread: dict[tuple[str, ...], LeftOut] = field(default_factory=dict)

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


def _told(adoption: Adoption, left_out: list[LeftOut]) -> Imported:
    adoption.done.created, adoption.done.moved_on = [*adoption.created.values()], [*adoption.moved_on.values()]
    adoption.done.left_out = [*left_out, *(one for told in adoption.told.values() for one in told)]
    return adoption.done
