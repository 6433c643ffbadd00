from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_new_in_namespace
from olympia_cli.cli.options import (
    DefaultNamespace,
    IfNotExists,
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

EXAMPLES = [
    "olympia view create sales.open --plan open.binpb --schema 'id long, name string' --refers-to sales.orders",
]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.V", help="The view.", autocompletion=complete_new_in_namespace)],
    plan: Plan,
    schema: ViewSchema = "",
    refers_to: References = None,
    default_namespace: DefaultNamespace = "",
    schema_binding: SchemaBinding = False,
    property: Properties = None,
    if_not_exists: IfNotExists = False,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Create a view.

    The plan is a serialized Substrait ReadRel, and is stored unchanged.
    """
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.names import NamespaceName, parse_view

    session, view = Session(ctx), parse_view(name)
    properties = parse_properties(property)
    definition = make_view(plan, schema, refers_to, default_namespace, schema_binding, properties)

    def do(transaction: Transaction) -> None:
        if not (if_not_exists and transaction.exists(view)):
            transaction.create_view(view, definition)

    change = session.change(
        do, NamespaceName(view.namespace), view, txn=txn, message=message, retry_for=retry_for, again=if_not_exists
    )
    render.changed(session, change, f"created view {view}")
