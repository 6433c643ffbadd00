from __future__ import annotations

import typer

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.render import Column

EXAMPLES = ["olympia export ls", "olympia export ls --json | jq '.exports[] | select(.state == \"expired\")'"]


def run(ctx: typer.Context) -> None:
    """List the exports.

    One that is expired no longer keeps anything; its files stay where they are until somebody deletes them.
    """
    from olympia_cli.catalog.clock import SystemClock
    from olympia_cli.ops.export.listing import list_exports

    session = Session(ctx)
    latest = session.snapshot()
    columns = [
        Column("name", "EXPORT"),
        Column("at_version", "VERSION", right=True),
        Column("mode", "MODE"),
        Column("state", "STATE"),
        Column("expires_at", "EXPIRES"),
        Column("location", "LOCATION"),
        Column("root", "ROOT", wide=True),
        Column("pin", "PIN", wide=True),
    ]
    render.records(
        session,
        "exports",
        columns,
        list_exports(latest, SystemClock().now_millis()),
        head={"version": latest.version},
        title="exports",
    )
