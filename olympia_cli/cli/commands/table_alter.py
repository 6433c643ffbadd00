from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli import render
from olympia_cli.cli.complete import complete_table
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import InTxn, Message, RetryFor, SetProperties, UnsetProperties, parse_properties

EXAMPLES = [
    "olympia table alter sales.orders --set owner=ann --unset draft",
    "olympia table alter sales.orders --metadata-location s3://lake/orders/metadata/00001.json",
]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_table)],
    set: SetProperties = None,
    unset: UnsetProperties = None,
    metadata_location: Annotated[
        str | None, typer.Option(metavar="URI", help="The new metadata; the present one becomes the previous one.")
    ] = None,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Change a table's properties or metadata location."""
    from olympia_cli.cli.params import check_metadata_location
    from olympia_cli.names import parse_table

    session, table, properties = Session(ctx), parse_table(name), parse_properties(set)
    if metadata_location is not None:
        check_metadata_location(metadata_location)
    done = session.change(
        lambda transaction: transaction.alter_table(table, properties, unset or (), metadata_location),
        table,
        txn=txn,
        message=message,
        retry_for=retry_for,
    )
    render.changed(session, done, f"altered table {table}")
