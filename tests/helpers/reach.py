"""The files that versions of a catalog reach."""

from __future__ import annotations

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.ops.walk import NodeRules, ReachedFiles
from olympia_cli.storage.protocol import Store


def reach_of(store: Store, definitions: bool = False) -> ReachedFiles:
    """Return an empty reach with the sizes of the latest version."""
    return ReachedFiles(store, NodeRules.of(Catalog(store).snapshot()), definitions=definitions)
