"""Does a store keep its word? Some servers take a conditional write and overwrite all the same."""

from __future__ import annotations

import contextlib

from olympia_cli.errors import ExclusiveCreateUnsupported, OlympiaError, PathMissing, PathTaken
from olympia_cli.storage.protocol import TEMPORARY_PREFIX, Store
from olympia_cli.uuids import new_uuid


def check_exclusive_create(store: Store) -> None:
    """Ask the store once, with a file of a random name that is gone afterwards: the second creation must lose
    and the first content stand. Raises ExclusiveCreateUnsupported otherwise.
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
            raise ExclusiveCreateUnsupported(f"{store.uri} does not keep the file that was created first")
    finally:
        # what went wrong above matters more than a small file left behind
        with contextlib.suppress(OlympiaError):
            store.delete_many([path])
