"""Check that a store supports exclusive creation. Some servers accept a conditional write but overwrite the object."""

from __future__ import annotations

import contextlib

from olympia_cli.errors import ExclusiveCreateUnsupported, OlympiaError, PathMissing, PathTaken
from olympia_cli.storage.protocol import TEMPORARY_PREFIX, Store
from olympia_cli.uuids import new_uuid


def check_exclusive_create(store: Store) -> None:
    """Create a file with a random name twice, then delete it.

    Raise ExclusiveCreateUnsupported unless the second creation fails and the first content stays.
    """
    path = f"{TEMPORARY_PREFIX}{new_uuid()}"
    first, second = b"first", b"second"
    try:
        store.create(path, first)
        try:
            store.create(path, second)
        except PathTaken:
            pass
        else:
            raise ExclusiveCreateUnsupported(f"{store.uri} lets a second creation of a file overwrite the first")
        try:
            found = store.read(path)
        except PathMissing:
            found = b""
        if found != first:
            raise ExclusiveCreateUnsupported(f"{store.uri} lost the first content when a file was created twice")
    finally:
        # the error above matters more than a small leftover file
        with contextlib.suppress(OlympiaError):
            store.delete_many([path])
