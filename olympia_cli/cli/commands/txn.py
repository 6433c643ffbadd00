"""The commands of distributed transactions."""

from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.boundary import confirm
from olympia_cli.cli.options import Atomic, DryRun, Message, Output, RetryFor, Yes, parse_isolation, parse_seconds
from olympia_cli.cli.output import render
from olympia_cli.cli.output.log import action_line
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Changed, Session
from olympia_cli.names import plural
from olympia_cli.ops import inspect

EXAMPLES = {
    "begin": [
        "olympia txn begin",
        "ID=$(olympia txn begin -o name)",
        "olympia txn begin --isolation serializable --json",
    ],
    "ls": ["olympia txn ls", "olympia txn ls --json | jq '.transactions[] | select(.state == \"open\")'"],
    "show": ["olympia txn show 6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8"],
    "commit": ["olympia txn commit $ID -m 'nightly load'"],
    "abort": ["olympia txn abort $ID", "olympia txn abort $ID --yes"],
}

TransactionId = Annotated[str, typer.Argument(metavar="ID", help="The transaction.")]


def begin(
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

    session = Session(ctx)
    begun = distributed.begin(session.catalog, None if isolation is None else parse_isolation(isolation))
    render.record(session, inspect.describe_saved(begun.saved, session.catalog), name=begun.id)


def ls(ctx: typer.Context) -> None:
    """List the distributed transactions."""
    session = Session(ctx)
    columns = [
        Column("id", "TRANSACTION"),
        Column("state", "STATE"),
        Column("version", "VERSION", right=True),
        Column("expires_at", "EXPIRES"),
        Column("began_at", "BEGAN", wide=True),
        Column("isolation", "ISOLATION", wide=True),
        Column("saves", "SAVES", wide=True, right=True),
        Column("committed_version", "COMMITTED AS", wide=True, right=True),
    ]
    session.snapshot()
    render.records(
        session,
        "transactions",
        columns,
        inspect.list_transactions(session.catalog),
        name=lambda row: str(row["id"]),
        title="transactions",
    )


def show(
    ctx: typer.Context,
    id: TransactionId,
) -> None:
    """Show the staged changes of a distributed transaction."""
    session = Session(ctx)
    description = inspect.show_transaction(session.catalog, id)
    if session.output in (Output.TABLE, Output.WIDE):
        actions = description.pop("actions")
        render.record(session, description, name=id)
        with session.out() as out:
            for action in actions:
                out.write(f"  {action_line(action)}\n")
    else:
        render.record(session, description, name=id)


def commit(
    ctx: typer.Context,
    id: TransactionId,
    atomic: Atomic = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Commit a distributed transaction.

    If another process has committed it already, its version is printed.
    """
    from olympia_cli.catalog import distributed
    from olympia_cli.catalog.distributed import TransactionState

    session, seconds = Session(ctx), parse_seconds(retry_for)
    saved = distributed.find(session.store, id)
    if saved.state(session.catalog.clock) is TransactionState.COMMITTED and saved.committed_version is not None:
        change = Changed(saved.committed_version, None, session.snapshot(str(saved.committed_version)).actions())
    else:
        committed = distributed.load(session.catalog, id).commit(message, retry_for=seconds, atomic=atomic)
        session.catalog.head.advance(committed)
        change = Changed(committed.version, None, committed.actions)
    render.changed(session, change, f"committed transaction {saved.id}")


def abort(
    ctx: typer.Context,
    id: TransactionId,
    yes: Yes = False,
    dry_run: DryRun = False,
) -> None:
    """Abort a distributed transaction.

    Its staged changes are lost, and a later expire deletes its files. A transaction that can no longer be read is
    aborted too. A commit that another process has already begun is not stopped.
    """
    from olympia_cli.catalog import distributed

    session = Session(ctx)
    save = distributed.look(session.store, id)
    count = inspect.count_staged(session.catalog, save.id)
    staged = "staged actions that cannot be loaded" if count is None else plural(count, "staged action")
    session.say(f"transaction {save.id} has {staged}")
    if not dry_run:
        confirm("Abort it?", yes)
        distributed.abort(session.catalog, save)
    value = {"id": save.id, "aborted": not dry_run, "dry_run": dry_run, "actions": count}
    render.outcome(session, value, f"{'would abort' if dry_run else 'aborted'} transaction {save.id}")
