from __future__ import annotations

import typer

from olympia_cli.cli.output import render
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia txn ls", "olympia txn ls --json | jq '.transactions[] | select(.state == \"open\")'"]


def run(ctx: typer.Context) -> None:
    """List the distributed transactions."""
    from olympia_cli.ops.inspect import list_transactions

    session = Session(ctx)
    columns = [
        Column("id", "TRANSACTION"),
        Column("state", "STATE"),
        Column("version", "VERSION", right=True),
        Column("expires_at", "EXPIRES"),
        Column("began_at", "BEGAN", wide=True),
        Column("isolation", "ISOLATION", wide=True),
        Column("saves", "SAVES", wide=True, right=True),
        Column("committed_version", "COMMITTED AS", wide=True, right=True),
    ]
    session.snapshot()
    render.records(
        session,
        "transactions",
        columns,
        list_transactions(session.catalog),
        name=lambda row: str(row["id"]),
        title="transactions",
    )
