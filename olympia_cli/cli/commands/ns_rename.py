from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_namespace, complete_none
from olympia_cli.cli.options import InTxn, Message, RetryFor
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia ns rename sales revenue"]


def run(
    ctx: typer.Context,
    old: Annotated[str, typer.Argument(help="The namespace.", autocompletion=complete_namespace)],
    new: Annotated[str, typer.Argument(help="The new name.", autocompletion=complete_none)],
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Rename a namespace with its tables and views.

    Ids and definitions stay the same. It is one commit, however many tables move.
    """
    from olympia_cli.names import NamespaceName

    session, source, target = Session(ctx), NamespaceName(old), NamespaceName(new)
    change = session.change(
        lambda transaction: transaction.rename_namespace(source, target),
        source,
        target,
        txn=txn,
        message=message,
        retry_for=retry_for,
    )
    render.changed(session, change, f"renamed namespace {old} to {new}")
