"""Inspect a DeltaCAT catalog at a time, with its transactions, without importing it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from olympia_cli.importers.deltacat.adoption import Adoption
from olympia_cli.importers.deltacat.bodies import TransactionLog
from olympia_cli.importers.deltacat.importing import import_at
from olympia_cli.importers.deltacat.index import Ended
from olympia_cli.importers.deltacat.layout import began_at
from olympia_cli.importers.deltacat.source import Source
from olympia_cli.importers.iceberg import Imported


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


def look(adoption: Adoption, before: int) -> tuple[Imported, list[Told]]:
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
