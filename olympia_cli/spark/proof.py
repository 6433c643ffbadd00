"""Proof that a process sees what the driver sees.

A folder may be missing on one machine of a cluster, or be another one there. What a task does not find is then no
damage, and what it writes is nowhere. So the driver leaves a file of a random name at the place that it sends tasks to,
and every other process looks for it once, before it is given the store: those of executors that join later, too.
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
"""What this process has seen."""


@dataclass(frozen=True, slots=True)
class Proof:
    """A file at a place, and a digest of what is in it."""

    path: str
    digest: str

    def __str__(self) -> str:
        return f"{self.path} {self.digest}"

    @classmethod
    def parse(cls, text: str) -> Proof:
        path, _, digest = text.partition(" ")
        return cls(path, digest)

    def check(self, store: Store) -> None:
        """Raise ExecutorUnprepared unless the file is there; asked once in each process."""
        if (store.uri, self) in _checked_proofs:
            return
        try:
            is_same = _digest(store.read(self.path)) == self.digest
        except PathMissing:
            is_same = False
        if not is_same:
            raise ExecutorUnprepared(
                f"the executor on {socket.gethostname()} does not see what is at {store.uri}: "
                "another place has that name there",
                hint="mount the same folder at the same path on every machine of the cluster, or use a bucket",
            )
        _checked_proofs.add((store.uri, self))


def leave(store: Store) -> Proof:
    """A new file there, for others to look for."""
    # named as a write in progress: whoever lists a catalog passes over it, and an expire takes it away if it stays
    path, data = f"{TEMPORARY_PREFIX}{uuid.uuid4()}", uuid.uuid4().bytes
    store.create(path, data)
    return Proof(path, _digest(data))


class Leaving:
    """The driver's side of a proof, which becomes one where it is sent: the file is left when a task is first told of
    the place. A driver that does all the work itself leaves none."""

    def __init__(self, store: Store, note: Callable[[str], None]) -> None:
        self._store = store
        self._note = note
        self.path: str | None = None

    @cached_property
    def proof(self) -> Proof | None:
        """Where nothing can be written it is a file that stands there, which a copy of the place has too; where nothing
        stands there is none, and nobody needs one."""
        store = self._store
        if next(iter(store.list()), None) is None:
            # not even the folder is made
            return None
        try:
            proof = leave(store)
        except OlympiaError as error:
            standing = _standing(store)
            token = "nothing" if standing is None else standing.path
            self._note(f"no file can be left at {store.uri} ({error.message}): executors are held to {token} instead")
            return standing
        self.path = proof.path
        return proof

    def __reduce__(self) -> tuple[type[Proof], tuple[str, str]] | tuple[Callable[[], None], tuple[()]]:
        return (_nothing, ()) if self.proof is None else (Proof, (self.proof.path, self.proof.digest))


def _nothing() -> None:
    return None


@contextmanager
def leaving(store: Store, note: Callable[[str], None]) -> Iterator[Leaving]:
    """A proof for whoever is sent to a place; what is left for it is gone at the end of the block."""
    driver_side = Leaving(store, note)
    try:
        yield driver_side
    finally:
        if driver_side.path is not None:
            # what is left behind is swept like any write in progress
            with suppress(OlympiaError):
                store.delete_many([driver_side.path])


def _standing(store: Store) -> Proof | None:
    """The newest root, or the note of an export."""
    with suppress(OlympiaError):
        root = read_latest(store)
        return Proof(root.path, _digest(root.data))
    with suppress(OlympiaError):
        return Proof(EXPORT_NOTE, _digest(store.read(EXPORT_NOTE)))
    return None


def _digest(data: bytes) -> str:
    return sha256(data).hexdigest()
