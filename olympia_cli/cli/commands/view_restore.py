from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_view
from olympia_cli.cli.options import InTxn, Message, RetryFor
from olympia_cli.cli.restore_options import FromVersion, restore
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia view restore sales.open_orders --at v12",
    "olympia view restore sales.open_orders --at yesterday -m 'dropped by mistake'",
]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.V", help="The view.", autocompletion=complete_view)],
    at: FromVersion,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Bring back a dropped or older view.

    The view comes back as it is in that version, with its id. Its namespace must exist: see ns restore.
    """
    from olympia_cli.names import parse_view

    restore(Session(ctx), parse_view(name), at, txn, message, retry_for)
