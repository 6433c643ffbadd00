from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_new_in_namespace
from olympia_cli.cli.options import IfNotExists, InTxn, Message, Properties, RetryFor, parse_properties
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia table create sales.orders --schema 'id long not null, name string, ts timestamptz'",
    "olympia table create sales.orders --schema @orders.json --partition-by 'day(ts)' --sort-by 'ts desc'",
]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_new_in_namespace)],
    schema: Annotated[
        str,
        typer.Option(
            metavar="COLUMNS", help="Columns, such as 'id long not null, name string'; @FILE for a file with them."
        ),
    ],
    partition_by: Annotated[
        list[str] | None,
        typer.Option(metavar="TERM", help="A column, day(COLUMN), bucket(16, COLUMN), …; may be given several times."),
    ] = None,
    sort_by: Annotated[
        list[str] | None,
        typer.Option(metavar="TERM", help="A term as above, then asc or desc; may be given several times."),
    ] = None,
    location: Annotated[
        str | None, typer.Option(metavar="URI", help="Location of its files; a new folder if not given.")
    ] = None,
    property: Properties = None,
    if_not_exists: IfNotExists = False,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Create an Iceberg table.

    Types are Iceberg's: boolean, int, long, float, double, decimal(10, 2), date, time, timestamp, timestamptz, string,
    uuid, fixed(16), binary, list<string>, map<string, long>, struct<lat: double, lon: double>. A file may also hold a
    schema as Iceberg's JSON. Properties go into the table's own metadata; format-version is one of them.
    """
    from olympia_cli.cli.iceberg_tables import changed, iceberg_catalog
    from olympia_cli.names import parse_table

    session, table, properties = Session(ctx), parse_table(name), parse_properties(property)
    with iceberg_catalog(session, txn=txn, message=message, retry_for=retry_for) as catalog:
        from olympia_cli.iceberg.columns import parse_schema, partition_spec, read_schema_text, sort_order
        from olympia_cli.iceberg.conversion import identifier_of

        columns = parse_schema(read_schema_text(schema))
        spec, order = partition_spec(partition_by or (), columns), sort_order(sort_by or (), columns)
        create = catalog.create_table_if_not_exists if if_not_exists else catalog.create_table
        create(identifier_of(table), columns, location, spec, order, properties)
        if catalog.last_version is None and txn is None:
            # the table existed already
            catalog.last_version = catalog.version
        render.changed(session, changed(catalog, txn), f"created table {table}")
