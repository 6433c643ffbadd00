"""The commands of namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli.commands import objects
from olympia_cli.cli.commands.objects import NAMESPACES, FromVersion
from olympia_cli.cli.options import (
    At,
    Atomic,
    IfExists,
    IfNotExists,
    InTxn,
    Message,
    Properties,
    RetryFor,
    parse_properties,
)
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session
from olympia_cli.errors import Damaged
from olympia_cli.names import Kind, NamespaceName, ObjectName
from olympia_cli.ops import inspect

if TYPE_CHECKING:
    from olympia_cli.catalog.transaction import Transaction

EXAMPLES = {
    "create": ["olympia ns create sales", "olympia ns create sales --property owner=ann -m 'new team'"],
    "ls": ["olympia ns ls", "olympia ns ls --at 2h", "olympia ns ls -o wide", "olympia ns ls --json"],
    "show": ["olympia ns show sales", "olympia ns show sales --at latest~1 --json"],
    "alter": ["olympia ns alter sales --set owner=bob", "olympia ns alter sales --set tier=gold --unset region"],
    "rename": ["olympia ns rename sales revenue"],
    "drop": ["olympia ns drop scratch", "olympia ns drop scratch --cascade --if-exists"],
    "restore": [
        "olympia ns restore sales --at v12",
        "olympia ns restore sales --at yesterday -m 'dropped by mistake'",
    ],
}

Namespace = Annotated[str, typer.Argument(metavar="NAME", help="The namespace.")]


def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The namespace.")],
    property: Properties = None,
    if_not_exists: IfNotExists = False,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Create a namespace."""
    session, namespace, properties = Session(ctx), NamespaceName(name), parse_properties(property)

    def do(transaction: Transaction) -> None:
        if not (if_not_exists and transaction.exists(namespace)):
            transaction.create_namespace(namespace, properties)

    change = session.change(do, namespace, txn=txn, message=message, retry_for=retry_for, again=if_not_exists)
    render.changed(session, change, f"created namespace {name}")


def ls(ctx: typer.Context, at: At = None, txn: InTxn = None) -> None:
    """List the namespaces.

    -o wide also shows id, age and last version.
    """
    session = Session(ctx)
    objects.print_objects(session, session.view(at, txn), Kind.NAMESPACE)


def show(ctx: typer.Context, name: Namespace, at: At = None, txn: InTxn = None) -> None:
    """Show a namespace.

    The output includes the number of its tables and views.
    """
    session = Session(ctx)
    namespace = session.namespace_name(name)
    view = session.view(at, txn, namespace)

    description = inspect.describe_object(view.namespace(namespace), view.version)
    counts: dict[str, int] | None = None
    try:
        counts = {"tables": sum(1 for _ in view.tables(name)), "views": sum(1 for _ in view.views(name))}
    except Damaged as damaged:
        session.say(f"warning: its tables and views cannot be counted: {damaged.message}")
    render.record(session, {**description, "counts": counts}, name=name)


alter = objects.alter_command(NAMESPACES, "Set and unset properties of a namespace.")

rename = objects.rename_command(
    NAMESPACES,
    """Rename a namespace with its tables and views.

    Ids and definitions stay the same. It is one commit, however many tables move.
    """,
)


def drop(
    ctx: typer.Context,
    name: Namespace,
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
        objects.say_undo(session, NAMESPACES, namespace, change)


def restore(
    ctx: typer.Context,
    name: Namespace,
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
    session, namespace = Session(ctx), NamespaceName(name)
    source = session.snapshot(at)
    inside = (member for kind in (Kind.TABLE, Kind.VIEW) for member in source.objects(kind, name))
    former = [source.namespace(namespace), *inside]
    elsewhere: dict[ObjectName, ObjectName] = {}

    def do(transaction: Transaction) -> None:
        elsewhere.update(transaction.restore_all(former, source.version))

    change = session.change(do, txn=txn, message=message, retry_for=retry_for, atomic=atomic)
    left_out = [
        {**inspect.describe_name(then), "lives_as": inspect.describe_name(now)} for then, now in elsewhere.items()
    ]
    render.changed(session, change, f"restored namespace {name} from v{source.version}", left_out=left_out)
    for then, now in elsewhere.items():
        session.say(f"not restored: {then.kind.word} {then} is {now} now")
