"""A store in the memory of this process, for tests and demonstrations."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping

from olympia_cli.errors import FileTooLarge, OlympiaError, PathMissing, PathOutside, PathTaken, StoreError
from olympia_cli.storage.protocol import (
    ALL,
    Between,
    FileInfo,
    InTurn,
    SizeLimit,
    check_path,
    is_between,
    is_temporary,
    largest,
)


class MemoryStore(InTurn):
    """Files in a dict. Two stores over the same dict share their files."""

    def __init__(
        self,
        name: str = "",
        files: dict[str, tuple[bytes, int]] | None = None,
        now_millis: Callable[[], int] = lambda: time.time_ns() // 1_000_000,
    ) -> None:
        self.size_limit: SizeLimit = largest
        self.lost_hints: dict[str, OlympiaError] = {}
        self._name = name
        self._now = now_millis
        self._files: dict[str, tuple[bytes, int]] = {} if files is None else files
        self._lock = threading.Lock()

    @property
    def uri(self) -> str:
        return f"memory://{self._name}"

    def read(self, path: str) -> bytes:
        data = self._found(path)[0]
        if len(data) > (limit := self.size_limit(path)):
            raise FileTooLarge.of(path, len(data), limit)
        return data

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        for path in paths:
            try:
                yield path, self.read(path)
            except (PathMissing, PathOutside, FileTooLarge) as error:
                yield path, error

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self._found(path)[0][start : start + length]

    def create(self, path: str, data: bytes) -> None:
        entry = (bytes(data), self._now())
        with self._lock:
            if self._files.setdefault(check_path(path), entry)[0] != entry[0]:
                raise PathTaken(f"{path} in {self.uri} is taken")

    def create_many(self, files: Mapping[str, bytes]) -> None:
        for path in files:
            check_path(path)
        for path, data in files.items():
            self.create(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        with self._lock:
            self._files[check_path(path)] = (bytes(data), self._now())

    def write_hint(self, path: str, data: bytes) -> None:
        self.overwrite(path, data)

    def exists(self, path: str) -> bool:
        return check_path(path) in self._files

    def stat(self, path: str) -> FileInfo:
        data, modified_at_millis = self._found(path)
        return FileInfo(path, len(data), modified_at_millis)

    def list(self, prefix: str = "", temporary: bool = False, between: Between = ALL) -> Iterator[FileInfo]:
        with self._lock:
            found = [(path, entry) for path, entry in self._files.items() if path.startswith(prefix)]
        for path, (data, modified) in found:
            if (temporary or not is_temporary(path)) and is_between(path, between):
                yield FileInfo(path, len(data), modified)

    def delete_many(self, paths: Iterable[str]) -> None:
        with self._lock:
            for path in paths:
                self._files.pop(check_path(path), None)

    def close(self) -> None:
        pass

    def _found(self, path: str) -> tuple[bytes, int]:
        found = self._files.get(check_path(path))
        if found is None:
            raise PathMissing(f"no file {path} in {self.uri}")
        return found


_shared: dict[str, MemoryStore] = {}


def shared(name: str) -> MemoryStore:
    """Return the store with this name, so that `memory://name` is the same store throughout the process."""
    return _shared.setdefault(name, MemoryStore(name))
