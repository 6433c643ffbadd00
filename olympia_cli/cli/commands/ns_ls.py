from __future__ import annotations

import typer

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import At, InTxn
from olympia_cli.cli.render import Column

EXAMPLES = ["olympia ns ls", "olympia ns ls --at 2h", "olympia ns ls --json"]


def run(ctx: typer.Context, at: At = None, txn: InTxn = None) -> None:
    """List the namespaces."""
    session = Session(ctx)
    view = session.view(at, txn)
    rows = ({"name": name.namespace} for name in view.namespaces())
    render.records(
        session, "namespaces", [Column("name", "NAMESPACE")], rows, head={"version": view.version}, title="namespaces"
    )
