"""The revisions of one object, by its id, through renames."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from olympia_cli.catalog.lineage import living_name
from olympia_cli.catalog.references import at_version, oldest_version
from olympia_cli.catalog.replay import moved
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot
from olympia_cli.errors import Damaged, OlympiaError
from olympia_cli.format.actions import RENAMES, RESTORES, Action, new_name
from olympia_cli.format.paths import check_pointer
from olympia_cli.names import ObjectName, time_text
from olympia_cli.ops.inspect.changes import LogEntry, changed_fields, log
from olympia_cli.ops.inspect.describe import describe_object
from olympia_cli.tree.search import search_ahead

WINDOW = 32
"""The number of versions read together: as many roots as a store reads in parallel."""


@dataclass(frozen=True, slots=True)
class Revision:
    """A version that changed the object, with the object's name and definition after it. `after` is None if it was
    dropped.
    """

    entry: LogEntry
    change: str
    name: ObjectName
    after: CatalogObject[ObjectDefinition] | None
    fields: dict[str, tuple[Any, Any]]

    def describe(self) -> dict[str, Any]:
        entry = self.entry
        shown: dict[str, Any] = {
            "version": entry.version,
            "created_at": time_text(entry.created_at_millis or 0),
            "change": self.change,
            "namespace": self.name.namespace,
            "name": self.name.name,
            "by": entry.by or None,
            "message": entry.message or None,
            "undone_by": entry.undone_by,
            "fields": {key: {"from": old, "to": new} for key, (old, new) in self.fields.items()},
        }
        if self.after is not None:
            described = describe_object(self.after, entry.version)
            shown |= {key: described.get(key) for key in ("id", "metadata_location", "properties", "definition")}
        return shown


def history(
    latest: Snapshot,
    name: ObjectName,
    back_to: int = 0,
    unread: Callable[[int, Damaged], None] = lambda version, damaged: None,
) -> Iterator[Revision]:
    """Yield the revisions of an object, newest first, back to its creation, or to `back_to`, or to the oldest version.

    A dropped object is followed from the version that dropped it. If a version cannot be read, its changes appear in
    the revision of the next version, and `unread` is called with the reason.
    """
    current: ObjectName | None = name
    newer: CatalogObject[ObjectDefinition] | None = None
    with contextlib.suppress(Damaged):
        newer = latest.get(name)
    newer_entry: LogEntry | None = None
    id = newer.id if newer is not None else None
    entries = log(latest, max(back_to, oldest_version(latest)))
    while window := list(islice(entries, WINDOW)):
        if current is not None:
            # if an object is renamed within the window, its older name is read without this cache
            _read_ahead([entry.snapshot for entry in window if entry.snapshot is not None], current)
        for entry in window:
            if entry.snapshot is None:
                continue
            try:
                older = entry.snapshot.get(current) if current is not None else None
            except Damaged as damaged:
                unread(entry.version, damaged)
                current = None if current is None else _before(current, entry.changes)
                continue
            if older is not None and id is not None and older.id != id:
                older = None
            if older is not None and id is None:
                id = older.id
            if newer_entry is not None:
                revision = _revision(newer_entry, newer, older)
                if revision is not None:
                    yield revision
            newer, newer_entry = older, entry
            if current is None:
                continue
            if entry.rollback_to is not None and entry.version > 0:
                current = _before_rollback(id, current, entry, latest)
            else:
                current = _before(current, entry.changes)
    if newer_entry is not None and newer is not None:
        yield Revision(newer_entry, "created" if newer_entry.version == 0 else "oldest", newer.name, newer, {})


def _read_ahead(snapshots: Sequence[Snapshot], name: ObjectName) -> None:
    """Read the nodes on the way to an object in several versions of a catalog, one round trip per level.

    Errors are ignored; the later read of the same file raises them.
    """
    if not snapshots:
        return
    searches, paths = [], []
    for snapshot in snapshots:
        with contextlib.suppress(OlympiaError):
            searches.append((snapshot.root.node, snapshot.keys.encode(name)))
    catalog_defs = {snapshot.root.catalog_def for snapshot in snapshots}
    for path in (*catalog_defs, *search_ahead(snapshots[0].reader, searches)):
        with contextlib.suppress(Damaged):
            paths.append(check_pointer(path, path))
    for _ in snapshots[0].definitions.read(paths):
        pass


def _revision(
    entry: LogEntry, newer: CatalogObject[ObjectDefinition] | None, older: CatalogObject[ObjectDefinition] | None
) -> Revision | None:
    if newer is None and older is None:
        return None
    if newer is None:
        assert older is not None
        return Revision(entry, "dropped", older.name, None, {})
    if older is None:
        restored = any(action.type in RESTORES and action.name == newer.name for action in entry.changes)
        change = "rolled back" if entry.rollback_to is not None else "restored" if restored else "created"
        return Revision(entry, change, newer.name, newer, {})
    fields = changed_fields(older.definition, newer.definition)
    if entry.rollback_to is not None and (fields or newer.name != older.name):
        return Revision(entry, "rolled back", newer.name, newer, fields)
    if newer.name != older.name:
        return Revision(entry, "renamed", newer.name, newer, fields)
    return Revision(entry, "altered", newer.name, newer, fields) if fields else None


def _before_rollback(id: str | None, name: ObjectName, entry: LogEntry, latest: Snapshot) -> ObjectName:
    """Return the name of the object in the version before a rollback."""
    if id is None or entry.rollback_to is None:
        return name
    snapshot = at_version(entry.version - 1, latest)
    return living_name(id, name, entry.rollback_to, snapshot, ()) or name


def _before(name: ObjectName, actions: tuple[Action, ...]) -> ObjectName:
    """Return the name of the object before the actions."""
    for action in reversed(actions):
        if action.type in RENAMES and action.name is not None:
            name = moved(name, new_name(action), action.name)
    return name
