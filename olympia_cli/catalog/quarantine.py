"""What an expire has taken out of history and not yet deleted, as the catalog's definition holds it.

Quarantine is a list of marks. Each names its manifest, the file that says what would go, and the version that the
mark was committed as, whose age is how long it has rested.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from olympia_cli.catalog.snapshot import EXPIRE_PURGED
from olympia_cli.format.paths import MAX_VERSION
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.strict_json import read_json

EXPIRE_QUARANTINE = "olympia.expire.quarantine"
EXPIRE_PURGING = "olympia.expire.purging"
QUARANTINE_MILLIS = 86_400_000
"""How long a mark rests unless an expire is told otherwise."""


@dataclass(frozen=True, slots=True)
class QuarantineMark:
    """A commit that moved the oldest version from `former_oldest` to `oldest`, and is neither undone nor purged."""

    version: int
    oldest: int
    former_oldest: int
    manifest: str


def read_quarantine(definition: CatalogDef) -> list[QuarantineMark]:
    """The marks that rest, in the order of their commits.

    A list that cannot be read counts as none: nothing is freed by that, and the next mark finds the files again.
    """
    marks = []
    for entry in _entries(definition, EXPIRE_QUARANTINE):
        try:
            numbers = [entry[key] for key in ("version", "oldest", "former_oldest")]
            manifest = entry["manifest"]
        except (KeyError, TypeError):
            continue
        if all(type(number) is int and 0 <= number <= MAX_VERSION for number in numbers) and isinstance(manifest, str):
            marks.append(QuarantineMark(numbers[0], numbers[1], numbers[2], manifest))
    return sorted(marks, key=lambda mark: mark.version)


def resting_mark(definition: CatalogDef, version: int) -> QuarantineMark | None:
    """The mark that took a version out of history, while an undo still brings it back."""
    marks = read_quarantine(definition) if version >= purged_before(definition) else []
    return next((mark for mark in marks if mark.former_oldest <= version < mark.oldest), None)


def read_purging(definition: CatalogDef) -> list[str]:
    """The manifests whose purge was committed; those that are still there did not reach its end."""
    return [entry for entry in _entries(definition, EXPIRE_PURGING) if isinstance(entry, str)]


def write_purging(definition: CatalogDef, manifests: Sequence[str]) -> None:
    _write(definition, EXPIRE_PURGING, list(manifests))


def _entries(definition: CatalogDef, key: str) -> list[Any]:
    try:
        found = read_json(definition.properties.get(key, "[]"))
    except ValueError:
        return []
    return found if isinstance(found, list) else []


def write_quarantine(definition: CatalogDef, marks: Sequence[QuarantineMark]) -> None:
    _write(definition, EXPIRE_QUARANTINE, [asdict(mark) for mark in marks])


def _write(definition: CatalogDef, key: str, entries: list[Any]) -> None:
    if entries:
        definition.properties[key] = json.dumps(entries, separators=(",", ":"))
    else:
        definition.properties.pop(key, None)


def purged_before(definition: CatalogDef) -> int:
    """Versions below this one are gone for good."""
    text = definition.properties.get(EXPIRE_PURGED, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
