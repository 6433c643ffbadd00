from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_none
from olympia_cli.cli.options import IfNotExists, InTxn, Message, Properties, RetryFor, parse_properties
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia ns create sales", "olympia ns create sales --property owner=ann -m 'new team'"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The namespace.", autocompletion=complete_none)],
    property: Properties = None,
    if_not_exists: IfNotExists = False,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Create a namespace."""
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.names import NamespaceName

    session, namespace, properties = Session(ctx), NamespaceName(name), parse_properties(property)

    def do(transaction: Transaction) -> None:
        if not (if_not_exists and transaction.exists(namespace)):
            transaction.create_namespace(namespace, properties)

    change = session.change(do, namespace, txn=txn, message=message, retry_for=retry_for, again=if_not_exists)
    render.changed(session, change, f"created namespace {name}")
