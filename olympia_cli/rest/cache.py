"""A cache of immutable responses, limited in bytes."""

from __future__ import annotations

import threading
from collections.abc import Hashable


class ByteCache:
    """An LRU cache of bytes. Thread-safe."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._size = 0
        self._kept: dict[Hashable, bytes] = {}
        self._lock = threading.Lock()

    @property
    def size(self) -> int:
        return self._size

    def get(self, key: Hashable) -> bytes | None:
        with self._lock:
            found = self._kept.pop(key, None)
            if found is not None:
                self._kept[key] = found
            return found

    def put(self, key: Hashable, value: bytes) -> None:
        # a single entry must not evict all others
        if len(value) > self._limit // 4:
            return
        with self._lock:
            former = self._kept.pop(key, None)
            self._size += len(value) - len(former or b"")
            self._kept[key] = value
            while self._size > self._limit:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
