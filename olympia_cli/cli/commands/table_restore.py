from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli import render
from olympia_cli.cli.complete import complete_reference, complete_table
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import InTxn, Message, RetryFor

EXAMPLES = [
    "olympia table restore sales.orders --at v12",
    "olympia table restore sales.orders --at 2h -m 'dropped by mistake'",
]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_table)],
    at: Annotated[
        str,
        typer.Option(
            "--at", "--from", metavar="REF", help="The version that has it.", autocompletion=complete_reference
        ),
    ],
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Bring back a dropped or older table.

    It comes back as that version has it, with its id. Its namespace must exist.
    """
    from olympia_cli.names import parse_table

    session, table = Session(ctx), parse_table(name)
    source = session.snapshot(at)
    found = source.table(table)
    done = session.change(
        lambda transaction: transaction.restore(found, source.version), txn=txn, message=message, retry_for=retry_for
    )
    render.changed(session, done, f"restored table {table} from v{source.version}")
