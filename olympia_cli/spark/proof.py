"""Proof that a process sees the same files as the driver.

On one machine of a cluster, a folder may be missing, or its path may name another folder. A file that a task does not
find there is not damaged, and a file that it writes there is lost. So the driver creates a file with a random name at
the location. Every other process looks for that file once, before it gets the store; so do executors that join later.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import socket
import tempfile
import uuid
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from pathlib import Path
from zipimport import zipimporter

import olympia_cli
from olympia_cli.catalog.versions import read_latest
from olympia_cli.errors import ExecutorUnprepared, OlympiaError, PathMissing
from olympia_cli.format.paths import EXPORT_NOTE
from olympia_cli.storage.protocol import TEMPORARY_PREFIX, Store

# This package's code as one zip file for Spark's executors. Its dependencies must be installed there.

# a fixed time, so that equal code makes equal files; zip files hold no time before 1980
_TIME = (1980, 1, 1, 0, 0, 0)
_PREFIX = "olympia-spark-"
_LOCK = "in-use"


@lru_cache(maxsize=1)
def package_zip() -> str:
    """Return the path of the zip file, which is made once per process and removed at its end. If the process is killed,
    the next process that makes a zip file removes it.

    The name contains a checksum of the code: Spark refuses a second, different file of the same name.
    """
    loader: object = olympia_cli.__spec__.loader if olympia_cli.__spec__ is not None else None
    if isinstance(loader, zipimporter):
        # a job that was submitted with it
        return str(loader.archive)
    folder = Path(olympia_cli.__file__).parent
    sources = {path.relative_to(folder.parent).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.py"))}
    digest = sha256()
    for name, data in sources.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    path = _own_folder() / f"olympia_cli-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in sources.items():
            file.writestr(zipfile.ZipInfo(name, _TIME), data, zipfile.ZIP_DEFLATED)
    return str(path)


def _own_folder() -> Path:
    """Create a folder that exists as long as this process: Spark serves the file from there. A file lock marks the
    folder as in use, and ends with the process."""
    for leftover in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _remove_unused(leftover)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # renamed only once it is locked, so that no other process takes the folder for unused
    os.rename(folder / "lock", folder / _LOCK)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_unused(folder: Path) -> None:
    """Remove the folder of a process that has ended. Raise OSError if it is in use, or belongs to another user."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)


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
