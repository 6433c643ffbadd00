from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_view
from olympia_cli.cli.options import IfExists, InTxn, Message, RetryFor
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia view drop sales.scratch", "olympia view drop sales.scratch --if-exists -m 'tidy up'"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.V", help="The view.", autocompletion=complete_view)],
    if_exists: IfExists = False,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Drop a view."""
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.names import parse_view

    session, view = Session(ctx), parse_view(name)

    def do(transaction: Transaction) -> None:
        if not if_exists or transaction.exists(view):
            transaction.drop_view(view)

    change = session.change(do, view, txn=txn, message=message, retry_for=retry_for, again=if_exists)
    render.changed(session, change, f"dropped view {view}")
