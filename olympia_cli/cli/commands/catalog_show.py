from __future__ import annotations

from typing import Any

import typer

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import At

EXAMPLES = ["olympia catalog show", "olympia catalog show --json | jq .properties"]


def run(ctx: typer.Context, at: At = None) -> None:
    """Show the catalog's definition.

    Order, name sizes and node size are fixed; properties (retention among them), lifetime and isolation can be altered.
    """
    from olympia_cli.catalog.checks import DEFAULT_MAX_AGE, DEFAULT_MIN_VERSIONS, MAX_AGE, MIN_VERSIONS
    from olympia_cli.ops.look.describe import isolation_word

    session = Session(ctx)
    snapshot = session.snapshot(at)
    found = snapshot.definition
    value: dict[str, Any] = {
        "catalog": session.store.uri,
        "id": found.id,
        "format_version": found.major_version,
        "order": found.order,
        "namespace_name_max_bytes": found.namespace_name_max_size_bytes,
        "table_name_max_bytes": found.table_name_max_size_bytes,
        "view_name_max_bytes": found.view_name_max_size_bytes,
        "node_file_max_bytes": found.node_file_max_size_bytes,
        "txn_ttl_millis": found.txn_ttl_millis,
        "isolation": isolation_word(found.txn_isolation_level),
        "retention": {
            "max_version_age": found.properties.get(MAX_AGE, DEFAULT_MAX_AGE),
            "min_versions": found.properties.get(MIN_VERSIONS, DEFAULT_MIN_VERSIONS),
        },
        "properties": dict(sorted(found.properties.items())),
        "exports": dict(sorted(found.exported_snapshots.items())),
        "definition": snapshot.root.catalog_def,
        "version": snapshot.version,
    }
    render.record(session, value, name=found.id)
