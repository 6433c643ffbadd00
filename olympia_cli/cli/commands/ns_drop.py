from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_namespace
from olympia_cli.cli.options import Atomic, IfExists, InTxn, Message, RetryFor
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia ns drop scratch", "olympia ns drop scratch --cascade --if-exists"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The namespace.", autocompletion=complete_namespace)],
    cascade: Annotated[bool, typer.Option("--cascade", help="Also drop its tables and views.")] = False,
    if_exists: IfExists = False,
    atomic: Atomic = False,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Drop a namespace.

    The namespace must be empty, unless --cascade is given. Table data is never touched. ns restore brings the dropped
    objects back from any kept version.
    """
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.errors import command_words
    from olympia_cli.names import NamespaceName

    session, namespace = Session(ctx), NamespaceName(name)

    def do(transaction: Transaction) -> None:
        if not if_exists or transaction.exists(namespace):
            transaction.drop_namespace(namespace, cascade=cascade)

    change = session.change(
        do, namespace, txn=txn, message=message, retry_for=retry_for, again=if_exists, atomic=atomic
    )
    render.changed(session, change, f"dropped namespace {name}")
    if change.version is not None and change.actions and (cascade or session.is_tty):
        render.say_actions(session, change.actions)
        undo = command_words("ns", "restore", "--at", f"v{change.version - 1}", names=[name])
        session.say(f"to bring it back: {session.command(undo)}")
