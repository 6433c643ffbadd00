from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_namespace
from olympia_cli.cli.options import InTxn, Message, RetryFor, SetProperties, UnsetProperties, parse_properties
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia ns alter sales --set owner=bob", "olympia ns alter sales --set tier=gold --unset region"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The namespace.", autocompletion=complete_namespace)],
    set: SetProperties = None,
    unset: UnsetProperties = None,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Set and unset properties of a namespace."""
    from olympia_cli.names import NamespaceName

    session, namespace, properties = Session(ctx), NamespaceName(name), parse_properties(set)
    change = session.change(
        lambda transaction: transaction.alter_namespace(namespace, properties, unset or ()),
        namespace,
        txn=txn,
        message=message,
        retry_for=retry_for,
    )
    render.changed(session, change, f"altered namespace {name}")
