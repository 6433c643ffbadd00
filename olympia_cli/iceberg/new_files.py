"""Files that a transaction is to write when it is committed. Many of them wait on disk: it may make a hundred thousand
tables, and memory has room for the places of their metadata only."""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import IO

from olympia_cli.errors import StorageFailed
from olympia_cli.iceberg.locations import Location

_IN_MEMORY = 2**20


@dataclass(frozen=True, slots=True)
class NewFile:
    """A file's place and content."""

    location: Location
    content: bytes


class NewFiles:
    """Files by the text of their locations."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[int, int]] = {}
        self._kept = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self._lock = threading.Lock()
        weakref.finalize(self, _close, self._kept)

    def put(self, location: str, file: NewFile) -> None:
        data = pickle.dumps(file)
        with self._using() as kept:
            at = kept.seek(0, os.SEEK_END)
            kept.write(data)
            # a disk that is full is told now, and not by whoever reads
            kept.flush()
            self.places[location] = (at, len(data))

    def get(self, location: str) -> NewFile:
        at, length = self.places[location]
        with self._using() as kept:
            kept.seek(at)
            data = kept.read(length)
        file: NewFile = pickle.loads(data)
        return file

    @contextmanager
    def _using(self) -> Iterator[IO[bytes]]:
        try:
            with self._lock:
                yield self._kept
        except OSError as error:
            raise StorageFailed(
                f"metadata that is to be written cannot wait in {tempfile.gettempdir()}: {error.strerror}",
                hint="make room there, or name another folder in TMPDIR",
            ) from error


def _close(kept: IO[bytes]) -> None:
    # what could not be written is tried once more here
    with suppress(OSError):
        kept.close()
