"""Answers that never change, as many as a number of bytes allows."""

from __future__ import annotations

import threading
from collections.abc import Hashable


class ByteCache:
    """Bytes by key; those that were not asked for lately go first. Safe for several threads."""

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
        # one answer must not drive all others out
        if len(value) > self._limit // 4:
            return
        with self._lock:
            former = self._kept.pop(key, None)
            self._size += len(value) - len(former or b"")
            self._kept[key] = value
            while self._size > self._limit:
                self._size -= len(self._kept.pop(next(iter(self._kept))))
