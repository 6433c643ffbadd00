from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_new_in_namespace, complete_view
from olympia_cli.cli.options import InTxn, Message, RetryFor
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia view rename sales.open_orders sales.open_2025", "olympia view rename sales.tmp archive.tmp"]


def run(
    ctx: typer.Context,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The view.", autocompletion=complete_view)],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.", autocompletion=complete_new_in_namespace)],
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Rename a view.

    Both are full names, so a view can move to another namespace. Its id and its definition stay the same.
    """
    from olympia_cli.names import NamespaceName, parse_view

    session, source, target = Session(ctx), parse_view(old), parse_view(new)
    change = session.change(
        lambda transaction: transaction.rename_view(source, target),
        source,
        NamespaceName(target.namespace),
        target,
        txn=txn,
        message=message,
        retry_for=retry_for,
    )
    render.changed(session, change, f"renamed view {source} to {target}")
