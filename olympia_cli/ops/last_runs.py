"""What ran last, left in the catalog for `status`: a small file for each kind of work, written as well as can be.

Nothing depends on these notes but what `status` and `doctor` say, so one that cannot be written is no error, and one
that cannot be read is none.
"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

from olympia_cli.catalog.clock import Clock
from olympia_cli.errors import FileTooLarge, OlympiaError, PathMissing, StoreError
from olympia_cli.format.strict_json import read_json
from olympia_cli.names import time_text
from olympia_cli.storage.protocol import Store

LAST_EXPIRE = "ops/last-expire.json"
LAST_EXPORT = "ops/last-export.json"
MAX_DEPTH = 8


def leave_note(store: Store, path: str, clock: Clock, values: dict[str, Any]) -> None:
    """Leave word of a run that ended now."""
    document = {"finished_at": time_text(clock.now_millis()), **values}
    with suppress(OlympiaError):
        store.overwrite(path, json.dumps(document).encode())


def read_note(store: Store, path: str) -> dict[str, Any] | None:
    """The note, or None when there is none that can be read."""
    return read_notes(store, path)[0]


def read_notes(store: Store, *paths: str) -> list[dict[str, Any] | None]:
    """Several of them, in one round trip."""
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
    """Whether it is nested no deeper than a note is: who goes through it is not to come to the end of the stack."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return levels > 0 and all(_is_flat(item, levels - 1) for item in inside)


def found_damage(note: bytes | StoreError | None) -> str | None:
    """Return when a run of fsck found damage that no later run has cleared, by the note of the last one; None if no run
    did. Every commit asks this, so no more than the note is needed."""
    record = _decoded(note) if isinstance(note, bytes) else None
    runs = (record or {}).get("runs")
    for run in runs if isinstance(runs, list) else [record]:
        if isinstance(run, dict) and run.get("damaged") is True and run.get("latest") is not False:
            return str(run.get("finished_at", ""))[:16]
    return None
