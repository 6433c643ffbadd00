from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_transaction
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia txn show 6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8"]


def run(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The transaction.", autocompletion=complete_transaction)],
) -> None:
    """Show the staged changes of a distributed transaction."""
    from olympia_cli.cli.options import Output
    from olympia_cli.ops.inspect import show_transaction

    session = Session(ctx)
    description = show_transaction(session.catalog, id)
    if session.output in (Output.TABLE, Output.WIDE):
        from olympia_cli.cli.output.log import action_line

        actions = description.pop("actions")
        render.record(session, description, name=id)
        with session.out() as out:
            for action in actions:
                out.write(f"  {action_line(action)}\n")
    else:
        render.record(session, description, name=id)
