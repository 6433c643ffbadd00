from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.options import Message, RetryFor, SetProperties, UnsetProperties, parse_properties
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia catalog alter --set olympia.retention.max-version-age=30d",
    "olympia catalog alter --txn-ttl 1d --isolation serializable",
]


def run(
    ctx: typer.Context,
    set: SetProperties = None,
    unset: UnsetProperties = None,
    txn_ttl: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Lifetime of transactions, from the next one on.")
    ] = None,
    isolation: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Isolation of transactions: snapshot or serializable.")
    ] = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Change the catalog's properties, lifetime or isolation."""
    from olympia_cli.cli.options import parse_isolation
    from olympia_cli.names import parse_duration

    session, properties = Session(ctx), parse_properties(set)
    change = session.change(
        lambda transaction: transaction.alter_catalog(
            properties,
            unset or (),
            txn_ttl_millis=None if txn_ttl is None else parse_duration(txn_ttl),
            isolation=None if isolation is None else parse_isolation(isolation),
        ),
        message=message,
        retry_for=retry_for,
    )
    render.changed(session, change, "altered the catalog")
