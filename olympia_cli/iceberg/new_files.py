"""Files that a transaction is to write when it is committed. Many of them wait on disk: it may make a hundred thousand
tables, and memory has room for the places of their metadata only."""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import weakref

from pyiceberg.typedef import Properties

_IN_MEMORY = 2**20


class NewFiles:
    """What is to be at which location, with the properties of its table, which say how it is written."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[int, int]] = {}
        self._kept = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self._lock = threading.Lock()
        weakref.finalize(self, self._kept.close)

    def put(self, location: str, content: bytes, properties: Properties) -> None:
        data = pickle.dumps((content, dict(properties)))
        with self._lock:
            self.places[location] = (self._kept.seek(0, os.SEEK_END), len(data))
            self._kept.write(data)

    def get(self, location: str) -> tuple[bytes, Properties]:
        at, length = self.places[location]
        with self._lock:
            self._kept.seek(at)
            data = self._kept.read(length)
        content, properties = pickle.loads(data)
        return content, properties
