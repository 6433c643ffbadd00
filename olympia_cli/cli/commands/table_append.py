from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_table
from olympia_cli.cli.options import InTxn, Message, RetryFor
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Changed, Session

EXAMPLES = [
    "olympia table append sales.orders monday.parquet tuesday.parquet",
    "olympia table append sales.orders orders.csv -m 'smoke test'",
]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_table)],
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Parquet files, or CSV files with a header line.")
    ],
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Append the rows of files to a table.

    For small loads and smoke tests: all rows are held in memory, and are one commit. Columns are matched by name; a
    column that a file lacks is empty. Use an engine for large loads.
    """
    from olympia_cli.cli.iceberg_tables import changed, iceberg_catalog
    from olympia_cli.names import parse_table, plural

    session, table = Session(ctx), parse_table(name)
    with iceberg_catalog(session, table, txn=txn, message=message, retry_for=retry_for) as catalog:
        from olympia_cli.iceberg.conversion import identifier_of
        from olympia_cli.iceberg.rows import read_files

        target = catalog.load_table(identifier_of(table))
        rows = read_files(files, target)
        if rows.num_rows:
            target.append(rows)
        change = changed(catalog, txn) if rows.num_rows else Changed(catalog.version, txn, ())
        render.changed(session, change, f"appended {plural(rows.num_rows, 'row')} to table {table}", rows=rows.num_rows)
