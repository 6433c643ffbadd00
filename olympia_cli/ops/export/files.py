"""The files of an export while they are read: those that it copies, and those that it shares with the catalog.

This module only reads and copies. The caller checks the files.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from hashlib import sha256

from olympia_cli.errors import Damaged, PathMissing, PathOutside, StoreError
from olympia_cli.format.definitions import Digest, check_digest
from olympia_cli.format.paths import parse_root_path
from olympia_cli.ops.export.note import Scope
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.files import Files, Place, StoreFailure
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.storage.protocol import Store

FILES_AT_ONCE = 512
BYTES_AT_ONCE = 16 * 2**20
_NAME_DIGITS = 15
"""The number of hexadecimal digits of a checksum to use, so that the number fits the integers of every engine."""


@dataclass(frozen=True, slots=True)
class FileCount:
    """A number of files and bytes. `names` is a fingerprint of all names and sizes that does not depend on their order.

    It is None if names were not recorded.
    """

    files: int = 0
    bytes: int = 0
    names: int | None = field(default=0, compare=False)

    @classmethod
    def of(cls, path: str, size: int) -> FileCount:
        return cls(1, size, name_number(path, size))

    def __add__(self, other: FileCount) -> FileCount:
        names = None if self.names is None or other.names is None else self.names ^ other.names
        return FileCount(self.files + other.files, self.bytes + other.bytes, names)

    def is_of_same_files(self, other: FileCount) -> bool:
        return self == other and (None in (self.names, other.names) or self.names == other.names)


def name_number(path: str, size: int) -> int:
    """Return the fingerprint of one file's name and size. Fingerprints of several files are combined by
    exclusive or.
    """
    return int(sha256(f"{path} {size}".encode("utf-8", "surrogatepass")).hexdigest()[:_NAME_DIGITS], 16)


class ExportFiles(Files):
    """Read copied files at the destination, and shared files in the catalog."""

    def __init__(self, scope: Scope, dest: Store, source: Store | None, progress: Progress = SILENT) -> None:
        super().__init__(dest, lambda: False, progress)
        self.scope = scope
        self._shared = None if source is None else Files(source, lambda: False, progress)
        self.copied = self.shared = FileCount()
        self._closed = False

    def close(self, complete: bool = True) -> None:
        self._closed = True

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        """Read files a second time, at the destination or in the catalog. Roots are only at the destination."""
        for path, data in super().read_many(paths):
            elsewhere = isinstance(data, PathMissing) and parse_root_path(path) is None
            yield path, self._shared.read(path) if elsewhere and self._shared is not None else data

    def nodes(self, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | StoreError]]:
        return self._read(places, is_node=True)

    def definitions(self, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | StoreError]]:
        return self._read(places, is_node=False)

    def _read(self, places: Sequence[Place], *, is_node: bool) -> Iterator[tuple[Place, bytes | StoreError]]:
        copied = [self.scope.copies(place.level, is_node=is_node) for place in places]
        here = super().read_many(place.path for place, here in zip(places, copied, strict=True) if here)
        shared = [place.path for place, here in zip(places, copied, strict=True) if not here]
        there = iter(self._shared.read_many(shared)) if shared and self._shared is not None else iter(())
        for place, is_here in zip(places, copied, strict=True):
            _, data = next(here if is_here else there)
            if isinstance(data, bytes) and not self._closed:
                self.tally(place, 1, len(data), is_node=is_node)
            yield place, data

    def tally(self, place: Place, files: int, size: int, *, is_node: bool, names: int | None = None) -> None:
        count = _tallied(place, files, size, names)
        if self.scope.copies(place.level, is_node=is_node):
            self.copied += count
        else:
            self.shared += count


class CopyFiles(Files):
    """Copy the files of a version: write them in the background, read them back, and compare, while the next files are
    read.

    Only sound files in the export's scope are copied. If the destination is not `fresh`, it may have some of the files;
    these stay. `replaced` is a definition that the export replaces by its own.
    """

    def __init__(
        self,
        scope: Scope,
        source: Store,
        dest: Store,
        *,
        fresh: bool,
        replaced: str | None,
        progress: Progress = SILENT,
    ) -> None:
        super().__init__(source, lambda: False, progress)
        self.scope = scope
        self._dest = dest
        self.fresh = fresh
        self.replaced = replaced
        self.copied = FileCount()
        self._sound = True
        self._closed = False
        self._there: set[str] = set()
        """Definitions that were read at the destination."""
        self._waiting: dict[str, bytes] = {}
        self._absent: set[str] = set()
        """Waiting definitions that the destination is known not to have."""
        self._size = 0
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None

    def definitions(self, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | StoreError]]:
        """Read definitions at the destination if it has them with a correct checksum, else in the catalog."""
        maybe = not self.fresh and not self._closed
        copied = [place.path for place in places if maybe and self._is_copied(place, is_node=False)]
        there: dict[str, bytes] = {}
        for path, data in self._dest.read_many(copied) if copied else ():
            if isinstance(data, bytes) and check_digest(data, path) is Digest.VERIFIED:
                there[path] = data
            elif isinstance(data, PathMissing):
                self._absent.add(path)
        self._there.update(there)
        missing = iter(super().definitions([place for place in places if place.path not in there]))
        for place in places:
            yield (place, there[place.path]) if place.path in there else next(missing)

    def looked_at(self, place: Place, data: bytes | StoreError, flaw: Flaw | None, *, is_node: bool) -> None:
        if isinstance(data, Exception) and not isinstance(data, PathMissing | PathOutside | Damaged):
            # a failing network is not damage
            raise StoreFailure(data)
        if self._closed:
            return
        here = place.path in self._there
        self._there.discard(place.path)
        if here and flaw is not None:
            raise not_whole(self._dest.uri, place.path, flaw.code, flaw.reason)
        if flaw is not None:
            # copy nothing more, but read the rest, so that fsck can judge it
            self._sound, self._waiting = False, {}
        if not self._sound or not isinstance(data, bytes) or not self._is_copied(place, is_node):
            return
        self.copied += FileCount.of(place.path, len(data))
        if here:
            return
        self._waiting[place.path] = data
        self._size += len(data)
        if len(self._waiting) >= FILES_AT_ONCE or self._size >= BYTES_AT_ONCE:
            self._send()

    def _is_copied(self, place: Place, is_node: bool) -> bool:
        return self.scope.copies(place.level, is_node=is_node) and (is_node or place.path != self.replaced)

    def tally(self, place: Place, files: int, size: int, *, is_node: bool, names: int | None = None) -> None:
        if self._is_copied(place, is_node):
            self.copied += _tallied(place, files, size, names)

    def close(self, complete: bool = True) -> None:
        """If complete, wait until all files are written and read back, and raise the first error. Else write nothing
        more.
        """
        self._closed = True
        try:
            if complete and self._waiting:
                self._send()
            with nullcontext() if complete else suppress(Exception):
                # the first error is already being raised
                self._wait()
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=True)

    def _send(self) -> None:
        self._wait()
        files, self._waiting, self._size = self._waiting, {}, 0
        absent, self._absent = self._absent, set()
        maybe = () if self.fresh else files.keys() - absent
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="export")
        self._under_way = self._pool.submit(create_all, self._dest, files, maybe)

    def _wait(self) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()


def _tallied(place: Place, files: int, size: int, names: int | None) -> FileCount:
    if not files:
        return FileCount(0, size)
    return FileCount.of(place.path, size) if place.path else FileCount(files, size, names)


def create_all(dest: Store, files: dict[str, bytes], maybe_there: Collection[str] = ()) -> None:
    """Create files at the destination, read them back and compare. Files in `maybe_there` are read first, and stay if
    they exist.

    Raise PathTaken if an unexpected file exists, and Damaged if a copy differs.
    """
    contents = dest.read_many(maybe_there) if maybe_there else ()
    there = {path: data for path, data in contents if isinstance(data, bytes)}
    missing = {path: data for path, data in files.items() if path not in there}
    if missing:
        dest.create_many(missing)
    for path, data in [*there.items(), *(dest.read_many(missing) if missing else ())]:
        if isinstance(data, PathMissing):
            raise not_whole(dest.uri, path, "F201", "it is missing")
        if isinstance(data, Exception):
            raise data
        if data != files[path]:
            raise not_whole(dest.uri, path, "", "it differs from the file in the catalog")


RESUME = "delete that file at the destination, then resume the export"


def not_whole(dest: str, path: str, code: str, reason: str, hint: str = RESUME, command: Sequence[str] = ()) -> Damaged:
    """Return the error for a damaged copy."""
    return Damaged(code, f"{dest}/{path}", f"the copy is damaged: {reason}", hint=hint, command=command)
