"""Files that a transaction writes at its commit.

Large amounts are kept in a temporary file: a transaction may create a hundred thousand tables. Memory then holds only
the positions.
"""

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
    """The location and content of a file."""

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
            # so that a full disk is reported now, and not on reading
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
                f"staged metadata cannot be kept in {tempfile.gettempdir()}: {error.strerror}",
                hint="free space there, or set TMPDIR to another folder",
            ) from error


def _close(kept: IO[bytes]) -> None:
    # closing repeats a failed write
    with suppress(OSError):
        kept.close()
