"""Notes about the last runs of operations, kept in the catalog for `status`: one small file per operation.

Only reports use these notes. A note that cannot be written is no error, and a damaged note counts as missing.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any, NamedTuple

from olympia_cli.catalog.clock import Clock
from olympia_cli.errors import FileTooLarge, OlympiaError, PathMissing, StoreError
from olympia_cli.format.strict_json import read_json
from olympia_cli.names import time_text
from olympia_cli.storage.protocol import Store

LAST_EXPIRE = "ops/last-expire.json"
LAST_EXPORT = "ops/last-export.json"
MAX_DEPTH = 8
DEEP = ("full", "data")
"""Levels of fsck that read more than an fsck without options."""


def leave_note(store: Store, path: str, clock: Clock, values: dict[str, Any]) -> None:
    """Write the note of a run that has just ended. Ignore errors."""
    document = {"finished_at": time_text(clock.now_millis()), **values}
    with suppress(OlympiaError):
        store.overwrite(path, json.dumps(document).encode())


def read_note(store: Store, path: str) -> dict[str, Any] | None:
    """Return the note, or None if it is missing or damaged."""
    return read_notes(store, path)[0]


def read_notes(store: Store, *paths: str) -> list[dict[str, Any] | None]:
    """Read several notes in one round trip. A note is None if it is missing or damaged."""
    return [_decoded(data) for _, data in store.read_many(paths)]


def _decoded(data: bytes | StoreError) -> dict[str, Any] | None:
    if isinstance(data, PathMissing | FileTooLarge):
        return None
    if isinstance(data, Exception):
        raise data
    try:
        note = read_json(data)
    except ValueError:
        return None
    return note if isinstance(note, dict) and _is_flat(note, MAX_DEPTH) else None


def _is_flat(value: object, levels: int) -> bool:
    """Return whether the value has at most `levels` levels, so that recursive code cannot exhaust the stack."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_flat(item, levels - 1) for item in inside)


class FoundDamage(NamedTuple):
    """Damage that fsck found and no later run has cleared: when, and the command that checks again."""

    finished_at: str
    words: tuple[str, ...]


def found_damage(note: bytes | StoreError | None) -> FoundDamage | None:
    """Return the damage that fsck found, by the note of the last runs, or None.

    Every commit calls this, so it reads no other file.
    """
    record = _decoded(note) if isinstance(note, bytes) else None
    runs = (record or {}).get("runs")
    for run in runs if isinstance(runs, list) else [record]:
        if isinstance(run, dict) and run.get("damaged") is True and run.get("latest") is not False:
            # a shallower fsck may say that the catalog is sound
            depth = ("--level", run["level"]) if run.get("level") in DEEP else ()
            past = ("--all-versions",) if run.get("all_versions") is True else ()
            return FoundDamage(str(run.get("finished_at", ""))[:16], ("fsck", *depth, *past))
    return None
