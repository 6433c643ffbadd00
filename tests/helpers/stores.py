"""Stores over other stores, which count, die or lose replies. Each is a Store itself.

A *write* is one file: `create`, `overwrite`, `write_hint`, each file of `create_many` and each path of
`delete_many`, in the order in which they are given. Writes are numbered from 0.
"""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from typing import Literal

from olympia_cli.errors import OlympiaError, OutcomeUnknown, PathMissing, PathTaken, StorageFull, StoreError
from olympia_cli.storage.protocol import ALL, Between, FileInfo, InTurn, SizeLimit, Store, check_path


class WrappedStore(InTurn):
    """Passes everything on to the store inside."""

    def __init__(self, store: Store) -> None:
        self.inner = store

    @property
    def uri(self) -> str:
        return self.inner.uri

    @property
    def size_limit(self) -> SizeLimit:
        return self.inner.size_limit

    @size_limit.setter
    def size_limit(self, limit: SizeLimit) -> None:
        self.inner.size_limit = limit

    @property
    def lost_hints(self) -> dict[str, OlympiaError]:
        return self.inner.lost_hints

    def read(self, path: str) -> bytes:
        return self.inner.read(path)

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        return self.inner.read_many(paths)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self.inner.read_range(path, start, length)

    def create(self, path: str, data: bytes) -> None:
        self.inner.create(path, data)

    def create_many(self, files: Mapping[str, bytes]) -> None:
        self.inner.create_many(files)

    def overwrite(self, path: str, data: bytes) -> None:
        self.inner.overwrite(path, data)

    def write_hint(self, path: str, data: bytes) -> None:
        self.inner.write_hint(path, data)

    def exists(self, path: str) -> bool:
        return self.inner.exists(path)

    def stat(self, path: str) -> FileInfo:
        return self.inner.stat(path)

    def list(self, prefix: str = "", temporary: bool = False, between: Between = ALL) -> Iterator[FileInfo]:
        return self.inner.list(prefix, temporary, between)

    def delete_many(self, paths: Iterable[str]) -> None:
        self.inner.delete_many(paths)

    def close(self) -> None:
        self.inner.close()


READS = ("read", "read_many", "read_range")
WRITES = ("create", "create_many", "overwrite", "write_hint", "delete_many")
PROBES = ("exists", "stat")


class CountingStore(WrappedStore):
    """Counts what is asked of the store inside.

    `calls` counts the calls of each method, a batch as one; `sequence` holds (method, path) for each single
    file, in order (for `list` the path is the prefix). `reads`, `writes`, `probes` and `lists` count files.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._lock = threading.Lock()
        self.calls: Counter[str] = Counter()
        self.sequence: list[tuple[str, str]] = []

    def reset(self) -> None:
        with self._lock:
            self.calls.clear()
            self.sequence.clear()

    def count(self, *methods: str) -> int:
        """Return the number of files requested by these methods."""
        return sum(method in methods for method, _ in self.sequence)

    def of(self, path: str, *methods: str) -> int:
        """Return the number of requests for this path, by these methods or by any."""
        return sum(asked == path and (not methods or method in methods) for method, asked in self.sequence)

    def paths(self, *methods: str) -> list[str]:
        """The paths that these methods were asked for, in order."""
        return [path for method, path in self.sequence if method in methods]

    @property
    def reads(self) -> int:
        return self.count(*READS)

    @property
    def writes(self) -> int:
        """Deletions included."""
        return self.count(*WRITES)

    @property
    def deletes(self) -> int:
        return self.count("delete_many")

    @property
    def probes(self) -> int:
        return self.count(*PROBES)

    @property
    def lists(self) -> int:
        return self.count("list")

    @property
    def round_trips(self) -> int:
        """The calls that a caller waits for, a batch as one."""
        return sum(number for method, number in self.calls.items() if method not in ("write_hint", "close"))

    def _call(self, method: str, *paths: str) -> None:
        with self._lock:
            self.calls[method] += 1
            self.sequence.extend((method, path) for path in paths)

    def read(self, path: str) -> bytes:
        self._call("read", path)
        return self.inner.read(path)

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        self._call("read_many")

        def counted() -> Iterator[str]:
            for path in paths:
                with self._lock:
                    self.sequence.append(("read_many", path))
                yield path

        return self.inner.read_many(counted())

    def read_range(self, path: str, start: int, length: int) -> bytes:
        self._call("read_range", path)
        return self.inner.read_range(path, start, length)

    def create(self, path: str, data: bytes) -> None:
        self._call("create", path)
        self.inner.create(path, data)

    def create_many(self, files: Mapping[str, bytes]) -> None:
        self._call("create_many", *files)
        self.inner.create_many(files)

    def overwrite(self, path: str, data: bytes) -> None:
        self._call("overwrite", path)
        self.inner.overwrite(path, data)

    def write_hint(self, path: str, data: bytes) -> None:
        self._call("write_hint", path)
        self.inner.write_hint(path, data)

    def exists(self, path: str) -> bool:
        self._call("exists", path)
        return self.inner.exists(path)

    def stat(self, path: str) -> FileInfo:
        self._call("stat", path)
        return self.inner.stat(path)

    def list(self, prefix: str = "", temporary: bool = False, between: Between = ALL) -> Iterator[FileInfo]:
        self._call("list", prefix)
        return self.inner.list(prefix, temporary, between)

    def delete_many(self, paths: Iterable[str]) -> None:
        paths = tuple(paths)
        self._call("delete_many", *paths)
        self.inner.delete_many(paths)

    def close(self) -> None:
        self._call("close")
        self.inner.close()


class _NumberedWrites(WrappedStore):
    """Takes batches apart, so that each write has its number and its turn."""

    def __init__(self, store: Store) -> None:
        super().__init__(store)
        self._lock = threading.Lock()
        self.writes = 0

    def _write(self, method: str, path: str, write: Callable[[], None]) -> None:
        raise NotImplementedError

    def _next(self) -> int:
        with self._lock:
            self.writes += 1
            return self.writes - 1

    def create(self, path: str, data: bytes) -> None:
        self._write("create", path, lambda: self.inner.create(path, data))

    def create_many(self, files: Mapping[str, bytes]) -> None:
        for path in files:
            check_path(path)
        for path, data in files.items():
            self.create(path, data)

    def overwrite(self, path: str, data: bytes) -> None:
        self._write("overwrite", path, lambda: self.inner.overwrite(path, data))

    def write_hint(self, path: str, data: bytes) -> None:
        self._write("write_hint", path, lambda: self.inner.write_hint(path, data))

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            self._write("delete_many", path, lambda path=path: self.inner.delete_many([path]))  # type: ignore[misc]


class PowerCut(BaseException):
    """The machine is off. Not an Exception, so that no handler of errors goes on after it."""


class CuttingStore(_NumberedWrites):
    """Dies before write number `cut_at`; later writes and all later reads fail.

    Without `cut_at` it only counts. To die at every point: run once without, then for each n in
    `range(store.writes)`. `close` never raises: it touches no file.
    """

    def __init__(self, store: Store, cut_at: int | None = None) -> None:
        super().__init__(store)
        self.cut_at = cut_at
        self.dead = False

    def _alive(self) -> None:
        if self.dead:
            raise PowerCut

    def _write(self, method: str, path: str, write: Callable[[], None]) -> None:
        with self._lock:
            self._alive()
            if self.writes == self.cut_at:
                self.dead = True
                raise PowerCut
            self.writes += 1
        write()

    def read(self, path: str) -> bytes:
        self._alive()
        return self.inner.read(path)

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        self._alive()
        for found in self.inner.read_many(paths):
            self._alive()
            yield found

    def read_range(self, path: str, start: int, length: int) -> bytes:
        self._alive()
        return self.inner.read_range(path, start, length)

    def exists(self, path: str) -> bool:
        self._alive()
        return self.inner.exists(path)

    def stat(self, path: str) -> FileInfo:
        self._alive()
        return self.inner.stat(path)

    def list(self, prefix: str = "", temporary: bool = False, between: Between = ALL) -> Iterator[FileInfo]:
        self._alive()
        for info in self.inner.list(prefix, temporary, between):
            self._alive()
            yield info

    def create_many(self, files: Mapping[str, bytes]) -> None:
        self._alive()
        super().create_many(files)

    def delete_many(self, paths: Iterable[str]) -> None:
        self._alive()
        super().delete_many(paths)


class AmbiguousStore(_NumberedWrites):
    """Write number `fail_at` (or each number in it) ends in OutcomeUnknown.

    `lost_reply`: the store has carried it out, or refused it, but the answer is lost. `lost_request`: the
    store has never heard of it. A hint raises nothing either way. The rest of a batch is not sent.
    """

    def __init__(
        self, store: Store, fail_at: int | Container[int], mode: Literal["lost_reply", "lost_request"]
    ) -> None:
        super().__init__(store)
        self.fail_at: Container[int] = (fail_at,) if isinstance(fail_at, int) else fail_at
        self.mode = mode

    def _write(self, method: str, path: str, write: Callable[[], None]) -> None:
        if self._next() not in self.fail_at:
            return write()
        if self.mode == "lost_reply":
            with contextlib.suppress(PathTaken):  # that answer is lost as well
                write()
        if method != "write_hint":
            raise OutcomeUnknown(f"no answer for {path} in {self.uri}")


class FullStore(WrappedStore):
    """A disk with a number of free blocks.

    Each file takes whole blocks, also an empty one. A write that does not fit raises StorageFull and leaves no file,
    and a deleted file frees its blocks. A hint is written in place.
    """

    BLOCK = 512

    def __init__(self, store: Store, free: int = 1_000_000) -> None:
        super().__init__(store)
        self.free = free

    def _blocks(self, size: int) -> int:
        return max(1, -(-size // self.BLOCK))

    def _take(self, files: Mapping[str, bytes]) -> None:
        needed = sum(self._blocks(len(data)) for data in files.values())
        if needed > self.free:
            raise StorageFull(f"cannot write {next(iter(files))} in {self.uri}: no space left")
        self.free -= needed

    def create(self, path: str, data: bytes) -> None:
        self.create_many({path: data})

    def create_many(self, files: Mapping[str, bytes]) -> None:
        self._take(files)
        self.inner.create_many(files)

    def create_after(self, files: Mapping[str, bytes], path: str, data: bytes, ready: Callable[[], None]) -> None:
        self._take({**files, path: data})
        self.inner.create_after(files, path, data, ready)

    def overwrite(self, path: str, data: bytes) -> None:
        self._take({path: data})
        with contextlib.suppress(PathMissing):
            self.free += self._blocks(self.inner.stat(path).size)
        self.inner.overwrite(path, data)

    def delete_many(self, paths: Iterable[str]) -> None:
        for path in paths:
            with contextlib.suppress(PathMissing):
                self.free += self._blocks(self.inner.stat(path).size)
            self.inner.delete_many([path])
