from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_table
from olympia_cli.cli.options import At, InTxn
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia table show sales.orders",
    "olympia table show sales.orders --schema",
    "olympia table show sales.orders --at v12 --json",
]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_table)],
    schema: Annotated[
        bool,
        typer.Option("--schema", help="Also read the table's metadata: fields, partitioning, sort order, snapshots."),
    ] = False,
    at: At = None,
    txn: InTxn = None,
) -> None:
    """Show a table.

    Shows the table's entry in the catalog. The table's own files are read only with --schema.
    """
    session = Session(ctx)
    table = session.table_name(name)
    view = session.view(at, txn, table)
    from olympia_cli.ops.inspect import describe_object

    entry = view.table(table)
    description = describe_object(entry, view.version)
    if not schema:
        render.record(session, description, name=str(table))
        return
    from olympia_cli.cli.output.files import print_table, read_description

    metadata = read_description(session, entry.definition.iceberg_metadata_location, str(table))
    print_table(session, description, metadata, str(table))
