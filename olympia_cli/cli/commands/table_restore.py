from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_table
from olympia_cli.cli.options import InTxn, Message, RetryFor
from olympia_cli.cli.restore_options import FromVersion, restore
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia table restore sales.orders --at v12",
    "olympia table restore sales.orders --at 2h -m 'dropped by mistake'",
]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_table)],
    at: FromVersion,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Bring back a dropped or older table.

    The table comes back as it is in that version, with its id. Its namespace must exist: see ns restore.
    """
    from olympia_cli.names import parse_table

    restore(Session(ctx), parse_table(name), at, txn, message, retry_for)
