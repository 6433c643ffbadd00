"""What a DeltaCAT catalog holds at a time, and its transactions; nothing is brought."""

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
    """A transaction: how it ended, if it did, and what it says of itself. Times are in nanoseconds since 1970."""

    id: str
    state: str
    began_at: int
    ended_at: int | None
    message: str | None
    operations: tuple[str, ...]
    problem: str | None = None


def look(adoption: Adoption, before: int) -> tuple[Imported, list[Told]]:
    """What an import into an empty catalog does, which is what the adoption is to be about; and the transactions, which
    are read first: they say where urls lead."""
    log = list(_transactions(adoption.source, before))
    done, _ = import_at(adoption, before, "")
    return done, log


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
