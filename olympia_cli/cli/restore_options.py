"""What the commands share that bring back tables and views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli import render
from olympia_cli.cli.complete import complete_reference
from olympia_cli.cli.context import Session

if TYPE_CHECKING:
    from olympia_cli.names import TableName, ViewName

FromVersion = Annotated[
    str,
    typer.Option("--at", "--from", metavar="REF", help="The version that has it.", autocompletion=complete_reference),
]


def restore(
    session: Session, name: TableName | ViewName, at: str, txn: str | None, message: str, retry_for: str
) -> None:
    """Bring back a table or view as a version has it, and say so."""
    from olympia_cli.catalog.snapshot import not_found
    from olympia_cli.errors import NamespaceNotFound, command_words

    source = session.snapshot(at)
    former = source.get(name)
    if former is None:
        raise not_found(name, source.version)
    try:
        change = session.change(
            lambda transaction: transaction.restore(former, source.version),
            txn=txn,
            message=message,
            retry_for=retry_for,
        )
    except NamespaceNotFound as error:
        within = ["--txn", txn] if txn is not None else []
        error.version, error.advice = None, "bring it back with all that was in it"
        error.command = command_words("ns", "restore", "--at", f"v{source.version}", *within, names=[name.namespace])
        raise
    render.changed(session, change, f"restored {name.kind.word} {name} from v{source.version}")
