"""What a DeltaCAT catalog holds at a time, and its transactions; nothing is brought."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import cast

from olympia_cli.importers.deltacat.bodies import Namespace, TransactionLog
from olympia_cli.importers.deltacat.contents import Unreadable, contents
from olympia_cli.importers.deltacat.importing import unread
from olympia_cli.importers.deltacat.index import Ended
from olympia_cli.importers.deltacat.layout import began_at
from olympia_cli.importers.deltacat.schemas import Unfit, table_schema
from olympia_cli.importers.deltacat.source import Found, Source, SourceTable
from olympia_cli.importers.iceberg import FoundTable, Imported, LeftOut
from olympia_cli.importers.renaming import Renaming
from olympia_cli.names import Kind, ObjectName, TableName, as_found


@dataclass(frozen=True, slots=True)
class Told:
    """A transaction: how it ended, if it did, and what it says of itself. Times are in nanoseconds since 1970."""

    id: str
    state: str
    began_at: int
    ended_at: int | None
    message: str | None
    operations: tuple[str, ...]
    problem: str | None = None


def look(source: Source, before: int, renaming: Renaming) -> tuple[Imported, list[Told]]:
    """What an import would find, by the metadata alone, and what it would call it; and the transactions, which are read
    first: they say where urls lead."""
    done, log = Imported(), list(_transactions(source, before))
    for found in source.tables(before):
        if isinstance(found, Found):
            done.left_out.append(unread(found))
        elif isinstance(found, Namespace):
            done.namespaces += 1
            _rename(done, renaming, as_found(Kind.NAMESPACE, found.name))
        else:
            _table(source, found, renaming, done)
    return done, log


def _table(source: Source, table: SourceTable, renaming: Renaming, done: Imported) -> None:
    try:
        held = contents(source, table)
        table_schema(held.version)
    except (Unreadable, Unfit) as error:
        done.left_out.append(LeftOut(f"table {table.name}", str(error)))
        return
    name = cast(TableName, renaming.name(table.name))
    rows = [file.rows for file in held.files if file.size is not None]
    total = None if None in rows else sum(count or 0 for count in rows)
    done.created.append(FoundTable(name, str(table.name), "", frozenset(), len(rows), total, held.skipped))
    _rename(done, renaming, table.name)


def _rename(done: Imported, renaming: Renaming, named: ObjectName) -> None:
    if (former := renaming.former(named)) is not None:
        done.renamed.append((former, str(renaming.name(named))))


def _transactions(source: Source, before: int) -> Iterator[Told]:
    """The transactions that had begun by a time, in that order. One that ended later was still running then."""
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
