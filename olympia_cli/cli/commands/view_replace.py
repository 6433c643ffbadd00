from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_view
from olympia_cli.cli.options import (
    DefaultNamespace,
    InTxn,
    Message,
    Plan,
    Properties,
    References,
    RetryFor,
    SchemaBinding,
    ViewSchema,
    make_view,
    parse_properties,
)
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia view replace sales.open_orders --plan open_orders_v2.binpb -m 'without returns'"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.V", help="The view.", autocompletion=complete_view)],
    plan: Plan,
    schema: ViewSchema = "",
    refers_to: References = None,
    default_namespace: DefaultNamespace = "",
    schema_binding: SchemaBinding = False,
    property: Properties = None,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Replace a view's definition.

    The whole definition is replaced, including properties; the view's id stays the same.
    """
    from olympia_cli.names import parse_view

    session, view = Session(ctx), parse_view(name)
    properties = parse_properties(property)
    definition = make_view(plan, schema, refers_to, default_namespace, schema_binding, properties)
    change = session.change(
        lambda transaction: transaction.replace_view(view, definition),
        view,
        txn=txn,
        message=message,
        retry_for=retry_for,
    )
    render.changed(session, change, f"replaced view {view}")
