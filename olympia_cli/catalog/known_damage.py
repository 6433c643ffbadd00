"""Damage of older versions that somebody acknowledged, as the catalog's definition holds it."""

from __future__ import annotations

from olympia_cli.catalog.protection import kept_aside_before
from olympia_cli.catalog.snapshot import ACKNOWLEDGED
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.strict_json import read_json

KnownDamage = dict[tuple[str, str], list[tuple[int, int]]]
"""The versions that are known to be hit, first and last of each range, by fsck's code and the path of the file."""

_IN_THE_WAY = ("F1", "F2", "F3")
"""How the codes begin of what keeps a walk from seeing all that a version reaches: roots, nodes and definitions."""


def read_acknowledged(definition: CatalogDef) -> KnownDamage:
    """What a catalog says is known. A list that cannot be read counts as none: then more is told, not less."""
    known: KnownDamage = {}
    try:
        for entry in read_json(definition.properties.get(ACKNOWLEDGED, "[]")):
            spans = [(int(first), int(last)) for first, last in entry["versions"]]
            known[str(entry["code"]), str(entry["path"])] = spans
    except (ValueError, TypeError, KeyError):
        return {}
    return known


def damaged_versions(definition: CatalogDef, first: int, last: int) -> frozenset[int]:
    """Those from one version to another of which it is known that they cannot be read whole, or that it may be so: all
    of a catalog whose place a copy took."""
    spans = [
        span for (code, _), hit in read_acknowledged(definition).items() if code.startswith(_IN_THE_WAY) for span in hit
    ]
    spans.append((0, kept_aside_before(definition) - 1))
    return frozenset(version for start, end in spans for version in range(max(start, first), min(end, last) + 1))
