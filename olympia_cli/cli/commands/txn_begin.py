from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia txn begin", "ID=$(olympia txn begin -o name)", "olympia txn begin --isolation serializable --json"]


def run(
    ctx: typer.Context,
    isolation: Annotated[
        str | None,
        typer.Option(metavar="LEVEL", help="snapshot or serializable; the catalog's isolation if not given."),
    ] = None,
) -> None:
    """Begin a distributed transaction.

    Commands with --txn ID work inside the transaction, in any process, until txn commit.
    """
    from olympia_cli.catalog import distributed
    from olympia_cli.cli.options import parse_isolation
    from olympia_cli.ops.inspect import describe_saved

    session = Session(ctx)
    begun = distributed.begin(session.catalog, None if isolation is None else parse_isolation(isolation))
    render.record(session, describe_saved(begun.saved, session.catalog), name=begun.id)
