"""The common part of the stores behind a network: everything but the requests.

A backend provides a `Bucket`, which sends one request per call and classifies its failure. This module adds retries,
the settling of creations, parallel requests, ordered listings, and hints. `http_bucket` is the common part of buckets
whose client is asynchronous and speaks HTTP.

Every operation has the same time limit, whether it reads, lists, creates or deletes. A server restart shorter than the
limit fails no operation.
"""

from __future__ import annotations

import contextlib
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count, islice
from typing import TypeVar

from olympia_cli.errors import (
    FileTooLarge,
    OlympiaError,
    OutcomeUnknown,
    PathMissing,
    PathOutside,
    PathTaken,
    StorageDenied,
    StorageFailed,
    StoreError,
)
from olympia_cli.storage.protocol import (
    ALL,
    LARGEST,
    TIME_ALLOWED,
    Between,
    FileInfo,
    InTurn,
    SizeLimit,
    check_path,
    is_between,
    is_temporary,
    largest,
)
from olympia_cli.storage.settle import MOMENT, Fate, RequestFailure, fair, pause, reason, settle_create

_WORKERS = 32
# counted from `write_hint`: `close` must not wait longer for a file that may be lost
_HINT_SECONDS = 2.0
# permanent failures: a retry gets the same answer
_FINAL = (Fate.MISSING, Fate.REFUSED)

# bytes a slow connection carries per second; large files get more time accordingly
_SLOW_BYTES = 1024 * 1024

T = TypeVar("T")


Page = tuple[list[FileInfo], str | None]
"""Objects of a listing, with their keys as paths, and the token of the next page."""


class Bucket(ABC):
    """The requests of a backend. Each call sends one request, once, within the given seconds.

    The client's own retries are off, so that time limits hold and no request is sent twice unnoticed. A failed request
    raises RequestFailure, caused by the client's own exception.
    """

    delete_batch: int
    """The largest number of keys that `delete` accepts."""

    @property
    @abstractmethod
    def uri(self) -> str: ...

    @abstractmethod
    def get(self, key: str, limit: int, seconds: float) -> bytes:
        """Return the content of an object. Raise FileTooLarge, inside a RequestFailure, if it exceeds `limit`.

        `seconds` is the time for an empty object; `size_seconds` adds to it for a large one.
        """

    def begin_get(self, key: str, limit: int, seconds: float) -> Future[bytes] | None:
        """Like `get`, but return a Future at once. Errors are raised by the Future.

        None means that the client has no such requests, and a thread has to wait for each answer.
        """
        return None

    @abstractmethod
    def get_range(self, key: str, start: int, length: int, seconds: float) -> bytes:
        """Return up to `length` bytes, and none if the object ends before `start`."""

    @abstractmethod
    def put(self, key: str, data: bytes, *, exclusive: bool, seconds: float) -> None: ...

    @abstractmethod
    def head(self, key: str, seconds: float) -> FileInfo:
        """Return size and time of an object. The path is the key."""

    @abstractmethod
    def page(self, prefix: str, token: str | None, between: Between, seconds: float) -> Page:
        """Return up to 1,000 objects in key order.

        The objects begin at the start of `between`, and may extend beyond its end.
        """

    @abstractmethod
    def delete(self, keys: list[str], seconds: float) -> dict[str, RequestFailure]:
        """Delete the keys. Return the failure of each key that could not be deleted. A missing key is not a failure."""

    @abstractmethod
    def close(self) -> None: ...


def size_seconds(size: int) -> float:
    """Return the seconds that a file of this size may take beyond those for an empty file."""
    return size / _SLOW_BYTES


def closed() -> RequestFailure:
    """Return the failure of a request that was cancelled because its client was closed. Its outcome is unknown."""
    return RequestFailure(Fate.UNCLEAR, StorageFailed("the connection was closed before an answer came"))


class ObjectStore(InTurn):
    """A Store over a prefix of a bucket."""

    def __init__(self, bucket: Bucket, prefix: str, *, time_allowed: float = TIME_ALLOWED) -> None:
        self.size_limit: SizeLimit = largest
        self.lost_hints: dict[str, OlympiaError] = {}
        self._bucket = bucket
        self._root = f"{prefix}/" if prefix else ""
        self._time_allowed = time_allowed
        self._lock = threading.Lock()
        self._pool: ThreadPoolExecutor | None = None
        self._hint_pool: ThreadPoolExecutor | None = None
        self._hints: dict[str, tuple[bytes, float]] = {}

    @property
    def uri(self) -> str:
        return f"{self._bucket.uri}/{self._root}".rstrip("/")

    def read(self, path: str) -> bytes:
        return self._again(partial(self._bucket.get, self._key(path), self.size_limit(path)))

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        rest = iter(paths)
        under_way: deque[tuple[str, Future[bytes | StoreError]]] = deque()
        try:
            for path in islice(rest, _WORKERS):
                under_way.append((path, self._begin_read(path)))
            while under_way:
                path, future = under_way.popleft()
                found = future.result()
                for next_path in islice(rest, 1):
                    under_way.append((next_path, self._begin_read(next_path)))
                yield path, found
        finally:
            for _, future in under_way:
                future.cancel()

    def read_range(self, path: str, start: int, length: int) -> bytes:
        key = self._key(path)
        if length <= 0:
            # HTTP has no empty range, but a missing file must still raise an error
            self.stat(path)
            return b""
        return self._again(partial(self._bucket.get_range, key, start, length))

    def create(self, path: str, data: bytes) -> None:
        key = self._key(path)
        content = bytes(data)
        settle_create(
            lambda seconds: self._bucket.put(key, content, exclusive=True, seconds=seconds),
            lambda seconds: self._bucket.get(key, max(LARGEST, len(content)), seconds),
            content,
            f"{self._bucket.uri}/{key}",
            time_allowed=self._time_for(content),
        )

    def create_many(self, files: Mapping[str, bytes]) -> None:
        for path in files:
            check_path(path)
        self._all(self.create, files.items())

    def overwrite(self, path: str, data: bytes) -> None:
        key = self._key(path)
        content = bytes(data)
        unclear = False

        def put(seconds: float) -> None:
            nonlocal unclear
            try:
                self._bucket.put(key, content, exclusive=False, seconds=seconds)
            except RequestFailure as failure:
                unclear = unclear or failure.fate is Fate.UNCLEAR
                raise

        seconds = self._time_for(content)
        try:
            self._again(put, seconds, least=fair(seconds))
        except (StorageFailed, StorageDenied) as error:
            if not unclear:
                raise
            raise OutcomeUnknown(
                f"{self._bucket.uri}/{key} may or may not have been written: {error.message}"
            ) from error

    def write_hint(self, path: str, data: bytes) -> None:
        key = self._key(path)
        with self._lock:
            self._hints[key] = bytes(data), time.monotonic() + min(_HINT_SECONDS, self._time_allowed)
            if self._hint_pool is None:
                # one worker, so that hints for a path are sent in order
                self._hint_pool = ThreadPoolExecutor(1, thread_name_prefix="hints")
            self._hint_pool.submit(self._send_hint, key)

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except PathMissing:
            return False
        return True

    def stat(self, path: str) -> FileInfo:
        return replace(self._again(partial(self._bucket.head, self._key(path))), path=path)

    def list(self, prefix: str = "", temporary: bool = False, between: Between = ALL) -> Iterator[FileInfo]:
        token: str | None = None
        after, until = between
        keys = (self._root + after if after else "", None if until is None else self._root + until)
        while True:
            entries, token = self._again(partial(self._bucket.page, self._root + prefix, token, keys))
            for entry in entries:
                path = entry.path[len(self._root) :]
                if _names_a_file(path, temporary) and is_between(path, between):
                    yield replace(entry, path=path)
            if token is None or (keys[1] is not None and entries and entries[-1].path > keys[1]):
                return

    def delete_many(self, paths: Iterable[str]) -> None:
        keys = (self._key(path) for path in paths)
        batches = iter(lambda: list(islice(keys, self._bucket.delete_batch)), [])
        self._all(self._delete, ((batch,) for batch in batches))

    def close(self) -> None:
        with self._lock:
            pools = [pool for pool in (self._hint_pool, self._pool) if pool is not None]
            self._hint_pool = self._pool = None
        for pool in pools:
            pool.shutdown(wait=True)
        self._bucket.close()

    def _key(self, path: str) -> str:
        return self._root + check_path(path)

    def _time_for(self, data: bytes) -> float:
        return self._time_allowed + size_seconds(len(data))

    def _again(self, request: Callable[[float], T], time_allowed: float | None = None, *, least: float = MOMENT) -> T:
        """Retry an idempotent request with backoff until it is answered or the time is up.

        The request gets the seconds that are left. A retry starts only if at least `least` seconds are left.
        """
        deadline = time.monotonic() + (self._time_allowed if time_allowed is None else time_allowed)
        why: RequestFailure | None = None
        for attempt in count():
            try:
                return request(deadline - time.monotonic())
            except RequestFailure as failure:
                why = reason(why, failure)
                wait = pause(attempt)
                over = failure.fate in _FINAL or time.monotonic() + wait + least > deadline
            if not over:
                time.sleep(wait)
                over = time.monotonic() + least > deadline  # a busy machine sleeps longer than requested
            if over:
                raise why.error from why.__cause__
        raise AssertionError("unreachable")

    def _begin_read(self, path: str) -> Future[bytes | StoreError]:
        """Send the first request without a thread that waits for the answer, because passing thousands of files between
        threads takes as long as the requests. Retry a failed request in a thread, within the time left.
        """
        told: Future[bytes | StoreError] = Future()
        deadline = time.monotonic() + self._time_allowed

        def heard(first: Future[bytes]) -> None:
            if not told.set_running_or_notify_cancel():
                return  # the caller cancelled the read
            failure = closed() if first.cancelled() else first.exception()
            try:
                if failure is None:
                    told.set_result(first.result())
                elif isinstance(failure, RequestFailure) and failure.fate in _FINAL:
                    self._tell(told, path, failure, deadline)
                else:
                    self._submit(self._tell, told, path, failure, deadline)
            except RuntimeError as error:
                told.set_exception(error)  # no thread is available: the caller must get the error

        try:
            first = self._bucket.begin_get(self._key(path), self.size_limit(path), self._time_allowed)
        except (PathOutside, RequestFailure):
            return self._submit(self._read_or_error, path)
        if first is None:
            return self._submit(self._read_or_error, path)
        first.add_done_callback(heard)
        return told

    def _tell(
        self, told: Future[bytes | StoreError], path: str, failure: BaseException | None, deadline: float
    ) -> None:
        try:
            told.set_result(self._read_or_error(path, failure, deadline))
        except BaseException as error:
            told.set_exception(error)

    def _read_or_error(
        self, path: str, failure: BaseException | None = None, deadline: float | None = None
    ) -> bytes | StoreError:
        """Read the file, or return the error. `failure` is that of the first request, if it was already sent."""
        before = iter([failure] if failure is not None else [])

        def request(seconds: float) -> bytes:
            for known in before:
                raise known
            return self._bucket.get(self._key(path), self.size_limit(path), seconds)

        try:
            return self._again(request, None if deadline is None else deadline - time.monotonic())
        except (
            PathMissing,
            PathTaken,
            StorageFailed,
            StorageDenied,
            OutcomeUnknown,
            PathOutside,
            FileTooLarge,
        ) as error:
            return error

    def _delete(self, keys: Sequence[str]) -> None:
        left = list(keys)

        def delete(seconds: float) -> None:
            nonlocal left
            failed = self._bucket.delete(left, seconds)
            left = list(failed)
            for failure in failed.values():
                if failure.fate is Fate.REFUSED:
                    raise failure
            for failure in failed.values():
                raise failure

        self._again(delete)

    def _send_hint(self, key: str) -> None:
        with self._lock:
            data, deadline = self._hints.pop(key, (b"", 0.0))
        # skip a hint that a newer one replaced, or whose time was used up by earlier hints
        if (seconds := deadline - time.monotonic()) > MOMENT:
            with contextlib.suppress(RequestFailure):
                self._bucket.put(key, data, exclusive=False, seconds=seconds)

    def _all(self, work: Callable[..., None], calls: Iterable[tuple[object, ...]]) -> None:
        """Run the calls in parallel, with at most `_WORKERS` at once.

        After an error no further call is started. Calls under way are awaited, then the first error is raised.
        """
        rest = iter(calls)
        under_way: deque[Future[None]] = deque()
        error: BaseException | None = None
        while True:
            while error is None and len(under_way) < _WORKERS and (call := next(rest, None)) is not None:
                under_way.append(self._submit(work, *call))
            if not under_way:
                break
            failed = under_way.popleft().exception()
            error = error or failed
        if error is not None:
            raise error

    def _submit(self, work: Callable[..., T], *args: object) -> Future[T]:
        with self._lock:
            if self._pool is None:
                self._pool = ThreadPoolExecutor(_WORKERS, thread_name_prefix="objects")
            return self._pool.submit(work, *args)


def _names_a_file(path: str, temporary: bool) -> bool:
    """Return True if a key is a file of the store, not a folder marker or another name that is no valid path.

    Writes in progress count only if `temporary` is set.
    """
    try:
        check_path(path)
    except PathOutside:
        return False
    return temporary or not is_temporary(path)
