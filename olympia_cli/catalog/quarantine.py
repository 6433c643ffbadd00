"""The quarantine in the catalog's definition: files that expire removed from the history but has not deleted yet.

The quarantine is a list of marks. A mark names its manifest, which lists the files to delete. It also names the version
of its commit, whose age is the time in quarantine.
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
"""The default time in quarantine."""


@dataclass(frozen=True, slots=True)
class QuarantineMark:
    """A commit that moved the oldest version from `former_oldest` to `oldest`, and is neither undone nor purged."""

    version: int
    oldest: int
    former_oldest: int
    manifest: str


def read_quarantine(definition: CatalogDef) -> list[QuarantineMark]:
    """Return the marks in quarantine, in the order of their commits.

    A list that cannot be read counts as empty. No files are deleted then, and the next mark finds them again.
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
    """Return the mark that removed a version from the history, if an undo can still restore it."""
    marks = read_quarantine(definition) if version >= purged_before(definition) else []
    return next((mark for mark in marks if mark.former_oldest <= version < mark.oldest), None)


def read_purging(definition: CatalogDef) -> list[str]:
    """Return the manifests of committed purges. A manifest file that still exists belongs to an incomplete purge."""
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
    """Return the version below which all versions are permanently deleted."""
    text = definition.properties.get(EXPIRE_PURGED, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0
