from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_namespace
from olympia_cli.cli.options import At, InTxn
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia view ls",
    "olympia view ls sales --at 2026-11-15",
    "olympia view ls sales -o name",
    "olympia view ls -o wide",
]


def run(
    ctx: typer.Context,
    namespace: Annotated[
        str | None, typer.Argument(metavar="[NS]", help="Only this namespace.", autocompletion=complete_namespace)
    ] = None,
    at: At = None,
    txn: InTxn = None,
) -> None:
    """List views.

    -o wide also shows id, age and last version.
    """
    from olympia_cli.cli.output.lists import print_objects
    from olympia_cli.names import Kind

    session = Session(ctx)
    print_objects(session, session.view(at, txn), Kind.VIEW, namespace)
