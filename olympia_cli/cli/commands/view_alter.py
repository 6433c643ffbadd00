from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_view
from olympia_cli.cli.options import InTxn, Message, RetryFor, SetProperties, UnsetProperties, parse_properties
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia view alter sales.open_orders --set owner=ann --unset draft"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.V", help="The view.", autocompletion=complete_view)],
    set: SetProperties = None,
    unset: UnsetProperties = None,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Set and unset properties of a view."""
    from olympia_cli.names import parse_view

    session, view, properties = Session(ctx), parse_view(name), parse_properties(set)
    change = session.change(
        lambda transaction: transaction.alter_view(view, properties, unset or ()),
        view,
        txn=txn,
        message=message,
        retry_for=retry_for,
    )
    render.changed(session, change, f"altered view {view}")
