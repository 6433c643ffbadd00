"""The exports of a catalog as plain values: the recorded ones, and the unfinished ones.

The catalog holds a note about each unfinished export, from the creation of the note at the destination until the
record. Errors of these notes are ignored.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from typing import Any

from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.exports import location_of, read_exports, root_uri
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import OlympiaError
from olympia_cli.format.paths import MAX_VERSION, UNFINISHED
from olympia_cli.masking import masked
from olympia_cli.names import time_text
from olympia_cli.ops.export.note import Note
from olympia_cli.ops.last_runs import leave_note, read_notes
from olympia_cli.storage.protocol import Store

MOST = 1000
"""The largest number of notes that is read."""


def list_exports(latest: Snapshot, now_millis: int) -> Iterator[dict[str, Any]]:
    """Yield every recorded export, by name. One with an unreadable record has the state `malformed`."""
    definition = latest.definition
    for name, record in read_exports(definition).items():
        root = definition.exported_snapshots.get(name, "")
        if isinstance(record, str):
            values: dict[str, Any] = {"at_version": None, "mode": None, "expires_at": None, "pin": None}
            state = "malformed"
        else:
            expires = record.expires_at_millis
            values = {
                "at_version": record.version,
                "mode": record.mode,
                "expires_at": None if expires is None else time_text(expires),
                "pin": record.pin,
            }
            state = "expired" if record.expired(now_millis) else "current"
        yield {"name": name, **values, "state": state, "location": masked(location_of(root)), "root": masked(root)}


def note_beginning(catalog: Store, clock: Clock, note: Note, location: str) -> None:
    """Write the catalog's note of an export that has begun."""
    values = {"name": note.name, "at_version": note.version, "mode": note.scope.mode.value, "location": location}
    leave_note(catalog, _path(note), clock, {"begun_at": time_text(clock.now_millis()), **values})


def note_end(catalog: Store, note: Note) -> None:
    """Delete the catalog's note of an export that is recorded."""
    with suppress(OlympiaError):
        catalog.delete_many([_path(note)])


def _path(note: Note) -> str:
    return f"{UNFINISHED}{note.id}.json"


def unfinished_exports(latest: Snapshot) -> list[dict[str, Any]]:
    """Return the exports that have begun and are not recorded, the oldest first."""
    recorded = set(latest.definition.exported_snapshots.items())
    found = (values for _, values in _notes(latest.store))
    rows = [
        {**row, "location": masked(row["location"])}
        for row in found
        if (row["name"], root_uri(row["location"], row["at_version"])) not in recorded
    ]
    return sorted(rows, key=lambda row: (row["begun_at"], row["name"]))


def forget_unfinished(latest: Snapshot, name: str) -> None:
    """Delete the catalog's notes of all exports of this name."""
    latest.store.delete_many([path for path, values in _notes(latest.store) if values["name"] == name])


def _notes(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the readable notes with their paths."""
    paths = [file.path for file in islice(store.list(UNFINISHED), MOST)]
    for path, note in zip(paths, read_notes(store, *paths), strict=True):
        values = {key: (note or {}).get(key) for key in ("name", "at_version", "mode", "location", "begun_at")}
        version = values.pop("at_version")
        is_version = type(version) is int and 0 <= version <= MAX_VERSION
        if is_version and all(isinstance(value, str) for value in values.values()):
            yield path, {"name": values["name"], "at_version": version, **values}
