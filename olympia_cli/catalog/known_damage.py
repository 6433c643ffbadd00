"""Acknowledged damage of older versions, as recorded in the catalog's definition."""

from __future__ import annotations

from olympia_cli.catalog.protection import kept_aside_before
from olympia_cli.catalog.snapshot import ACKNOWLEDGED
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.strict_json import read_json

KnownDamage = dict[tuple[str, str], list[tuple[int, int]]]
"""Ranges of affected versions (first, last), by the code of the finding and the path of the file."""

_IN_THE_WAY = ("F1", "F2", "F3")
"""Prefixes of findings that prevent a walk over all files of a version: roots, nodes and definitions."""


def read_acknowledged(definition: CatalogDef) -> KnownDamage:
    """Return the acknowledged damage. A record that cannot be read counts as empty, so that more is reported, not
    less.
    """
    known: KnownDamage = {}
    try:
        for entry in read_json(definition.properties.get(ACKNOWLEDGED, "[]")):
            spans = [(int(first), int(last)) for first, last in entry["versions"]]
            known[str(entry["code"]), str(entry["path"])] = spans
    except (ValueError, TypeError, KeyError):
        return {}
    return known


def damaged_versions(definition: CatalogDef, first: int, last: int) -> frozenset[int]:
    """Return the versions in a range that are known to be, or may be, unreadable in part.

    All versions of a former catalog, which a copy has replaced, may be unreadable.
    """
    spans = [
        span for (code, _), hit in read_acknowledged(definition).items() if code.startswith(_IN_THE_WAY) for span in hit
    ]
    spans.append((0, kept_aside_before(definition) - 1))
    return frozenset(version for start, end in spans for version in range(max(start, first), min(end, last) + 1))
