from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_table
from olympia_cli.cli.options import At
from olympia_cli.cli.output import render
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia table history sales.orders", "olympia table history sales.orders --json"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.T", help="The table.", autocompletion=complete_table)],
    at: At = None,
) -> None:
    """Show all revisions of a table, through renames.

    The table is followed by its id, newest revision first. The history of a dropped table begins with the drop. On a
    terminal, long names of metadata files are shortened; -o wide shows them in full.
    """
    from olympia_cli.cli.output.log import age, short_location
    from olympia_cli.errors import Damaged, TableNotFound
    from olympia_cli.names import full_name
    from olympia_cli.ops.inspect import describe_revision, history

    session = Session(ctx)
    table = session.table_name(name)
    snapshot = session.snapshot(at, table)
    now = session.catalog.clock.now_millis()
    unread: dict[int, Damaged] = {}
    revisions = list(history(snapshot, table, unread=unread.__setitem__))
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
            values = describe_revision(revision)
            location = values.get("metadata_location") or ""
            table_rows.append(
                {
                    **values,
                    "v": f"v{values['version']}",
                    "age": age(revision.entry.created_at_millis or 0, now),
                    "table": full_name(values["namespace"], values["name"]),
                    "metadata": short_location(location),
                    "changed": ", ".join(_changed(values["fields"], session.is_tty)),
                }
            )
        return table_rows

    if session.output.value in ("json", "jsonl"):
        values = [describe_revision(revision) for revision in revisions]
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


def _changed(fields: Iterable[str], for_people: bool) -> list[str]:
    """Return the fields that changed. People get the word `metadata`: its location is in another column."""
    if not for_people:
        return list(fields)
    names = (name.removeprefix("properties.") for name in fields if name != "iceberg_previous_metadata_location")
    return ["metadata" if name == "iceberg_metadata_location" else name for name in names]
