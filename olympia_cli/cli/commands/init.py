from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import IfNotExists, Message, Properties, parse_properties

EXAMPLES = [
    "olympia init ./catalog",
    "olympia init s3://bucket/catalog --isolation serializable",
    "olympia init ./catalog --order 64 --property owner=ann --if-not-exists",
]


def run(
    ctx: typer.Context,
    uri: Annotated[str | None, typer.Argument(metavar="[URI]", help="Where; otherwise as -c says.")] = None,
    order: Annotated[int, typer.Option(help="The order of the tree: at most this many children a node.")] = 128,
    namespace_name_max_bytes: Annotated[int, typer.Option(help="The longest namespace name.")] = 100,
    table_name_max_bytes: Annotated[int, typer.Option(help="The longest table name.")] = 100,
    view_name_max_bytes: Annotated[int, typer.Option(help="The longest view name.")] = 100,
    node_file_max_bytes: Annotated[int, typer.Option(help="The largest node file.")] = 1_048_576,
    txn_ttl: Annotated[str, typer.Option(metavar="DURATION", help="How long a transaction may live.")] = "3d",
    isolation: Annotated[str, typer.Option(metavar="LEVEL", help="snapshot or serializable.")] = "snapshot",
    property: Properties = None,
    message: Message = "",
    if_not_exists: IfNotExists = False,
) -> None:
    """Create a catalog.

    The store is asked once whether it really creates files exclusively, and refused if it does not: commits rest on
    nothing else. Order and name sizes are fixed for the catalog's life.
    """
    from olympia_cli.catalog.catalog import Catalog, who
    from olympia_cli.catalog.commit import Author
    from olympia_cli.cli.params import parse_isolation
    from olympia_cli.errors import CatalogExists
    from olympia_cli.names import parse_duration

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
            author=Author(by=who(), message=message),
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
