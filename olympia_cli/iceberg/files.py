"""Files of tables on any store, the files that a transaction writes at its commit, and metadata files."""

from __future__ import annotations

import os
import pickle
import tempfile
import threading
import weakref
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from typing import IO, TYPE_CHECKING, Protocol, TypeVar

from olympia_cli.errors import InvalidLocation, OlympiaError, PathMissing, Refused, StorageFailed, Unsupported
from olympia_cli.iceberg.locations import ANYWHERE, LOCAL, Location, Reach, parse_location
from olympia_cli.iceberg.settings import PY_IO_IMPL
from olympia_cli.storage.open import check_opens, open_store
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from pyiceberg.io import FileIO

# Files of tables on any store. Each store is opened once, and files are read in parallel.
#
# Errors are returned as values, so that one bad file does not hide the others. A store that keeps failing is given up,
# so that an unreachable endpoint does not cost half a minute per file.

_WORKERS = 32
_FAILURES = 20
# no manifest or metadata file is larger; a data file mistaken for one may be
MAX_BYTES = 256 * 1024 * 1024
# a page of a listing has this many files, and takes as long as one request per worker
_PAGE = 1000
_LISTED_FROM = 2 * _WORKERS

T = TypeVar("T")
R = TypeVar("R")


@dataclass(slots=True)
class _Opened:
    store: Store | None
    error: OlympiaError | None
    failures: int = 0


class TableFiles:
    """Files by location. `options` apply to stores of `scheme`. Other stores use the SDKs' default configuration."""

    def __init__(self, options: Mapping[str, object] | None = None, scheme: str = "", *, gives_up: bool = True) -> None:
        """Create the pool. With `gives_up`, as for commands, a store that keeps failing is not asked again.

        A server must not give up: the store may recover, and one client's failures must not affect other clients.
        """
        self._options = dict(options or {})
        self._scheme = scheme
        self._gives_up = gives_up
        self._lock = threading.Lock()
        self._opened: dict[str, _Opened] = {}
        self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="tables")

    def close(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        for opened in self._opened.values():
            if opened.store is not None:
                opened.store.close()
        self._opened.clear()

    def read(self, locations: Iterable[str], reach: Reach = ANYWHERE) -> Iterator[tuple[str, bytes | OlympiaError]]:
        """Yield the files in the given order, or Refused for files outside `reach`. A bounded number is in memory at
        once.
        """

        def read(location: str) -> bytes | OlympiaError:
            try:
                reach.check_existing(location, "a file that the table names")
                return self.fetch(reach.existing(location), location)
            except (InvalidLocation, Refused) as error:
                return error

        return self._each(read, locations)

    def fetch(self, location: Location, text: str = "") -> bytes | OlympiaError:
        """Return the content of a file. Errors use the spelling `text` of its location."""
        # a range limits the bytes that are read of a file of unknown size
        found = self._ask(location, lambda store, path: store.read_range(path, 0, MAX_BYTES + 1))
        if isinstance(found, bytes) and len(found) > MAX_BYTES:
            return Unsupported(f"{text or location.text}: it is larger than {MAX_BYTES:,} bytes", hint="")
        return found

    def opened(self, location: Location) -> tuple[Store, str]:
        """Return the store of a location, and the path on it. A local location's store is its root, so no link leads
        out of it.
        """
        if location.store == LOCAL and location.root:
            folder, below = location.folder
            return open_store(folder), below
        return self._open(location.store), location.path

    def sizes(self, locations: Iterable[str]) -> Iterator[tuple[str, int | OlympiaError]]:
        """Yield the sizes of the files in the given order, with one request per file."""
        return self._each(self._size, locations)

    def sizes_of_groups(self, groups: Iterable[list[str]]) -> Iterator[tuple[str, int | OlympiaError]]:
        """Yield the sizes of the files, in any order. The files of a group share a prefix.

        A listing of the prefix is used where it takes fewer requests. Files that the listing lacks are requested one by
        one.
        """
        held = [group for group in groups if group]
        found: set[str] = set()
        for _, sizes in self._each(self._list, (group for group in held if len(group) >= _LISTED_FROM)):
            for location, size in sizes.items():
                found.add(location)
                yield location, size
        yield from self.sizes(location for group in held for location in group if location not in found)

    def _each(self, work: Callable[[T], R], items: Iterable[T]) -> Iterator[tuple[T, R]]:
        rest = iter(items)
        under_way: deque[tuple[T, Future[R]]] = deque()
        try:
            while True:
                for item in islice(rest, _WORKERS - len(under_way)):
                    under_way.append((item, self._pool.submit(work, item)))
                if not under_way:
                    return
                item, future = under_way.popleft()
                yield item, future.result()
        finally:
            for _, future in under_way:
                future.cancel()

    def _size(self, location: str) -> int | OlympiaError:
        try:
            return self._ask(parse_location(location), lambda store, path: store.stat(path).size)
        except InvalidLocation as error:
            return error

    def _list(self, locations: list[str]) -> dict[str, int]:
        """Return the sizes of the files found in a bounded number of listing pages."""
        found: dict[str, int] = {}
        try:
            places = {location: parse_location(location) for location in locations}
            stores = {place.store for place in places.values()}
            # on a local disk, a stat is cheaper than a listing
            if len(stores) != 1 or LOCAL in stores:
                return found
            store = self._open(stores.pop())
            wanted = {place.path: location for location, place in places.items()}
            shown = store.list(_common_prefix(wanted))
            for info in islice(shown, max(1, len(wanted) // _WORKERS) * _PAGE):
                location = wanted.get(info.path)
                if location is not None:
                    found[location] = info.size
                    if len(found) == len(wanted):
                        break
        except OlympiaError:
            # listing may be denied where reading is allowed; a real failure occurs again and is reported then
            return found
        return found

    def _ask(self, location: Location, ask: Callable[[Store, str], R]) -> R | OlympiaError:
        try:
            store, path = self.opened(location)
            found = ask(store, path)
        except StorageFailed as error:
            self._failed(location.store, error)
            return error
        except PathMissing as error:
            self._answered(location.store)
            return error
        except OlympiaError as error:
            return error
        self._answered(location.store)
        return found

    def _open(self, uri: str) -> Store:
        with self._lock:
            opened = self._opened.get(uri)
            if opened is None:
                opened = self._opened[uri] = self._try(uri)
        if opened.error is not None:
            raise opened.error
        assert opened.store is not None
        return opened.store

    def _try(self, uri: str) -> _Opened:
        options = self._options if uri.partition("://")[0] == self._scheme else None
        try:
            return _Opened(open_store(uri, options), None)
        except OlympiaError as error:
            return _Opened(None, error)

    def _answered(self, uri: str) -> None:
        if uri != LOCAL:
            self._opened[uri].failures = 0

    def _failed(self, uri: str, error: StorageFailed) -> None:
        if uri == LOCAL:
            return
        opened = self._opened[uri]
        opened.failures += 1
        if self._gives_up and opened.failures >= _FAILURES:
            opened.error = opened.error or StorageFailed(
                f"gave up after {_FAILURES} consecutive failures: {error.message}", hint=error.hint
            )


def _common_prefix(paths: Collection[str]) -> str:
    """Return the longest common prefix as text, not as a folder."""
    first, last = min(paths), max(paths)
    length = next((at for at, (one, other) in enumerate(zip(first, last, strict=False)) if one != other), len(first))
    return first[:length]


# Files that a transaction writes at its commit.
#
# Large amounts are kept in a temporary file: a transaction may create a hundred thousand tables. Memory then holds only
# the positions.

_IN_MEMORY = 2**20


@dataclass(frozen=True, slots=True)
class NewFile:
    """The location and content of a file."""

    location: Location
    content: bytes


class NewFiles:
    """Files by the text of their locations."""

    def __init__(self) -> None:
        self.places: dict[str, tuple[int, int]] = {}
        self._kept = tempfile.SpooledTemporaryFile(max_size=_IN_MEMORY)  # noqa: SIM115
        self._lock = threading.Lock()
        weakref.finalize(self, _close, self._kept)

    def put(self, location: str, file: NewFile) -> None:
        data = pickle.dumps(file)
        with self._using() as kept:
            at = kept.seek(0, os.SEEK_END)
            kept.write(data)
            # so that a full disk is reported now, and not on reading
            kept.flush()
            self.places[location] = (at, len(data))

    def get(self, location: str) -> NewFile:
        at, length = self.places[location]
        with self._using() as kept:
            kept.seek(at)
            data = kept.read(length)
        file: NewFile = pickle.loads(data)
        return file

    @contextmanager
    def _using(self) -> Iterator[IO[bytes]]:
        try:
            with self._lock:
                yield self._kept
        except OSError as error:
            raise StorageFailed(
                f"staged metadata cannot be kept in {tempfile.gettempdir()}: {error.strerror}",
                hint="free space there, or set TMPDIR to another folder",
            ) from error


def _close(kept: IO[bytes]) -> None:
    # closing repeats a failed write
    with suppress(OSError):
        kept.close()


# Read and create metadata files: with PyIceberg in a user's program, with our stores in a server.
#
# Both take a parsed `Location`, and create files exclusively. A file can only be deleted with the handle that its
# creation returned, so existing files are never deleted.

OpenIO = Callable[[str], "FileIO"]
"""Returns PyIceberg's FileIO for a location."""

Delete = Callable[[], None]
"""Deletes the file that was created. Raises FileNotFoundError if it does not exist."""


class MetadataFiles(Protocol):
    """Access to metadata files on the stores that a program may use."""

    def read(self, location: Location) -> bytes:
        """Return the content of a file. Raise FileNotFoundError if it is missing."""
        ...

    def create(self, location: Location, content: bytes) -> Delete:
        """Create the file. It was surely not created after FileExistsError, or after one of our errors except
        OutcomeUnknown.

        After any other error, the outcome is unknown.
        """
        ...


class PyIcebergFiles:
    """Metadata files through PyIceberg, with the catalog's settings.

    A table's own properties never decide how a file is opened: they could send credentials to a foreign endpoint, or
    load code.
    """

    def __init__(self, open_files: OpenIO) -> None:
        self._open_files = open_files

    def read(self, location: Location) -> bytes:
        check_opens(location.text)
        text = location.plain_text()
        with self._open_files(text).new_input(text).open() as stream:
            return stream.read()

    def create(self, location: Location, content: bytes) -> Delete:
        check_opens(location.text)
        text = location.plain_text()
        io = self._open_files(text)
        if location.store == LOCAL and PY_IO_IMPL not in io.properties:
            # PyIceberg does not sync local files; a store does, so that the file survives a power failure like the root
            return create_in(open_store(LOCAL), location.path, content)
        with io.new_output(text).create() as stream:
            stream.write(content)
        return lambda: io.delete(text)


def create_in(store: Store, path: str, content: bytes) -> Delete:
    """Create the file in one of our stores."""
    store.create(path, content)
    return lambda: store.delete_many([path])
