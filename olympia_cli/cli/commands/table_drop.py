from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_table
from olympia_cli.cli.options import IfExists, InTxn, Message, RetryFor
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia table drop sales.scratch", "olympia table drop sales.scratch --if-exists -m 'tidy up'"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_table)],
    if_exists: IfExists = False,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Drop a table; its data stays.

    table restore brings it back from any kept version.
    """
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.errors import command_words
    from olympia_cli.names import parse_table

    session, table = Session(ctx), parse_table(name)

    def do(transaction: Transaction) -> None:
        if not if_exists or transaction.exists(table):
            transaction.drop_table(table)

    change = session.change(do, table, txn=txn, message=message, retry_for=retry_for, again=if_exists)
    render.changed(session, change, f"dropped table {table}")
    if session.is_tty and change.version is not None and change.actions:
        undo = command_words("table", "restore", "--at", f"v{change.version - 1}", names=[str(table)])
        session.say(f"to bring it back: {session.command(undo)}")
