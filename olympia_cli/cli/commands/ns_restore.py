from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_namespace
from olympia_cli.cli.options import Atomic, InTxn, Message, RetryFor
from olympia_cli.cli.output import render
from olympia_cli.cli.restore_options import FromVersion
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia ns restore sales --at v12", "olympia ns restore sales --at yesterday -m 'dropped by mistake'"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(help="The namespace.", autocompletion=complete_namespace)],
    at: FromVersion,
    atomic: Atomic = False,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Bring back a namespace with its tables and views.

    The objects come back as they are in that version, with their ids. Objects that were created in the namespace since
    then stay. An object that has another name today keeps it.
    """
    from olympia_cli.catalog.transaction import Transaction
    from olympia_cli.names import Kind, NamespaceName, ObjectName
    from olympia_cli.ops.inspect import describe_name

    session, namespace = Session(ctx), NamespaceName(name)
    source = session.snapshot(at)
    inside = (member for kind in (Kind.TABLE, Kind.VIEW) for member in source.objects(kind, name))
    objects = [source.namespace(namespace), *inside]
    elsewhere: dict[ObjectName, ObjectName] = {}

    def do(transaction: Transaction) -> None:
        elsewhere.update(transaction.restore_all(objects, source.version))

    change = session.change(do, txn=txn, message=message, retry_for=retry_for, atomic=atomic)
    left_out = [{**describe_name(then), "lives_as": describe_name(now)} for then, now in elsewhere.items()]
    render.changed(session, change, f"restored namespace {name} from v{source.version}", left_out=left_out)
    for then, now in elsewhere.items():
        session.say(f"not restored: {then.kind.word} {then} is {now} now")
