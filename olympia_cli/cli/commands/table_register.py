from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_new_in_namespace
from olympia_cli.cli.options import IfNotExists, InTxn, Message, Properties, RetryFor, parse_properties
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia table register sales.orders --metadata-location s3://lake/orders/metadata/00000.json",
    "olympia table register '\"a.b\".t' --metadata-location s3://lake/t/metadata/00003.json",
]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_new_in_namespace)],
    metadata_location: Annotated[str, typer.Option(metavar="URI", help="Location of the table's Iceberg metadata.")],
    verify: Annotated[
        bool, typer.Option("--verify", help="Read the file, and refuse it if it is not metadata.")
    ] = False,
    property: Properties = None,
    if_not_exists: IfNotExists = False,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Register an Iceberg table by its metadata location.

    The location is stored without reading the file, unless --verify is given.
    """
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.cli.options import check_metadata_location
    from olympia_cli.names import NamespaceName, parse_table

    session, table, properties = Session(ctx), parse_table(name), parse_properties(property)
    check_metadata_location(metadata_location)
    if verify:
        from olympia_cli.iceberg.manifests import verify_metadata

        verify_metadata(metadata_location, session.options_for(metadata_location))

    def do(transaction: Transaction) -> None:
        if not (if_not_exists and transaction.exists(table)):
            transaction.create_table(table, metadata_location, properties)

    change = session.change(
        do, NamespaceName(table.namespace), table, txn=txn, message=message, retry_for=retry_for, again=if_not_exists
    )
    render.changed(session, change, f"registered table {table}")
