from __future__ import annotations

from typing import Any

import typer

from olympia_cli.cli.options import At
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia catalog show", "olympia catalog show --json | jq .properties"]


def run(ctx: typer.Context, at: At = None) -> None:
    """Show the catalog's definition.

    Order, name sizes and node size are fixed. Properties (also those of retention), the lifetime of transactions and
    their isolation can be altered.
    """
    from olympia_cli.catalog.staging import DEFAULT_MAX_AGE, DEFAULT_MIN_VERSIONS, MAX_AGE, MIN_VERSIONS
    from olympia_cli.masking import masked
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
