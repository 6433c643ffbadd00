from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_transaction
from olympia_cli.cli.options import Atomic, Message, RetryFor, parse_seconds
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Changed, Session

EXAMPLES = ["olympia txn commit $ID -m 'nightly load'"]


def run(
    ctx: typer.Context,
    id: Annotated[str, typer.Argument(metavar="ID", help="The transaction.", autocompletion=complete_transaction)],
    atomic: Atomic = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Commit a distributed transaction.

    If another process has committed it already, its version is printed.
    """
    from olympia_cli.catalog import distributed
    from olympia_cli.catalog.distributed import State

    session, seconds = Session(ctx), parse_seconds(retry_for)
    saved = distributed.find(session.store, id)
    if saved.state(session.catalog.clock) is State.COMMITTED and saved.committed_version is not None:
        change = Changed(saved.committed_version, None, session.snapshot(str(saved.committed_version)).actions())
    else:
        committed = distributed.load(session.catalog, id).commit(message, retry_for=seconds, atomic=atomic)
        session.catalog.head.advance(committed)
        change = Changed(committed.version, None, committed.actions)
    render.changed(session, change, f"committed transaction {saved.id}")
