from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_table
from olympia_cli.cli.options import InTxn, Message, RetryFor, parse_properties, parse_renames
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia table alter sales.orders --set owner=ann --unset draft",
    "olympia table alter sales.orders --metadata-location s3://lake/orders/metadata/00001.json",
    "olympia table alter sales.orders --add-column 'paid decimal(10, 2)' --rename-column ts=ordered_at",
]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_table)],
    set: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY=VALUE", help="Set a property in the catalog; may be given several times."),
    ] = None,
    unset: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Unset a property in the catalog; may be given several times."),
    ] = None,
    metadata_location: Annotated[
        str | None, typer.Option(metavar="URI", help="New metadata file; the present one becomes the previous one.")
    ] = None,
    add_column: Annotated[
        list[str] | None, typer.Option(metavar="COLUMN", help="Add a column, 'name type'; may be given several times.")
    ] = None,
    drop_column: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Drop a column; may be given several times.")
    ] = None,
    rename_column: Annotated[
        list[str] | None, typer.Option(metavar="OLD=NEW", help="Rename a column; may be given several times.")
    ] = None,
    set_iceberg: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE", help="Set a property in the table's metadata, for engines; may be given several times."
        ),
    ] = None,
    unset_iceberg: Annotated[
        list[str] | None,
        typer.Option(metavar="KEY", help="Unset a property in the table's metadata; may be given several times."),
    ] = None,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Change a table's properties, columns or metadata location.

    Properties are in two places. --set and --unset change those in the catalog, which are for people and this program.
    They do not read the table's metadata, nor does --metadata-location. --set-iceberg and --unset-iceberg change those
    in the table's own metadata, which engines follow, such as write.format.default. These options and those for columns
    write a new metadata file. `table show --schema` shows both kinds.
    """
    from olympia_cli.cli.iceberg_tables import say_other_place
    from olympia_cli.cli.options import check_metadata_location
    from olympia_cli.names import parse_table

    session, table, properties = Session(ctx), parse_table(name), parse_properties(set)
    inside, renames = parse_properties(set_iceberg), parse_renames(rename_column)
    if metadata_location is not None:
        check_metadata_location(metadata_location)
    if not (add_column or drop_column or renames or inside or unset_iceberg):
        change = session.change(
            lambda transaction: transaction.alter_table(table, properties, unset or (), metadata_location),
            table,
            txn=txn,
            message=message,
            retry_for=retry_for,
        )
        render.changed(session, change, f"altered table {table}")
        say_other_place(session, table, properties, unset or (), change, txn)
        return
    if metadata_location is not None:
        from olympia_cli.errors import InvalidOption

        raise InvalidOption(
            "--metadata-location replaces the metadata that the other options change", hint="run two commands"
        )
    from olympia_cli.cli.iceberg_tables import changed, iceberg_catalog

    with iceberg_catalog(session, table, txn=txn, message=message, retry_for=retry_for) as catalog:
        from olympia_cli.iceberg.columns import Alteration, alter, parse_column

        alter(
            catalog,
            table,
            Alteration(
                [parse_column(column) for column in add_column or ()],
                drop_column or (),
                renames,
                inside,
                unset_iceberg or (),
                properties,
                unset or (),
            ),
        )
        render.changed(session, changed(catalog, txn), f"altered table {table}")
