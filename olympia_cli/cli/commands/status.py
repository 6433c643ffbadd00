from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import Output

EXAMPLES = [
    "olympia status",
    "olympia status --full --json",
    "olympia status --prometheus > /var/lib/node_exporter/olympia.prom",
]


def run(
    ctx: typer.Context,
    full: Annotated[
        bool, typer.Option("--full", help="Count objects, files and bytes too; this reads all kept nodes.")
    ] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="As text for Prometheus.")] = False,
) -> None:
    """Show how the catalog is doing.

    The exit code says it too: 0 healthy, 51 needs attention, 50 the last fsck found damage, 40 it cannot be read.
    """
    from olympia_cli.ops.look.status import prometheus as as_prometheus
    from olympia_cli.ops.look.status import status

    session = Session(ctx)
    found = status(session.catalog, full)
    if prometheus:
        with session.out() as out:
            out.write(as_prometheus(found))
    elif session.output in (Output.TABLE, Output.WIDE):
        values = {key: value for key, value in found.values.items() if key != "needs_attention"}
        render.record(session, values)
        for reason in found.attention:
            session.say(f"needs attention: {reason}")
    else:
        render.record(session, found.values, name=str(found.values["id"]))
    raise typer.Exit(found.exit_code)
