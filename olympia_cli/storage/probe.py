"""Find out which operations a store allows, by trying them with one file of a random name."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from olympia_cli.errors import ExclusiveCreateUnsupported, OlympiaError, PathMissing, PathTaken
from olympia_cli.names import new_uuid
from olympia_cli.storage.protocol import TEMPORARY_PREFIX, Store

# Find out which operations a store allows, by trying them with one file of a random name.

READS = ("list", "read")
WRITES = ("create", "create exclusively", "delete")


@dataclass(slots=True)
class Probes:
    """The operations that were tried, each with its error or None. Operations that could not be tried are missing.

    `left_behind` is the path of the test file if it could not be deleted. `stored_at_millis` is its creation time by
    the store's clock.
    """

    tried: dict[str, OlympiaError | None] = field(default_factory=dict)
    left_behind: str | None = None
    stored_at_millis: int | None = None

    def attempt(self, what: str, do: Callable[[], None]) -> bool:
        try:
            do()
            self.tried[what] = None
        except OlympiaError as error:
            self.tried[what] = error
        return self.tried[what] is None


def probe(store: Store, *, write: bool) -> Probes:
    """Try the operations that the program needs:

    1. List.
    2. Read.
    3. Create.
    4. Create the same file again, which must fail and change nothing.
    5. Delete.

    Without `write`, try only the first two.
    """
    probes = Probes()
    path = f"{TEMPORARY_PREFIX}{new_uuid()}"
    probes.attempt("list", lambda: _first(store.list("vn/")))
    probes.attempt("read", lambda: _read_nothing(store, path))
    if not write or not probes.attempt("create", lambda: store.create(path, b"first")):
        return probes
    try:
        probes.attempt("create exclusively", lambda: _create_again(store, path, probes))
    finally:
        if not probes.attempt("delete", lambda: store.delete_many([path])):
            probes.left_behind = path
    return probes


def _first(listing: Iterator[object]) -> None:
    next(listing, None)


def _read_nothing(store: Store, path: str) -> None:
    """Read a missing file. Without permission to read, the store reports that instead of a missing file."""
    try:
        store.read(path)
    except PathMissing:
        return


def _create_again(store: Store, path: str, probes: Probes) -> None:
    probes.stored_at_millis = store.stat(path).modified_at_millis
    try:
        store.create(path, b"second")
    except PathTaken:
        if store.read(path) == b"first":
            return
    raise ExclusiveCreateUnsupported(f"{store.uri} lets a second creation of a file overwrite the first")


# Check that a store supports exclusive creation. Some servers accept a conditional write but overwrite the object.


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
