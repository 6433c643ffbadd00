"""The time by the store's own clock, which is what the ages of its files are measured by."""

from __future__ import annotations

import contextlib
import uuid

from olympia_cli.errors import OlympiaError
from olympia_cli.storage.protocol import TEMPORARY_PREFIX, Store


def store_now_millis(store: Store) -> int:
    """When a file was written that was written just now; it is gone afterwards."""
    path = f"{TEMPORARY_PREFIX}{uuid.uuid4()}"
    try:
        store.create(path, b"")
        return store.stat(path).modified_at_millis
    finally:
        # what is left behind is swept like any write in progress
        with contextlib.suppress(OlympiaError):
            store.delete_many([path])
