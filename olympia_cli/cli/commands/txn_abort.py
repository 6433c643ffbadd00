from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_transaction
from olympia_cli.cli.options import DryRun, Yes
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session
from olympia_cli.cli.talk import confirm

EXAMPLES = ["olympia txn abort $ID", "olympia txn abort $ID --yes"]


def run(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The transaction.", autocompletion=complete_transaction)],
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Abort a distributed transaction.

    Its staged changes are lost, and a later expire deletes its files. A transaction that can no longer be read is
    aborted too. A commit that another process has already begun is not stopped.
    """
    from olympia_cli.catalog import distributed
    from olympia_cli.names import plural
    from olympia_cli.ops.inspect import count_staged

    session = Session(ctx)
    save = distributed.look(session.store, id)
    count = count_staged(session.catalog, save.id)
    staged = "staged actions that cannot be loaded" if count is None else plural(count, "staged action")
    session.say(f"transaction {save.id} has {staged}")
    if not dry_run:
        confirm("Abort it?", yes)
        distributed.abort(session.catalog, save)
    value = {"id": save.id, "aborted": not dry_run, "dry_run": dry_run, "actions": count}
    render.outcome(session, value, f"{'would abort' if dry_run else 'aborted'} transaction {save.id}")
