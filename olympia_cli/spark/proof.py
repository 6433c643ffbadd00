"""Proof that a process sees what the driver sees.

A folder may be missing on one machine of a cluster, or be another one there. What a task does not find is then no
damage, and what it writes is nowhere. So the driver leaves a file of a random name at the place for as long as it
works, and every other process looks for it once, before it is given the store: those of executors that join later, too.
"""

from __future__ import annotations

import socket
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256

from olympia_cli.catalog.versions import read_latest
from olympia_cli.errors import ExecutorUnprepared, OlympiaError, PathMissing
from olympia_cli.format.paths import EXPORT_NOTE
from olympia_cli.storage.protocol import TEMPORARY_PREFIX, Store

_seen: set[tuple[str, Proof]] = set()
"""What this process has seen: the driver, what it left itself."""


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
        if (store.uri, self) in _seen:
            return
        try:
            found = _digest(store.read(self.path)) == self.digest
        except PathMissing:
            found = False
        if not found:
            raise ExecutorUnprepared(
                f"the executor on {socket.gethostname()} does not see what is at {store.uri}: "
                "another place has that name there",
                hint="mount the same folder at the same path on every machine of the cluster, or use a bucket",
            )
        _seen.add((store.uri, self))


@contextmanager
def left_at(store: Store, note: Callable[[str], None]) -> Iterator[Proof | None]:
    """A proof that lies at a place to the end of the block. Where nothing can be written it is a file that stands
    there, which a copy of the place has too; where nothing stands there is none, and nobody needs one.

    The file is named as a write in progress: whoever lists a catalog passes over it, and an expire takes one away that
    was left behind.
    """
    if next(iter(store.list()), None) is None:
        # not even the folder is made
        yield None
        return
    path, data = f"{TEMPORARY_PREFIX}{uuid.uuid4()}", uuid.uuid4().bytes
    try:
        store.create(path, data)
    except OlympiaError as error:
        proof = _standing(store)
        held = "nothing" if proof is None else proof.path
        note(f"no file can be left at {store.uri} ({error.message}): executors are held to {held} instead")
        path = ""
    else:
        proof = Proof(path, _digest(data))
    if proof is not None:
        _seen.add((store.uri, proof))
    try:
        yield proof
    finally:
        if path:
            # what is left behind is swept like any write in progress
            with suppress(OlympiaError):
                store.delete_many([path])


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
