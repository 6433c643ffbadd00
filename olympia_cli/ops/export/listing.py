"""The exports of a catalog, as plain values for any output."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from olympia_cli.catalog.exports import location_of, read_exports
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.masking import masked
from olympia_cli.names import time_text


def list_exports(latest: Snapshot, now_millis: int) -> Iterator[dict[str, Any]]:
    """Every recorded export, by name. One whose record cannot be read is listed as such."""
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
