"""Option and function of the commands that restore tables and views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli.completion import complete_reference
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

if TYPE_CHECKING:
    from olympia_cli.names import TableName, ViewName

FromVersion = Annotated[
    str,
    typer.Option("--at", "--from", metavar="REF", help="Version to restore from.", autocompletion=complete_reference),
]


def restore(
    session: Session, name: TableName | ViewName, at: str, txn: str | None, message: str, retry_for: str
) -> None:
    """Restore a table or view as it is in a version, and print the result."""
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
        error.version, error.advice = None, "restore it with its tables and views"
        error.command = command_words("ns", "restore", "--at", f"v{source.version}", *within, names=[name.namespace])
        raise
    render.changed(session, change, f"restored {name.kind.word} {name} from v{source.version}")
