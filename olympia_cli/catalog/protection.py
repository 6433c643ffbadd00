"""Entries in the catalog's definition that protect files or record their deletion: exports, expires, acknowledged
damage, and the last promotion.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass

from olympia_cli.catalog.snapshot import ACKNOWLEDGED, EXPORT_PREFIX, PROMOTED
from olympia_cli.format.paths import MAX_VERSION
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.strict_json import read_json

PROTECTING = (EXPORT_PREFIX, "olympia.expire.", ACKNOWLEDGED, PROMOTED)
"""Prefixes of these properties. They refer to one catalog's versions, so copies omit them."""


def keep_protection(definition: CatalogDef, today: CatalogDef) -> CatalogDef:
    """Return an older definition with the current protection, so that a rollback removes none."""
    merged = without_protection(definition)
    merged.exported_snapshots.update(today.exported_snapshots)
    merged.properties.update({key: value for key, value in today.properties.items() if key.startswith(PROTECTING)})
    return merged


def without_protection(definition: CatalogDef) -> CatalogDef:
    """Return a copy of a definition without exports, expires and other protection."""
    copy = CatalogDef()
    copy.CopyFrom(definition)
    copy.ClearField("exported_snapshots")
    for key in [key for key in copy.properties if key.startswith(PROTECTING)]:
        del copy.properties[key]
    return copy


@dataclass(frozen=True, slots=True)
class Promotion:
    """A copy that replaced the catalog as `version`. The versions below belong to the former catalog, and are kept
    aside.

    A lost root may have had any number up to `through`, so versions continue at least that far.
    """

    version: int
    through: int


def read_promotion(definition: CatalogDef) -> Promotion | None:
    """Return the last promotion, or None if there was none or its record cannot be read."""
    try:
        record = read_json(definition.properties.get(PROMOTED, ""))
        version, through = record["version"], record["through"]
    except (ValueError, TypeError, KeyError):
        return None
    is_known = all(type(number) is int and 0 <= number <= MAX_VERSION for number in (version, through))
    return Promotion(version, through) if is_known else None


def write_promotion(definition: CatalogDef, promotion: Promotion) -> None:
    definition.properties[PROMOTED] = json.dumps(asdict(promotion), separators=(",", ":"))


def names_lost(hint: int | None, latest: int, definition: CatalogDef | None) -> bool:
    """Return whether vn/latest is ahead because roots are lost.

    Roots that an unfinished promotion recorded as lost do not count: it skips their numbers when it is run again.
    """
    if hint is None or hint <= latest:
        return False
    promotion = None if definition is None else read_promotion(definition)
    return promotion is None or hint > promotion.through


def kept_aside_before(definition: CatalogDef) -> int:
    """Return the first version after the former catalog's versions, or 0 without a known promotion."""
    promotion = read_promotion(definition)
    return 0 if promotion is None else promotion.version
