"""The growth of a catalog per day, from few reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from olympia_cli.catalog.catalog import DAY_MILLIS
from olympia_cli.catalog.references import at_version, oldest_version, resolve
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import OlympiaError, PathMissing, VersionNotFound
from olympia_cli.format.paths import root_path
from olympia_cli.names import AtTime, Kind, time_text
from olympia_cli.storage.protocol import FileInfo

WINDOW_MILLIS = 7 * DAY_MILLIS
SHORTEST_MILLIS = 3_600_000
"""The shortest time for which a rate per day is computed."""


def growth(snapshot: Snapshot, oldest: int, stored_at_millis: int) -> dict[str, Any]:
    """Return the number of versions per day since the oldest version, by the store's clock. One request."""
    try:
        first = snapshot.store.stat(root_path(oldest, snapshot.file.width)).modified_at_millis
    except PathMissing:
        return {"versions_per_day": None, "since_at": None}
    rate = _per_day(snapshot.version - oldest, stored_at_millis - first)
    return {"versions_per_day": rate, "since_at": time_text(first)}


def growth_in_full(snapshot: Snapshot, objects: int, listing: Sequence[FileInfo]) -> dict[str, Any]:
    """Return objects per day, compared with the version of a week ago, and bytes per day, counted by the files that
    still exist.
    """
    end = max(file.modified_at_millis for file in listing)
    begin = max(min(file.modified_at_millis for file in listing), end - WINDOW_MILLIS)
    written = sum(file.size for file in listing if file.modified_at_millis > begin)
    return {"bytes_per_day": _per_day(written, end - begin), "objects_per_day": _objects(snapshot, objects)}


def count_objects(snapshot: Snapshot) -> dict[str, int]:
    return {kind.word + "s": sum(1 for _ in snapshot.scan(kind)) for kind in (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)}


def _objects(snapshot: Snapshot, now: int) -> float | None:
    """Return None if the older version cannot be read."""
    end = snapshot.created_at_millis
    try:
        before = _week_ago(snapshot, end - WINDOW_MILLIS)
        return _per_day(now - sum(count_objects(before).values()), end - before.created_at_millis)
    except OlympiaError:
        return None


def _week_ago(snapshot: Snapshot, millis: int) -> Snapshot:
    try:
        return resolve(AtTime(millis), snapshot, millis)
    except VersionNotFound:
        return at_version(oldest_version(snapshot), snapshot)


def _per_day(count: int, millis: int) -> float | None:
    return round(count * DAY_MILLIS / millis, 2) if millis >= SHORTEST_MILLIS else None
