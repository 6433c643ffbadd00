from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli import render
from olympia_cli.cli.complete import complete_table
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import At, InTxn

EXAMPLES = ["olympia table show sales.orders", "olympia table show sales.orders --at v12 --json"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_table)],
    at: At = None,
    txn: InTxn = None,
) -> None:
    """Show a table."""
    session = Session(ctx)
    table = session.table_name(name)
    view = session.view(at, txn, table)
    from olympia_cli.ops.look.describe import describe_object

    render.record(session, describe_object(view.table(table), view.version), name=str(table))
