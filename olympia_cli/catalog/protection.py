"""What in the catalog's definition protects files, or says that they are gone: exports, what expire decided, and the
damage that is known."""

from __future__ import annotations

from olympia_cli.catalog.snapshot import ACKNOWLEDGED, EXPORT_PREFIX
from olympia_cli.format.pb.objects_pb2 import CatalogDef

PROTECTING = (EXPORT_PREFIX, "olympia.expire.", ACKNOWLEDGED)
"""How the names of such properties begin. They are about one catalog's versions, and no copy takes them along."""


def keep_protection(definition: CatalogDef, today: CatalogDef) -> CatalogDef:
    """An older definition with today's exports and what expire decided: going back takes no protection away."""
    merged = without_protection(definition)
    merged.exported_snapshots.update(today.exported_snapshots)
    merged.properties.update({key: value for key, value in today.properties.items() if key.startswith(PROTECTING)})
    return merged


def without_protection(definition: CatalogDef) -> CatalogDef:
    """A copy of a definition that knows of no export and no expire."""
    copy = CatalogDef()
    copy.CopyFrom(definition)
    copy.ClearField("exported_snapshots")
    for key in [key for key in copy.properties if key.startswith(PROTECTING)]:
        del copy.properties[key]
    return copy
