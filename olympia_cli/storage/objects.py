"""What the object stores have in common: everything but the requests themselves.

A backend brings a `Bucket`, which does one request a call and tells what a failure means. Trying again,
settling creations, running in parallel and the hints are here.

Every operation gets the same time, whether it reads, lists, creates or deletes: a server that restarts fails none
that outlasts it.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
from olympia_cli.storage.bucket import Bucket, closed, size_seconds
from olympia_cli.storage.protocol import (
    ALL,
    LARGEST,
    Between,
    FileInfo,
    InTurn,
    SizeLimit,
    check_path,
    is_between,
    is_temporary,
    largest,
)
from olympia_cli.storage.settle import MOMENT, TIME_ALLOWED, Failure, Fate, fair, pause, reason, settle_create

_WORKERS = 32
# from the moment that it is given: nobody waits longer for what may be lost
_HINT_SECONDS = 2.0
# asked again, the answer is the same
_FINAL = (Fate.MISSING, Fate.REFUSED)

T = TypeVar("T")


class ObjectStore(InTurn):
    """A Store over a bucket and a prefix in it."""

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
            # no range says 'nothing', but a missing file is an error all the same
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
            except Failure as failure:
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
                # one worker: hints for one path arrive in the order they were given
                self._hint_pool = ThreadPoolExecutor(1, thread_name_prefix="hints")
            self._hint_pool.submit(self._send_hint, key)

    def exists(self, path: str) -> bool:
        try:
            self.stat(path)
        except PathMissing:
            return False
        return True

    def stat(self, path: str) -> FileInfo:
        key = self._key(path)
        entry = self._again(partial(self._bucket.head, key))
        return FileInfo(path, entry.size, entry.modified_at_millis)

    def list(self, prefix: str = "", temporary: bool = False, between: Between = ALL) -> Iterator[FileInfo]:
        token: str | None = None
        after, until = between
        keys = (self._root + after if after else "", None if until is None else self._root + until)
        while True:
            entries, token = self._again(partial(self._bucket.page, self._root + prefix, token, keys))
            for entry in entries:
                path = entry.key[len(self._root) :]
                if _names_a_file(path, temporary) and is_between(path, between):
                    yield FileInfo(path, entry.size, entry.modified_at_millis)
            if token is None or (keys[1] is not None and entries and entries[-1].key > keys[1]):
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
        """Ask until there is an answer or the time is up, ever more seldom: for requests that do no harm when they are
        carried out twice. Each is given the seconds that are left, the `least` of them after the first."""
        deadline = time.monotonic() + (self._time_allowed if time_allowed is None else time_allowed)
        why: Failure | None = None
        for attempt in count():
            try:
                return request(deadline - time.monotonic())
            except Failure as failure:
                why = reason(why, failure)
                wait = pause(attempt)
                over = failure.fate in _FINAL or time.monotonic() + wait + least > deadline
            if not over:
                time.sleep(wait)
                over = time.monotonic() + least > deadline  # a busy machine sleeps longer than it was asked to
            if over:
                raise why.error from why.__cause__
        raise AssertionError("unreachable")

    def _begin_read(self, path: str) -> Future[bytes | StoreError]:
        """Ask once, with no thread that waits for the answer: handing thousands of files from thread to thread takes as
        long as asking for them. Whatever fails is asked again in a thread, in the time that is left."""
        told: Future[bytes | StoreError] = Future()
        deadline = time.monotonic() + self._time_allowed

        def heard(first: Future[bytes]) -> None:
            if not told.set_running_or_notify_cancel():
                return  # nobody waits any more
            failure = closed() if first.cancelled() else first.exception()
            try:
                if failure is None:
                    told.set_result(first.result())
                elif isinstance(failure, Failure) and failure.fate in _FINAL:
                    self._tell(told, path, failure, deadline)
                else:
                    self._submit(self._tell, told, path, failure, deadline)
            except RuntimeError as error:
                told.set_exception(error)  # no thread to be had: whoever waits has to hear of it

        try:
            first = self._bucket.begin_get(self._key(path), self.size_limit(path), self._time_allowed)
        except (PathOutside, Failure):
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
        """`read`, after a first request that failed."""
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
        # a newer hint for the same key has gone out in its place, or those before it took all the time
        if (seconds := deadline - time.monotonic()) > MOMENT:
            with contextlib.suppress(Failure):
                self._bucket.put(key, data, exclusive=False, seconds=seconds)

    def _all(self, work: Callable[..., None], calls: Iterable[tuple[object, ...]]) -> None:
        """Run the calls in parallel, a bounded number at once. After an error nothing more is begun; what is
        under way is waited for, and the first error is raised.
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
    """Whether a key is a file of the store: not a name that no path stands for, such as a folder marker, nor, unless
    they are asked for, a write in progress."""
    try:
        check_path(path)
    except PathOutside:
        return False
    return temporary or not is_temporary(path)
