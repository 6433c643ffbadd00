from __future__ import annotations

import typer

from olympia_cli.cli.options import At, InTxn
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia ns ls", "olympia ns ls --at 2h", "olympia ns ls -o wide", "olympia ns ls --json"]


def run(ctx: typer.Context, at: At = None, txn: InTxn = None) -> None:
    """List the namespaces.

    -o wide also shows id, age and last version.
    """
    from olympia_cli.cli.output.lists import print_objects
    from olympia_cli.names import Kind

    session = Session(ctx)
    print_objects(session, session.view(at, txn), Kind.NAMESPACE)
