"""The exports recorded in a catalog's definition."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TypeGuard
from urllib.parse import quote, unquote

from olympia_cli.catalog.snapshot import EXPORT_PREFIX
from olympia_cli.errors import ExportNotFound, quoted
from olympia_cli.format.paths import WIDTH, parse_root_path, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.strict_json import read_json

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
