"""The commands of the catalog's definition."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from olympia_cli.cli.options import (
    At,
    Message,
    RetryFor,
    SetProperties,
    UnsetProperties,
    parse_isolation,
    parse_properties,
)
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session
from olympia_cli.masking import masked
from olympia_cli.names import parse_duration

EXAMPLES = {
    "show": ["olympia catalog show", "olympia catalog show --json | jq .properties"],
    "alter": [
        "olympia catalog alter --set olympia.retention.max-version-age=30d",
        "olympia catalog alter --txn-ttl 1d --isolation serializable",
    ],
}


def show(ctx: typer.Context, at: At = None) -> None:
    """Show the catalog's definition.

    Order, name sizes and node size are fixed. Properties (also those of retention), the lifetime of transactions and
    their isolation can be altered.
    """
    from olympia_cli.catalog.properties import DEFAULT_MAX_AGE, DEFAULT_MIN_VERSIONS, MAX_AGE, MIN_VERSIONS
    from olympia_cli.ops.inspect import describe_properties, isolation_word

    session = Session(ctx)
    snapshot = session.snapshot(at)
    definition = snapshot.definition
    value: dict[str, Any] = {
        "catalog": session.store.uri,
        "id": definition.id,
        "format_version": definition.major_version,
        "order": definition.order,
        "namespace_name_max_bytes": definition.namespace_name_max_size_bytes,
        "table_name_max_bytes": definition.table_name_max_size_bytes,
        "view_name_max_bytes": definition.view_name_max_size_bytes,
        "node_file_max_bytes": definition.node_file_max_size_bytes,
        "txn_ttl_millis": definition.txn_ttl_millis,
        "isolation": isolation_word(definition.txn_isolation_level),
        "retention": {
            "max_version_age": definition.properties.get(MAX_AGE, DEFAULT_MAX_AGE),
            "min_versions": definition.properties.get(MIN_VERSIONS, DEFAULT_MIN_VERSIONS),
        },
        "properties": describe_properties(definition.properties),
        "exports": {name: masked(root) for name, root in sorted(definition.exported_snapshots.items())},
        "definition": snapshot.root.catalog_def,
        "version": snapshot.version,
    }
    render.record(session, value, name=definition.id)


def alter(
    ctx: typer.Context,
    set: SetProperties = None,
    unset: UnsetProperties = None,
    txn_ttl: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Lifetime of transactions, from the next one on.")
    ] = None,
    isolation: Annotated[
        str | None, typer.Option(metavar="LEVEL", help="Isolation of transactions: snapshot or serializable.")
    ] = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Change the catalog's properties, lifetime or isolation."""
    session, properties = Session(ctx), parse_properties(set)
    change = session.change(
        lambda transaction: transaction.alter_catalog(
            properties,
            unset or (),
            txn_ttl_millis=None if txn_ttl is None else parse_duration(txn_ttl),
            isolation=None if isolation is None else parse_isolation(isolation),
        ),
        message=message,
        retry_for=retry_for,
    )
    render.changed(session, change, "altered the catalog")
