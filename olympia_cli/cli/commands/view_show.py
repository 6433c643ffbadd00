from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_view
from olympia_cli.cli.options import At, InTxn
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia view show sales.open_orders", "olympia view show sales.open_orders --at v12 --json"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.V", help="The view.", autocompletion=complete_view)],
    at: At = None,
    txn: InTxn = None,
) -> None:
    """Show a view."""
    session = Session(ctx)
    name_of_view = session.view_name(name)
    view = session.view(at, txn, name_of_view)
    from olympia_cli.ops.inspect import describe_object

    render.record(session, describe_object(view.view(name_of_view), view.version), name=str(name_of_view))
