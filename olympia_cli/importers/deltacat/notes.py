"""The properties in which an imported object records its source; they begin with `deltacat.`.

| property | of | meaning |
| --- | --- | --- |
| `deltacat.catalog` | both | id of the catalog, wherever it is copied to |
| `deltacat.namespace`, `deltacat.table` | both, tables | its names there |
| `deltacat.transaction` | both | the last transaction that wrote to it |
| `deltacat.history` | both | its newest hundred revisions: number, operation, transaction, time |
| `deltacat.table-version` | tables | the version of the table |
| `deltacat.description` | tables | its description |
| `deltacat.property.*` | both | properties whose own names have another meaning here |
| `deltacat.left-out` | tables | number of groups of parts that were left out |
| `deltacat.rewritten` | tables | whether rows of it were merged and rewritten |
| `deltacat.metadata-location` | tables | the metadata of the import: any other was written here |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from olympia_cli.catalog.checks import RESERVED
from olympia_cli.importers.deltacat.bodies import Namespace, Table
from olympia_cli.importers.deltacat.contents import Contents
from olympia_cli.importers.deltacat.index import Row
from olympia_cli.names import time_text

PREFIX = "deltacat."
CATALOG, TRANSACTION, METADATA = f"{PREFIX}catalog", f"{PREFIX}transaction", f"{PREFIX}metadata-location"
REWRITTEN = f"{PREFIX}rewritten"
NAMESPACE, TABLE, LEFT_OUT = f"{PREFIX}namespace", f"{PREFIX}table", f"{PREFIX}left-out"
_REVISIONS = 100
_OWN = f"{PREFIX}property."


def of_namespace(namespace: Namespace, catalog: str, revisions: Iterable[Row]) -> dict[str, str]:
    own = {
        # a `location` would set the folder of new tables here
        (f"{_OWN}{key}" if key == "location" or key.startswith((RESERVED, PREFIX)) else key): value
        for key, value in texts(namespace.properties).items()
    }
    return {**own, CATALOG: catalog, NAMESPACE: text(namespace.name), **_history(revisions)}


def of_table(
    table: Table, namespace: str, catalog: str, transaction: str, revisions: Iterable[Row], contents: Contents
) -> dict[str, str]:
    description = contents.version.description or table.description
    found = {
        **{f"{_OWN}{key}": value for key, value in texts(table.properties).items()},
        CATALOG: catalog,
        NAMESPACE: text(namespace),
        TABLE: text(table.name),
        **_history(revisions),
        TRANSACTION: transaction,
        f"{PREFIX}table-version": contents.version.version,
    }
    return {**found, **({f"{PREFIX}description": text(description)} if description else {})}


def _history(revisions: Iterable[Row]) -> dict[str, str]:
    rows = list(revisions)
    told = [
        {
            "revision": row.number,
            "operation": row.operation,
            "transaction": row.transaction,
            "at": time_text(row.ended_at // 1_000_000),
        }
        for row in rows[-_REVISIONS:]
    ]
    return {TRANSACTION: rows[-1].transaction if rows else "", f"{PREFIX}history": json.dumps(told)}


def texts(properties: Mapping[Any, Any]) -> dict[str, str]:
    """Return properties as text: other values are written as JSON."""
    return {
        text(str(key)): text(value if isinstance(value, str) else json.dumps(value, default=repr, sort_keys=True))
        for key, value in properties.items()
        if str(key) and value is not None
    }


def text(value: str) -> str:
    """Return a text that a definition can hold: half of a surrogate pair is replaced."""
    return value.encode("utf-8", "replace").decode()
