from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli import render
from olympia_cli.cli.complete import complete_transaction
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import DryRun, Output, Yes

EXAMPLES = ["olympia txn abort $ID", "olympia txn abort $ID --yes"]


def run(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The transaction.", autocompletion=complete_transaction)],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Give up a distributed transaction.

    What it staged is lost. Its files go with the next expire.
    """
    from olympia_cli.catalog import distributed
    from olympia_cli.cli.escape import plural

    session = Session(ctx)
    running = distributed.load(session.catalog, id)
    count = len(running.transaction.actions)
    session.say(f"transaction {running.id} has {plural(count, 'staged action')}")
    if not dry_run:
        session.confirm("Give it up?", yes)
        running.abort()
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, {"id": running.id, "aborted": not dry_run, "dry_run": dry_run, "actions": count})
    elif not session.quiet:
        render.line(session, f"{'would abort' if dry_run else 'aborted'} transaction {running.id}")
