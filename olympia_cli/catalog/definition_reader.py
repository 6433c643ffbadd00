"""Read definition files, with a cache."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence

from olympia_cli.errors import StoreError
from olympia_cli.storage.protocol import Store


class DefinitionReader:
    """The bytes of files by path, with a cache of small files. Files never change."""

    KEEP = 20_000
    SMALL = 4096

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def read(self, paths: Sequence[str]) -> Iterator[bytes | StoreError]:
        """Yield the files in order. Files that are not cached are read in parallel."""
        found = {path: self._kept.get(path) for path in paths}
        missing = [path for path, data in found.items() if data is None]
        read = iter(self._store.read_many(missing) if missing else ())
        results: dict[str, bytes | StoreError] = {path: data for path, data in found.items() if data is not None}
        for path in paths:
            while path not in results:
                arrived, data = next(read)
                results[arrived] = data
                if isinstance(data, bytes):
                    self.remember(arrived, data)
            yield results[path]

    def remember(self, path: str, data: bytes) -> None:
        """Cache a file that was just read or written, if it is small."""
        if len(data) <= self.SMALL:
            self.keep(path, data)

    def knows(self, path: str) -> bool:
        """Return True if the file is cached."""
        return path in self._kept

    def forget(self, path: str) -> None:
        """Remove a damaged file from the cache, because it may be repaired."""
        with self._lock:
            self._kept.pop(path, None)

    def keep(self, path: str, data: bytes) -> None:
        """Cache a file that was read elsewhere."""
        with self._lock:
            while len(self._kept) >= self.KEEP:
                self._kept.pop(next(iter(self._kept)))
            self._kept[path] = data
