"""The tables' files as PyIceberg opens them here: with the server's own settings, and read once.

What a client writes into a table's properties never decides how the server opens files: it could name an endpoint, or a
class to load. Metadata and manifests never change, so what was read lately is kept.
"""

from __future__ import annotations

import io
import os
import threading
from collections.abc import Callable

from pyiceberg.io import FileIO, InputFile, InputStream, OutputFile

from olympia_cli.iceberg.locations import LOCAL, place_of
from olympia_cli.rest.cache import ByteCache


class KeptFiles(FileIO):
    """Files of another FileIO, of which those that were read are kept."""

    def __init__(self, inner: FileIO, kept: ByteCache) -> None:
        super().__init__(inner.properties)
        self._inner = inner
        self._kept = kept

    def new_input(self, location: str) -> InputFile:
        return _Input(location, self._inner, self._kept)

    def new_output(self, location: str) -> OutputFile:
        return self._inner.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        self._inner.delete(location)


class _Input(InputFile):
    def __init__(self, location: str, inner: FileIO, kept: ByteCache) -> None:
        super().__init__(location)
        self._inner = inner
        self._kept = kept

    def __len__(self) -> int:
        return len(self._inner.new_input(self.location))

    def exists(self) -> bool:
        return self._inner.new_input(self.location).exists()

    def open(self, seekable: bool = True) -> InputStream:
        data = self._kept.get(self.location)
        if data is None:
            place = place_of(self.location)
            if place.store == LOCAL and not os.path.isfile(f"/{place.path}"):
                # a pipe would be waited for, and a device may have no end
                raise FileNotFoundError(f"{self.location} is no file")
            with self._inner.new_input(self.location).open() as stream:
                data = stream.read()
            self._kept.put(self.location, data)
        return io.BytesIO(data)


class Files:
    """One FileIO a kind of store."""

    def __init__(self, load: Callable[[str], FileIO], cache_bytes: int) -> None:
        self._load = load
        self._kept = ByteCache(cache_bytes)
        self._opened: dict[str, FileIO] = {}
        self._lock = threading.Lock()

    def of(self, location: str) -> FileIO:
        scheme = location.partition("://")[0] if "://" in location else "file"
        with self._lock:
            if scheme not in self._opened:
                self._opened[scheme] = KeptFiles(self._load(location), self._kept)
            return self._opened[scheme]
