"""The commands of tables. `table files` is in a module of its own."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli.commands import objects
from olympia_cli.cli.commands.objects import TABLES
from olympia_cli.cli.options import (
    At,
    IfNotExists,
    InTxn,
    Message,
    Properties,
    RetryFor,
    check_metadata_location,
    parse_properties,
    parse_renames,
)
from olympia_cli.cli.output import render
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Changed, Session
from olympia_cli.errors import Damaged, InvalidOption, TableNotFound
from olympia_cli.names import NamespaceName, full_name, parse_table, plural
from olympia_cli.ops import inspect

if TYPE_CHECKING:
    from olympia_cli.catalog.transaction import Transaction

EXAMPLES = {
    "create": [
        "olympia table create sales.orders --schema 'id long not null, name string, ts timestamptz'",
        "olympia table create sales.orders --schema @orders.json --partition-by 'day(ts)' --sort-by 'ts desc'",
    ],
    "register": [
        "olympia table register sales.orders --metadata-location s3://lake/orders/metadata/00000.json",
        "olympia table register '\"a.b\".t' --metadata-location s3://lake/t/metadata/00003.json",
    ],
    "ls": [
        "olympia table ls",
        "olympia table ls sales --at 2026-11-15",
        "olympia table ls sales -o name",
        "olympia table ls -o wide",
    ],
    "show": [
        "olympia table show sales.orders",
        "olympia table show sales.orders --schema",
        "olympia table show sales.orders --at v12 --json",
    ],
    "alter": [
        "olympia table alter sales.orders --set owner=ann --unset draft",
        "olympia table alter sales.orders --metadata-location s3://lake/orders/metadata/00001.json",
        "olympia table alter sales.orders --add-column 'paid decimal(10, 2)' --rename-column ts=ordered_at",
    ],
    "rename": ["olympia table rename sales.orders sales.orders_2025", "olympia table rename sales.tmp archive.tmp"],
    "drop": ["olympia table drop sales.scratch", "olympia table drop sales.scratch --if-exists -m 'tidy up'"],
    "restore": [
        "olympia table restore sales.orders --at v12",
        "olympia table restore sales.orders --at 2h -m 'dropped by mistake'",
    ],
    "history": ["olympia table history sales.orders", "olympia table history sales.orders --json"],
    "append": [
        "olympia table append sales.orders monday.parquet tuesday.parquet",
        "olympia table append sales.orders orders.csv -m 'smoke test'",
    ],
    "head": [
        "olympia table head sales.orders",
        "olympia table head sales.orders -n 100 --at 2d -o csv",
    ],
}

Table = Annotated[str, typer.Argument(metavar="NS.T", help="The table.")]


def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.")],
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

    session, table, properties = Session(ctx), parse_table(name), parse_properties(property)
    with iceberg_catalog(session, txn=txn, message=message, retry_for=retry_for) as catalog:
        from olympia_cli.iceberg import parse_schema, partition_spec, read_schema_text, sort_order

        columns = parse_schema(read_schema_text(schema))
        spec, order = partition_spec(partition_by or (), columns), sort_order(sort_by or (), columns)
        create_table = catalog.create_table_if_not_exists if if_not_exists else catalog.create_table
        create_table((table.namespace, table.name), columns, location, spec, order, properties)
        if catalog.last_version is None and txn is None:
            # the table existed already
            catalog.last_version = catalog.version
        render.changed(session, changed(catalog, txn), f"created table {table}")


def register(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.")],
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
    session, table = Session(ctx), parse_table(name)
    namespace, properties = NamespaceName(table.namespace), parse_properties(property)
    check_metadata_location(metadata_location)
    if verify:
        from olympia_cli.iceberg import verify_metadata

        verify_metadata(metadata_location, session.options_for(metadata_location))

    def do(transaction: Transaction) -> None:
        if not (if_not_exists and transaction.exists(table)):
            transaction.create_table(table, metadata_location, properties)

    change = session.change(do, namespace, table, txn=txn, message=message, retry_for=retry_for, again=if_not_exists)
    render.changed(session, change, f"registered table {table}")


ls = objects.list_command(
    TABLES,
    """List tables.

    -o wide also shows id, age, last version and metadata location.
    """,
)


def show(
    ctx: typer.Context,
    name: Table,
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

    entry = view.table(table)
    description = inspect.describe_object(entry, view.version)
    if not schema:
        render.record(session, description, name=str(table))
        return
    from olympia_cli.cli.output.files import print_table, read_description

    metadata = read_description(session, entry.definition.iceberg_metadata_location, str(table))
    print_table(session, description, metadata, str(table))


def alter(
    ctx: typer.Context,
    name: Table,
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
    from olympia_cli.cli.iceberg_tables import changed, iceberg_catalog, say_other_place

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
        raise InvalidOption(
            "--metadata-location replaces the metadata that the other options change", hint="run two commands"
        )
    with iceberg_catalog(session, table, txn=txn, message=message, retry_for=retry_for) as catalog:
        from olympia_cli.iceberg import Alteration, alter, parse_column

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


rename = objects.rename_command(
    TABLES,
    """Rename a table.

    Both are full names, so a table can move to another namespace. Its id and its definition stay the same.
    """,
)

drop = objects.drop_command(
    TABLES,
    """Drop a table; its data stays.

    table restore brings it back from any kept version.
    """,
)

restore = objects.restore_command(
    TABLES,
    """Bring back a dropped or older table.

    The table comes back as it is in that version, with its id. Its namespace must exist: see ns restore.
    """,
)


def history(ctx: typer.Context, name: Table, at: At = None) -> None:
    """Show all revisions of a table, through renames.

    The table is followed by its id, newest revision first. The history of a dropped table begins with the drop. On a
    terminal, long names of metadata files are shortened; -o wide shows them in full.
    """
    from olympia_cli.cli.output.log import age, short_location

    session = Session(ctx)
    table = session.table_name(name)
    snapshot = session.snapshot(at, table)
    now = session.catalog.clock.now_millis()
    unread: dict[int, Damaged] = {}
    revisions = list(inspect.history(snapshot, table, unread=unread.__setitem__))
    if not revisions and unread:
        raise unread[max(unread)]
    for version, damaged in unread.items():
        session.say(f"warning: v{version} cannot be read, so the next one shows its changes: {damaged.message}")
    if not revisions:
        raise TableNotFound(
            f"there has been no table {table} in the versions up to {snapshot.version}",
            hint="list the tables to see what there is",
        )

    def rows() -> list[dict[str, object]]:
        table_rows = []
        for revision in revisions:
            values = revision.describe()
            location = values.get("metadata_location") or ""
            table_rows.append(
                {
                    **values,
                    "v": f"v{values['version']}",
                    "age": age(revision.entry.created_at_millis or 0, now),
                    "table": full_name(values["namespace"], values["name"]),
                    "metadata": short_location(location),
                    "changed": ", ".join(_shown_fields(values["fields"], session.is_tty)),
                }
            )
        return table_rows

    if session.output.value in ("json", "jsonl"):
        values = [revision.describe() for revision in revisions]
        render.records(session, "revisions", [], values, head={"version": snapshot.version})
        return
    columns = [
        Column("v", "VERSION"),
        Column("created_at", "TIME"),
        Column("change", "CHANGE"),
        Column("table", "TABLE"),
        Column("metadata", "METADATA", place=True),
        Column("changed", "CHANGED"),
        Column("by", "BY"),
        Column("message", "MESSAGE", wide=True),
        Column("definition", "DEFINITION", wide=True),
    ]
    if session.is_tty:
        # for people only: programs compare lines, and an age changes with time
        columns.insert(2, Column("age", "AGE", right=True))
    render.records(session, "revisions", columns, rows(), name=lambda row: str(row["v"]), title="revisions")


def _shown_fields(fields: Iterable[str], for_people: bool) -> list[str]:
    """Return the fields that changed. People get the word `metadata`: its location is in another column."""
    if not for_people:
        return list(fields)
    names = (name.removeprefix("properties.") for name in fields if name != "iceberg_previous_metadata_location")
    return ["metadata" if name == "iceberg_metadata_location" else name for name in names]


def append(
    ctx: typer.Context,
    name: Table,
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

    session, table = Session(ctx), parse_table(name)
    with iceberg_catalog(session, table, txn=txn, message=message, retry_for=retry_for) as catalog:
        from olympia_cli.iceberg import read_files

        target = catalog.load_table((table.namespace, table.name))
        rows = read_files(files, target)
        if rows.num_rows:
            target.append(rows)
        change = changed(catalog, txn) if rows.num_rows else Changed(catalog.version, txn, ())
        render.changed(session, change, f"appended {plural(rows.num_rows, 'row')} to table {table}", rows=rows.num_rows)


def head(
    ctx: typer.Context,
    name: Table,
    count: Annotated[int, typer.Option("-n", "--rows", metavar="N", min=1, max=1_000_000, help="Number of rows.")] = 10,
    at: At = None,
    txn: InTxn = None,
) -> None:
    """Show some rows of a table.

    They may be any rows, because a table has no order. Bytes are shown in base64, times as in RFC 3339.
    """
    from olympia_cli.cli.iceberg_tables import iceberg_catalog

    session, table = Session(ctx), parse_table(name)
    with iceberg_catalog(session, table, at=at, txn=txn) as catalog:
        from olympia_cli.iceberg import first_rows

        iceberg_table = catalog.load_table((table.namespace, table.name))
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
