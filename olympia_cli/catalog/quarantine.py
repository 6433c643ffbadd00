"""What an expire has taken out of history and not yet deleted, as the catalog's definition holds it.

Quarantine is a list of marks. Each names its manifest, the file that says what would go, and the version that the
mark was committed as, whose age is how long it has rested.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from olympia_cli.catalog.snapshot import EXPIRE_PURGED
from olympia_cli.errors import Damaged
from olympia_cli.format.pb.objects_pb2 import CatalogDef

EXPIRE_QUARANTINE = "olympia.expire.quarantine"


@dataclass(frozen=True, slots=True)
class Mark:
    """A commit that moved the oldest version from `former_oldest` to `oldest`, and is neither undone nor purged."""

    version: int
    oldest: int
    former_oldest: int
    manifest: str


def read_quarantine(definition: CatalogDef) -> list[Mark]:
    """The marks that rest, in the order of their commits."""
    text = definition.properties.get(EXPIRE_QUARANTINE, "[]")
    try:
        found = [Mark(**entry) for entry in json.loads(text)]
        if not all(isinstance(n, int) for mark in found for n in (mark.version, mark.oldest, mark.former_oldest)):
            raise ValueError
        if not all(isinstance(mark.manifest, str) for mark in found):
            raise ValueError
    except (ValueError, TypeError, RecursionError):
        raise Damaged("the catalog definition", f"its property {EXPIRE_QUARANTINE} cannot be read") from None
    return sorted(found, key=lambda mark: mark.version)


def write_quarantine(definition: CatalogDef, marks: Sequence[Mark]) -> None:
    if marks:
        definition.properties[EXPIRE_QUARANTINE] = json.dumps([asdict(mark) for mark in marks], separators=(",", ":"))
    else:
        definition.properties.pop(EXPIRE_QUARANTINE, None)


def purged_before(definition: CatalogDef) -> int:
    """Versions below this one are gone for good."""
    text = definition.properties.get(EXPIRE_PURGED, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
