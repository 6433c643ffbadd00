"""Proof that a process sees the same files as the driver.

On one machine of a cluster, a folder may be missing, or its path may name another folder. A file that a task does not
find there is not damaged, and a file that it writes there is lost. So the driver creates a file with a random name at
the location. Every other process looks for that file once, before it gets the store; so do executors that join later.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from olympia_cli.catalog.versions import read_latest
from olympia_cli.errors import ExecutorUnprepared, OlympiaError, PathMissing
from olympia_cli.format.paths import EXPORT_NOTE
from olympia_cli.storage.protocol import TEMPORARY_PREFIX, Store

_checked_proofs: set[tuple[str, Proof]] = set()
"""Proofs that this process has verified."""


@dataclass(frozen=True, slots=True)
class Proof:
    """The path of a file, and the checksum of its bytes."""

    path: str
    digest: str

    def __str__(self) -> str:
        return f"{self.path} {self.digest}"

    @classmethod
    def parse(cls, text: str) -> Proof:
        path, _, digest = text.partition(" ")
        return cls(path, digest)

    def check(self, store: Store) -> None:
        """Raise ExecutorUnprepared unless the file is there with these bytes; checked once per process."""
        if (store.uri, self) in _checked_proofs:
            return
        try:
            is_same = _digest(store.read(self.path)) == self.digest
        except PathMissing:
            is_same = False
        if not is_same:
            raise ExecutorUnprepared(
                f"the executor on {socket.gethostname()} does not see the files at {store.uri}: "
                "on its machine, the location is missing or names something else",
                hint="mount the same folder at the same path on every machine of the cluster, or use a bucket",
            )
        _checked_proofs.add((store.uri, self))


def leave(store: Store) -> Proof:
    """Create a proof file at the store's location."""
    # named like a write in progress: listings of a catalog skip it, and an expire deletes it if it stays
    path, data = f"{TEMPORARY_PREFIX}{uuid.uuid4()}", uuid.uuid4().bytes
    store.create(path, data)
    return Proof(path, _digest(data))


class Leaving:
    """The driver's side of a proof, which turns into a Proof when it is pickled. The file is created when the first
    task is sent; a driver that does all the work itself creates none."""

    def __init__(self, store: Store, note: Callable[[str], None]) -> None:
        self._store = store
        self._note = note
        self.path: str | None = None

    @cached_property
    def proof(self) -> Proof | None:
        """Create the proof file. If the store is not writable, use an existing file, which a copy of the folder has
        too. Return None if the store is empty: no process needs a proof then."""
        store = self._store
        if next(iter(store.list()), None) is None:
            # a proof file would create the folder
            return None
        try:
            proof = leave(store)
        except OlympiaError as error:
            standing = _standing(store)
            token = "nothing" if standing is None else standing.path
            self._note(f"cannot write a file at {store.uri} ({error.message}): executors must see {token} instead")
            return standing
        self.path = proof.path
        return proof

    def __reduce__(self) -> tuple[type[Proof], tuple[str, str]] | tuple[Callable[[], None], tuple[()]]:
        return (_nothing, ()) if self.proof is None else (Proof, (self.proof.path, self.proof.digest))


def _nothing() -> None:
    return None


@contextmanager
def leaving(store: Store, note: Callable[[str], None]) -> Iterator[Leaving]:
    """Provide a proof for processes that are sent to a location; delete its file at the end of the block."""
    driver_side = Leaving(store, note)
    try:
        yield driver_side
    finally:
        if driver_side.path is not None:
            # an expire deletes a file that stays, like any write in progress
            with suppress(OlympiaError):
                store.delete_many([driver_side.path])


def _standing(store: Store) -> Proof | None:
    """Return a proof from the latest root, or from the note of an export."""
    with suppress(OlympiaError):
        root = read_latest(store)
        return Proof(root.path, _digest(root.data))
    with suppress(OlympiaError):
        return Proof(EXPORT_NOTE, _digest(store.read(EXPORT_NOTE)))
    return None


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
