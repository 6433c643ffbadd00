from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli import render
from olympia_cli.cli.complete import complete_namespace
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import At, InTxn
from olympia_cli.cli.render import Column

EXAMPLES = ["olympia view ls", "olympia view ls sales --at 2026-11-15", "olympia view ls sales -o name"]


def run(
    ctx: typer.Context,
    namespace: Annotated[
        str | None, typer.Argument(metavar="[NS]", help="Only this namespace.", autocompletion=complete_namespace)
    ] = None,
    at: At = None,
    txn: InTxn = None,
) -> None:
    """List views."""
    from olympia_cli.names import full_name

    session = Session(ctx)
    view = session.view(at, txn)
    rows = ({"namespace": name.namespace, "name": name.name} for name in view.views(namespace))
    render.records(
        session,
        "views",
        [Column("namespace", "NAMESPACE"), Column("name", "VIEW")],
        rows,
        head={"version": view.version},
        name=lambda row: full_name(row["namespace"], row["name"]),
        title="views",
    )
