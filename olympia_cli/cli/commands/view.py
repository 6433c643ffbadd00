"""The commands of views."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli.commands import objects
from olympia_cli.cli.commands.objects import VIEWS
from olympia_cli.cli.options import (
    At,
    DefaultNamespace,
    IfNotExists,
    InTxn,
    Message,
    Plan,
    Properties,
    References,
    RetryFor,
    SchemaBinding,
    ViewSchema,
    make_view,
    parse_properties,
)
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session
from olympia_cli.names import NamespaceName, parse_view
from olympia_cli.ops import inspect

if TYPE_CHECKING:
    from olympia_cli.catalog.transaction import Transaction

EXAMPLES = {
    "create": [
        "olympia view create sales.open --plan open.binpb --schema 'id long, name string' --refers-to sales.orders",
    ],
    "replace": ["olympia view replace sales.open_orders --plan open_orders_v2.binpb -m 'without returns'"],
    "ls": [
        "olympia view ls",
        "olympia view ls sales --at 2026-11-15",
        "olympia view ls sales -o name",
        "olympia view ls -o wide",
    ],
    "show": ["olympia view show sales.open_orders", "olympia view show sales.open_orders --at v12 --json"],
    "alter": ["olympia view alter sales.open_orders --set owner=ann --unset draft"],
    "rename": [
        "olympia view rename sales.open_orders sales.open_2025",
        "olympia view rename sales.tmp archive.tmp",
    ],
    "drop": ["olympia view drop sales.scratch", "olympia view drop sales.scratch --if-exists -m 'tidy up'"],
    "restore": [
        "olympia view restore sales.open_orders --at v12",
        "olympia view restore sales.open_orders --at yesterday -m 'dropped by mistake'",
    ],
}

View = Annotated[str, typer.Argument(metavar="NS.V", help="The view.")]


def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NS.V", help="The view.")],
    plan: Plan,
    schema: ViewSchema = "",
    refers_to: References = None,
    default_namespace: DefaultNamespace = "",
    schema_binding: SchemaBinding = False,
    property: Properties = None,
    if_not_exists: IfNotExists = False,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Create a view.

    The plan is a serialized Substrait ReadRel, and is stored unchanged.
    """
    session, view, properties = Session(ctx), parse_view(name), parse_properties(property)
    definition = make_view(plan, schema, refers_to, default_namespace, schema_binding, properties)

    def do(transaction: Transaction) -> None:
        if not (if_not_exists and transaction.exists(view)):
            transaction.create_view(view, definition)

    change = session.change(
        do, NamespaceName(view.namespace), view, txn=txn, message=message, retry_for=retry_for, again=if_not_exists
    )
    render.changed(session, change, f"created view {view}")


def replace(
    ctx: typer.Context,
    name: View,
    plan: Plan,
    schema: ViewSchema = "",
    refers_to: References = None,
    default_namespace: DefaultNamespace = "",
    schema_binding: SchemaBinding = False,
    property: Properties = None,
    txn: InTxn = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Replace a view's definition.

    The whole definition is replaced, including properties; the view's id stays the same.
    """
    session, view, properties = Session(ctx), parse_view(name), parse_properties(property)
    definition = make_view(plan, schema, refers_to, default_namespace, schema_binding, properties)
    change = session.change(
        lambda transaction: transaction.replace_view(view, definition),
        view,
        txn=txn,
        message=message,
        retry_for=retry_for,
    )
    render.changed(session, change, f"replaced view {view}")


ls = objects.list_command(
    VIEWS,
    """List views.

    -o wide also shows id, age and last version.
    """,
)


def show(ctx: typer.Context, name: View, at: At = None, txn: InTxn = None) -> None:
    """Show a view."""
    session = Session(ctx)
    view_name = session.view_name(name)
    view = session.view(at, txn, view_name)

    render.record(session, inspect.describe_object(view.view(view_name), view.version), name=str(view_name))


alter = objects.alter_command(VIEWS, "Set and unset properties of a view.")

rename = objects.rename_command(
    VIEWS,
    """Rename a view.

    Both are full names, so a view can move to another namespace. Its id and its definition stay the same.
    """,
)

drop = objects.drop_command(VIEWS, "Drop a view.")

restore = objects.restore_command(
    VIEWS,
    """Bring back a dropped or older view.

    The view comes back as it is in that version, with its id. Its namespace must exist: see ns restore.
    """,
)
