"""What a store is: bytes at paths. It knows nothing of the catalog format.

Paths are relative, with `/` between parts, whatever the backend. No part is empty, `.` or `..`, none holds NUL, and
none would be `.` or `..` if a backslash stood between parts too: such a path raises PathOutside before anything is
touched.

What every backend guarantees:

- **Exclusive creation.** Of all the `create` calls for one path, ever, exactly one content wins. A caller that
  returns normally wrote the content that stands; PathTaken means that other content stands; OutcomeUnknown
  means that the store would not say within the time allowed, and that nothing was cleaned up. A caller whose own bytes
  stand is told that it won, however often the request was re-sent on the way: callers that must be told apart
  write different bytes. StorageFailed and StorageDenied mean that the bytes do not stand.
- **No partial files.** A reader sees a created or overwritten file whole, or not at all. (`write_hint` is the one
  exception.)
- **Durability.** When `create`, `create_many`, `create_after` or `overwrite` returns, the content survives a crash of
  the machine; what `create_after` creates last has no name before the others do.
- **Read your writes, and others'.** Reads, `exists` and listings go to the store every time; nothing is served from
  a cache.
- **Bounded reads.** A whole file that is larger than the store's `size_limit` allows for its path raises FileTooLarge,
  before it is read where the store says how large it is, and as soon as too much came where it does not.
- **Errors are ours.** PathMissing, PathTaken, StorageDenied, StorageFailed (StorageFull), OutcomeUnknown,
  PathOutside, FileTooLarge. Nothing of an SDK escapes.

Stores are safe to use from several threads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from olympia_cli.errors import OlympiaError, PathOutside, StoreError

LARGEST = 2**28
"""So many bytes are read at once where nobody says that a file may be larger, or must be smaller."""

SizeLimit = Callable[[str], int]
"""How many bytes the file at a path may have."""


def largest(path: str) -> int:
    """The limit of a store that knows nothing of what its files are."""
    return LARGEST


ReadMany = Callable[[Iterable[str]], Iterator[tuple[str, bytes | OlympiaError]]]
"""What reads as a store's `read_many` does, and may have its own opinion of an error."""

Between = tuple[str, str | None]
"""Paths after the first, up to the second, which is among them; None is the end of all."""
ALL: Between = ("", None)


@dataclass(frozen=True, slots=True)
class FileInfo:
    """One file as a listing shows it. The time is the store's own clock."""

    path: str
    size: int
    modified_at_millis: int


class Store(Protocol):
    """See the module's text for what is guaranteed."""

    lost_hints: dict[str, OlympiaError]
    """The errors of hints that could not be written, by path, if known at once. A later write removes its entry."""

    @property
    def uri(self) -> str:
        """Where this store is, as a person would write it. Holds no secrets."""
        ...

    def read(self, path: str) -> bytes:
        """The whole file; PathMissing if there is none, FileTooLarge if it is no file to read whole."""
        ...

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        """The files in the order asked for, fetched in parallel where the store gains from it.

        An error is a value here: one bad file does not hide the others. Only a bounded number of files is in
        memory at once, however many are asked for.
        """
        ...

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """`length` bytes from `start`; fewer when the file ends before."""
        ...

    def create(self, path: str, data: bytes) -> None:
        """Create exclusively; PathTaken if other content stands there."""
        ...

    def create_many(self, files: Mapping[str, bytes]) -> None:
        """Create each file exclusively, in parallel;

        all are durable when it returns. The first error is raised; files already created stay.
        """
        ...

    def create_after(self, files: Mapping[str, bytes], path: str, data: bytes, ready: Callable[[], None]) -> None:
        """Create the files as `create_many` does, then call `ready`, and if that raises nothing create the path as
        `create` does.

        Nothing of the path is seen before, but its bytes may be brought along with the files.
        """
        ...

    def overwrite(self, path: str, data: bytes) -> None:
        """Replace the content atomically; the last writer wins."""
        ...

    def write_hint(self, path: str, data: bytes) -> None:
        """Overwrite as cheaply as possible:

        never raises a store's error, may return before it is done, may be lost, and a reader may see it torn.
        """
        ...

    def exists(self, path: str) -> bool:
        """Whether there is a file at the path, in one request."""
        ...

    def stat(self, path: str) -> FileInfo:
        """Size and time of one file; PathMissing if there is none."""
        ...

    def list(self, prefix: str = "", temporary: bool = False, between: Between = ALL) -> Iterator[FileInfo]:
        """Every file whose path begins with the prefix (a string, not a folder), in no particular order.

        Writes in progress (`.tmp-…`) are listed only when they are asked for. `between` leaves out what lies outside of
        it, which a store whose listings have an order does not even look at.
        """
        ...

    def delete_many(self, paths: Iterable[str]) -> None:
        """Delete the files, in batches of the backend's size. A missing one is no error."""
        ...

    def close(self) -> None:
        """Wait for hints under way, and let go of connections. The store may be used again afterwards."""
        ...


class InTurn:
    """For stores that gain nothing from knowing what comes last."""

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


def check_path(path: str) -> str:
    """Raise PathOutside unless the path stays below the store's root whatever the backend makes of it."""
    text = f"/{path}/"
    if not ("//" in text or "/." in text or "\\" in text or "\0" in text):
        return path  # as nearly all are
    parts = path.replace("\\", "/").split("/")
    if "\0" in path or not parts[0] or "" in path.split("/") or "." in parts or ".." in parts:
        raise PathOutside(f"not a path inside a store: {path!a}", hint="")
    return path


def is_temporary(path: str) -> bool:
    """Whether the path is that of a write in progress."""
    return path.rpartition("/")[2].startswith(TEMPORARY_PREFIX)
