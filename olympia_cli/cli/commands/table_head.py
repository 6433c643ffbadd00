from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_table
from olympia_cli.cli.options import At, InTxn
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia table head sales.orders",
    "olympia table head sales.orders -n 100 --at 2d -o csv",
]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_table)],
    count: Annotated[int, typer.Option("-n", "--rows", metavar="N", min=1, max=1_000_000, help="Number of rows.")] = 10,
    at: At = None,
    txn: InTxn = None,
) -> None:
    """Show some rows of a table.

    They may be any rows, because a table has no order. Bytes are shown in base64, times as in RFC 3339.
    """
    from olympia_cli.cli.iceberg_tables import iceberg_catalog
    from olympia_cli.cli.output.render import Column
    from olympia_cli.names import parse_table

    session, table = Session(ctx), parse_table(name)
    with iceberg_catalog(session, table, at=at, txn=txn) as catalog:
        from olympia_cli.iceberg.conversion import identifier_of
        from olympia_cli.iceberg.rows import first_rows

        iceberg_table = catalog.load_table(identifier_of(table))
        columns = [Column(field.name, field.name) for field in iceberg_table.schema().fields]
        rows = list(first_rows(iceberg_table, count))
        render.records(
            session,
            "rows",
            columns,
            rows,
            head={"version": catalog.version},
            name=lambda row: str(next(iter(row.values()), "")),
            title="rows",
        )
