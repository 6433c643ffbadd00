from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_namespace
from olympia_cli.cli.options import At, InTxn
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia ns show sales", "olympia ns show sales --at latest~1 --json"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The namespace.", autocompletion=complete_namespace)],
    at: At = None,
    txn: InTxn = None,
) -> None:
    """Show a namespace.

    The output includes the number of its tables and views.
    """
    from olympia_cli.errors import Damaged

    session = Session(ctx)
    namespace = session.namespace_name(name)
    view = session.view(at, txn, namespace)
    from olympia_cli.ops.inspect import describe_object

    description = describe_object(view.namespace(namespace), view.version)
    counts: dict[str, int] | None = None
    try:
        counts = {"tables": sum(1 for _ in view.tables(name)), "views": sum(1 for _ in view.views(name))}
    except Damaged as damaged:
        session.say(f"warning: its tables and views cannot be counted: {damaged.message}")
    render.record(session, {**description, "counts": counts}, name=name)
