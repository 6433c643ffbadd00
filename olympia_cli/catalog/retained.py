"""Entries in the catalog's definition that keep files or record their deletion: exports, the quarantine of expire,
acknowledged damage, and lost versions.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeGuard
from urllib.parse import quote, unquote

from olympia_cli.catalog.properties import (
    ACKNOWLEDGED,
    EXPIRE_PURGED,
    EXPIRE_PURGING,
    EXPIRE_QUARANTINE,
    EXPORT_PREFIX,
    PROMOTED,
    PROTECTING,
)
from olympia_cli.errors import ExportNotFound, quoted
from olympia_cli.format.paths import MAX_VERSION, WIDTH, parse_root_path, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.strict_json import read_json

# Entries in the catalog's definition that protect files or record their deletion: exports, expires, acknowledged
# damage, and the last promotion.


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
    if PROMOTED not in definition.properties:
        return None
    try:
        record = read_json(definition.properties[PROMOTED])
        version, through = record["version"], record["through"]
    except (ValueError, TypeError, KeyError):
        return None
    is_known = all(type(number) is int and 0 <= number <= MAX_VERSION for number in (version, through))
    return Promotion(version, through) if is_known else None


def write_promotion(definition: CatalogDef, promotion: Promotion) -> None:
    definition.properties[PROMOTED] = json.dumps(asdict(promotion), separators=(",", ":"))


def lost_versions(hint: int | None, latest: int, definition: CatalogDef | None) -> range:
    """Return the versions after the latest one whose roots are lost. `vn/latest` is written after the root, so a hint
    that is ahead names the last of them.

    Roots that an unfinished promotion recorded as lost do not count: it skips their numbers when it is run again.
    """
    if hint is None or hint <= latest:
        return range(0)
    promotion = None if definition is None else read_promotion(definition)
    return range(latest + 1, hint + 1) if promotion is None or hint > promotion.through else range(0)


def lost_reason(lost: range) -> str:
    """Return the reason of F114, for the versions that are lost."""
    first, last = lost[0], lost[-1]
    which = f"version {last} is" if first == last else f"versions {first} to {last} are"
    return f"it says {last}, and the last root is that of version {first - 1}: {which} lost"


def kept_aside_before(definition: CatalogDef) -> int:
    """Return the first version after the former catalog's versions, or 0 without a known promotion."""
    promotion = read_promotion(definition)
    return 0 if promotion is None else promotion.version


# The exports recorded in a catalog's definition.

FULL = "full"
MODES = (FULL, "partial", "minimal")


@dataclass(frozen=True, slots=True)
class ExportRecord:
    """An export: its version, its root's location, and what it keeps alive in this catalog.

    `pin` is the path of a copy of the root in this catalog, for an export that shares files with it. All files below
    the pin are kept until the export expires or is dropped.
    """

    name: str
    root: str
    version: int
    mode: str
    expires_at_millis: int | None
    pin: str | None

    @property
    def location(self) -> str:
        """The location of the export."""
        return location_of(self.root)

    @property
    def shares_files(self) -> bool:
        """True if the export needs files of this catalog: those below its pin or, without a pin, all of its version."""
        return self.pin is not None or self.mode != FULL

    def expired(self, now_millis: int) -> bool:
        return self.expires_at_millis is not None and self.expires_at_millis <= now_millis


def read_exports(definition: CatalogDef) -> dict[str, ExportRecord | str]:
    """Return every export by name, in order, or the problem with its record."""
    recorded = {key.removeprefix(EXPORT_PREFIX) for key in definition.properties if key.startswith(EXPORT_PREFIX)}
    return {name: _read(name, definition) for name in sorted(recorded.union(definition.exported_snapshots))}


def find_export(name: str, definition: CatalogDef) -> ExportRecord:
    if name not in definition.exported_snapshots:
        raise ExportNotFound(f"there is no export {quoted(name)}", hint="list the exports", command=("export", "ls"))
    record = _parse(name, definition)
    if isinstance(record, str):
        raise ExportNotFound(f"the record of the export {name} {record}", hint="open the export at its own location")
    return record


def root_uri(location: str, version: int, width: int = WIDTH) -> str:
    """Return the URI of an export's root, given the export's location."""
    if "://" not in location:
        # a plain path is not a URI, and a file:// URI is percent-encoded
        location = "file://" + quote(os.fsencode(location.rstrip("/")))
    return f"{location}/{root_path(version, width)}"


def location_of(uri: str) -> str:
    """Return the location of an export, given the URI of its root."""
    folder, _, name = uri.rpartition("/")
    above, _, last = folder.rpartition("/")
    if last == "vn" and parse_root_path(f"vn/{name}") is not None:
        uri = above
    return (unquote(uri.removeprefix("file://")) or "/") if uri.startswith("file://") else uri


def parse_record(name: str, root: str, text: str | None) -> ExportRecord | str:
    """Return the record of an export, or the problem with it."""
    if text is None:
        return "is missing"
    try:
        found = read_json(text)
    except ValueError:
        return "is not JSON"
    if not isinstance(found, dict):
        return "is not an object"
    version, mode, expires_at, pin = (found.get(key) for key in ("version", "mode", "expires_at", "pin"))
    if not _is_number(version):
        return "does not say its version"
    if not isinstance(mode, str | None):
        return f"has the mode {str(mode)[:40]!a}"
    if expires_at is not None and not _is_number(expires_at):
        return f"expires at {str(expires_at)[:40]!a}, which is not a time"
    if not isinstance(pin, str | None):
        return "has a pin that is no path"
    return ExportRecord(name, root, version, mode or "", expires_at, pin)


def _is_number(value: object) -> TypeGuard[int]:
    return type(value) is int and 0 <= value < 2**63


def _parse(name: str, definition: CatalogDef) -> ExportRecord | str:
    text = definition.properties.get(EXPORT_PREFIX + name)
    return parse_record(name, definition.exported_snapshots.get(name, ""), text)


def _read(name: str, definition: CatalogDef) -> ExportRecord | str:
    record = _parse(name, definition)
    if name not in definition.exported_snapshots:
        return "has no location"
    if isinstance(record, ExportRecord) and record.mode not in MODES:
        return f"has the mode {record.mode[:40]!a}" if record.mode else "does not say its mode"
    return record


# Acknowledged damage of older versions, as recorded in the catalog's definition.

KnownDamage = dict[tuple[str, str], list[tuple[int, int]]]
"""Ranges of affected versions (first, last), by the code of the finding and the path of the file."""

_IN_THE_WAY = ("F1", "F2", "F3")
"""Prefixes of findings that prevent a walk over all files of a version: roots, nodes and definitions."""


def read_acknowledged(definition: CatalogDef) -> KnownDamage:
    """Return the acknowledged damage. A record that cannot be read counts as empty, so that more is reported, not
    less.
    """
    known: KnownDamage = {}
    if ACKNOWLEDGED not in definition.properties:
        return known
    try:
        for entry in read_json(definition.properties[ACKNOWLEDGED]):
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


# The quarantine in the catalog's definition: files that expire removed from the history but has not deleted yet.
#
# The quarantine is a list of marks. A mark names its manifest, which lists the files to delete. It also names the
# version of its commit, whose age is the time in quarantine.

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
    if key not in definition.properties:
        return []
    try:
        found = read_json(definition.properties[key])
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
