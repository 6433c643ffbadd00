"""The interface of a store: bytes at paths, independent of the catalog format.

Paths are relative, with `/` between parts, for all backends. No part is empty, `.` or `..`, and none holds NUL. The
same holds if a backslash counts as a separator, too. Any other path raises PathOutside before the store is touched.

Every backend guarantees:

- **Exclusive creation.** Of all `create` calls for one path, ever, exactly one content wins. A normal return means that
  the caller's content is at the path, however often the request was sent. Two callers with the same bytes both win:
  callers that must be told apart write different bytes. PathTaken means that other content is at the path.
  OutcomeUnknown means that the outcome was not known within the time limit, and that no file was cleaned up.
  StorageFailed and StorageDenied mean that the content is not at the path.
- **No partial files.** A reader sees a created or overwritten file complete, or not at all. The one exception is
  `write_hint`.
- **Durability.** When `create`, `create_many`, `create_after` or `overwrite` returns, the content survives a crash of
  the machine. `create_after` creates its last file only once the others are durable.
- **Read after write, from all clients.** Reads, `exists` and listings always ask the store, never a cache.
- **Bounded reads.** Reading a whole file that exceeds the store's `size_limit` for its path raises FileTooLarge. The
  error is raised before the read if the store reports the size, else as soon as the limit is exceeded.
- **Own errors only.** PathMissing, PathTaken, StorageDenied, StorageFailed (StorageFull), OutcomeUnknown, PathOutside
  and FileTooLarge. No exception of an SDK reaches the caller.

Stores are thread-safe.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from olympia_cli.errors import OlympiaError, PathOutside, StoreError

LARGEST = 2**28
"""The default limit for reading a whole file, in bytes."""

TIME_ALLOWED = 30.0
"""The default time limit of an operation over a network, in seconds."""

LEAST_LIMIT = 2**20
"""The smallest limit. A store may read a file of this size without a look at its limit."""

SizeLimit = Callable[[str], int]
"""Returns the size limit of the file at a path, in bytes. No limit is below `LEAST_LIMIT`."""


def largest(path: str) -> int:
    """Return the default limit, for stores that do not know the kinds of their files."""
    return LARGEST


ReadMany = Callable[[Iterable[str]], Iterator[tuple[str, bytes | OlympiaError]]]
"""A function like a store's `read_many`, which may also return errors of its own."""

Between = tuple[str, str | None]
"""A range of paths: after the first (exclusive), up to the second (inclusive). None means no upper end."""
ALL: Between = ("", None)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """A file as a listing shows it. The time is by the store's clock."""

    path: str
    size: int
    modified_at_millis: int


class Store(Protocol):
    """A store. The module's docstring lists its guarantees."""

    lost_hints: dict[str, OlympiaError]
    """The error of each failed hint by path, if known at once. The next successful write removes the entry."""

    @property
    def uri(self) -> str:
        """The location of the store, without secrets."""
        ...

    def read(self, path: str) -> bytes:
        """Return the whole file. Raise PathMissing if it does not exist, FileTooLarge if it exceeds the limit."""
        ...

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        """Yield the files in the given order, fetched in parallel where that helps.

        Errors are yielded as values, so that one bad file does not hide the others. A bounded number of files is in
        memory at once.
        """
        ...

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """Return `length` bytes from `start`, or fewer at the end of the file."""
        ...

    def create(self, path: str, data: bytes) -> None:
        """Create the file exclusively. Raise PathTaken if the path holds other content."""
        ...

    def create_many(self, files: Mapping[str, bytes]) -> None:
        """Create each file exclusively, in parallel. All are durable on return.

        Raise the first error. Files created before it stay.
        """
        ...

    def create_after(self, files: Mapping[str, bytes], path: str, data: bytes, ready: Callable[[], None]) -> None:
        """Write one file after others:

        1. Create `files` as `create_many` does.
        2. Call `ready`. If it raises an error, stop.
        3. Create `path` as `create` does.

        `path` is not visible before step 3, but its bytes may be transferred together with `files`.
        """
        ...

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace the content atomically. The last writer wins."""
        ...

    def write_hint(self, path: str, data: bytes) -> None:
        """Overwrite the file as cheaply as possible.

        Never raises a store's error, and may return before the write is done. The write may be lost, and readers may
        see a mixture of old and new bytes.
        """
        ...

    def exists(self, path: str) -> bool:
        """Return True if there is a file at the path. One request."""
        ...

    def stat(self, path: str) -> FileInfo:
        """Return the size and time of a file. Raise PathMissing if it does not exist."""
        ...

    def list(self, prefix: str = "", temporary: bool = False, between: Between = ALL) -> Iterator[FileInfo]:
        """Yield every file whose path begins with `prefix` (a string, not a folder), in no particular order.

        Writes in progress (`.tmp-…`) are included if `temporary` is set. `between` limits the listing to a range of
        paths. Stores with ordered listings request only that range.
        """
        ...

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the files, in batches of the backend's size. Missing files are not an error."""
        ...

    def close(self) -> None:
        """Wait for pending hints and close connections. The store may be used again afterwards."""
        ...


class InTurn:
    """Implementation of `create_after` for stores that cannot transfer the last file early."""

    def create_after(
        self: Store, files: Mapping[str, bytes], path: str, data: bytes, ready: Callable[[], None]
    ) -> None:
        if files:
            self.create_many(files)
        ready()
        self.create(path, data)


TEMPORARY_PREFIX = ".tmp-"


def is_between(path: str, between: Between) -> bool:
    after, until = between
    return after < path and (until is None or path <= until)


PLAIN_PATH = re.compile(r"(?!\.)[^/\\\0]+(?:/(?!\.)[^/\\\0]+)*")
"""Matches nearly all paths that `check_path` accepts: no part is empty or hidden."""


def check_path(path: str) -> str:
    """Return the path. Raise PathOutside unless it stays below the store's root on every backend."""
    if PLAIN_PATH.fullmatch(path):
        return path
    parts = path.replace("\\", "/").split("/")
    if "\0" in path or not parts[0] or "" in path.split("/") or "." in parts or ".." in parts:
        raise PathOutside(f"not a path inside a store: {path!a}", hint="")
    return path


def is_temporary(path: str) -> bool:
    """Return True if the path is that of a write in progress."""
    return path.rpartition("/")[2].startswith(TEMPORARY_PREFIX)
