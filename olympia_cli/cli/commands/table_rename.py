from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_new_in_namespace, complete_table
from olympia_cli.cli.options import InTxn, Message, RetryFor
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia table rename sales.orders sales.orders_2025", "olympia table rename sales.tmp archive.tmp"]


def run(
    ctx: typer.Context,
    old: Annotated[str, typer.Argument(metavar="OLD", help="The table.", autocompletion=complete_table)],
    new: Annotated[str, typer.Argument(metavar="NEW", help="The new name.", autocompletion=complete_new_in_namespace)],
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Rename a table.

    Both are full names, so a table can move to another namespace. Its id and its definition stay the same.
    """
    from olympia_cli.names import NamespaceName, parse_table

    session, source, target = Session(ctx), parse_table(old), parse_table(new)
    change = session.change(
        lambda transaction: transaction.rename_table(source, target),
        source,
        NamespaceName(target.namespace),
        target,
        txn=txn,
        message=message,
        retry_for=retry_for,
    )
    render.changed(session, change, f"renamed table {source} to {target}")
