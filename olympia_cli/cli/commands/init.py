from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.options import IfNotExists, Message, Properties, parse_isolation, parse_properties
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session
from olympia_cli.errors import CatalogExists
from olympia_cli.names import parse_duration

EXAMPLES = [
    "olympia init ./catalog",
    "olympia init s3://bucket/catalog --isolation serializable",
    "olympia init ./catalog --order 64 --property owner=ann --if-not-exists",
]


def run(
    ctx: typer.Context,
    uri: Annotated[str | None, typer.Argument(metavar="[URI]", help="Location of the new catalog; as for -c.")] = None,
    order: Annotated[int, typer.Option(help="Order of the tree: the maximum number of children per node.")] = 128,
    namespace_name_max_bytes: Annotated[int, typer.Option(help="Maximum length of a namespace name.")] = 100,
    table_name_max_bytes: Annotated[int, typer.Option(help="Maximum length of a table name.")] = 100,
    view_name_max_bytes: Annotated[int, typer.Option(help="Maximum length of a view name.")] = 100,
    node_file_max_bytes: Annotated[int, typer.Option(help="Maximum size of a node file.")] = 1_048_576,
    txn_ttl: Annotated[str, typer.Option(metavar="DURATION", help="Lifetime of a transaction.")] = "3d",
    isolation: Annotated[
        str, typer.Option(metavar="LEVEL", help="Isolation of transactions: snapshot or serializable.")
    ] = "snapshot",
    property: Properties = None,
    message: Message = "",
    if_not_exists: IfNotExists = False,
) -> None:
    """Create a catalog.

    The command tests whether the store creates files exclusively, and refuses it if not: commits depend on that. Order
    and name sizes can never be changed.
    """
    from olympia_cli.catalog.catalog import Catalog

    session, properties = Session(ctx, uri), parse_properties(property)
    created = True
    try:
        catalog = Catalog.create(
            session.store,
            order=order,
            namespace_name_max_bytes=namespace_name_max_bytes,
            table_name_max_bytes=table_name_max_bytes,
            view_name_max_bytes=view_name_max_bytes,
            node_file_max_bytes=node_file_max_bytes,
            txn_ttl_millis=parse_duration(txn_ttl),
            isolation=parse_isolation(isolation),
            properties=properties,
            author=session.author(message),
        )
    except CatalogExists:
        if not if_not_exists:
            raise
        catalog, created = Catalog.open(session.store), False
    snapshot = catalog.snapshot()
    value = {"catalog": session.store.uri, "id": snapshot.definition.id, "version": snapshot.version}
    state = "created" if created else "exists already:"
    text = f"v{snapshot.version}  {state} the catalog {session.store.uri}"
    render.outcome(session, {**value, "created": created}, text)
