"""The interface of a bucket: one request per call, sent once, on the event loop of the SDK's client.

The clients' own retries are off, so that time limits hold and no request is sent twice unnoticed.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, TypeVar

from olympia_cli.errors import FileTooLarge, InvalidOption, StorageFailed, quoted
from olympia_cli.storage.protocol import LARGEST, Between
from olympia_cli.storage.settle import Failure, Fate

# Describe endpoints and connection errors in messages.

_TLS_HINT = "check that the endpoint speaks TLS, or write http://, and check its certificate"


def shown(endpoint: str, otherwise: str) -> str:
    """Return the endpoint if it is a URI, else `otherwise`. The error's text masks secrets in it."""
    return endpoint if "://" in endpoint else otherwise


def unreachable(error: BaseException, endpoint: str, where: str, hint: str) -> Failure:
    """Return the failure for a connection that was not established, so that no byte of the request was sent."""
    said = f"cannot reach {endpoint} for {where}: {why(error)}"
    # a handshake that breaks off may come from a restarting server, so it is retried; other TLS errors are permanent
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return Failure(Fate.REFUSED, StorageFailed(said, hint=_TLS_HINT))
    return Failure(Fate.UNSENT, StorageFailed(said, hint=hint))


def silence(endpoint: str, where: str) -> Failure:
    """Return the failure for a request that timed out."""
    return Failure(Fate.UNCLEAR, StorageFailed(f"{where}: {endpoint} timed out"), silent=True)


def why(error: BaseException) -> str:
    """Return the reason of a connection error in a few words."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"TLS: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"TLS: {(error.reason or type(error).__name__).replace('_', ' ').lower()}"
    if isinstance(error, socket.gaierror):
        return "its name cannot be resolved"
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    text = error.strerror if isinstance(error, OSError) else None
    return text[0].lower() + text[1:] if text else type(error).__name__


# bytes a slow connection carries per second; large files get more time accordingly
_SLOW_BYTES = 1024 * 1024
_PIECE = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """An object as a listing or a HEAD request shows it."""

    key: str
    size: int
    modified_at_millis: int


def check_options(scheme: str, options: Iterable[str], takers: Iterable[Callable[..., object]], ours: set[str]) -> None:
    """Raise InvalidOption for an option that is neither in `ours` nor an argument of one of `takers`.

    The clients ignore unknown options, or fail on them later.
    """
    from olympia_cli.names import nearest

    known = ours.union(*(inspect.signature(taker).parameters for taker in takers)) - {"self", "args", "kwargs"}
    for option in sorted(set(options) - known):
        meant = nearest(option, known)
        hint = f"did you mean {meant}?" if meant else ""
        raise InvalidOption(f"not an option of {scheme}://: {quoted(option)}", hint=hint)


class Bucket(ABC):
    """A bucket. Each call sends one request, once, within the given seconds.

    A failed request raises Failure, caused by the client's own exception. A backend provides the client, the requests,
    and the meaning of the client's exceptions.
    """

    delete_batch: int
    """The largest number of keys that `delete` accepts."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self._name = name
        self._settings = settings
        self._lock = threading.Lock()
        self._fs: Any = None

    @property
    @abstractmethod
    def uri(self) -> str: ...

    def get(self, key: str, limit: int, seconds: float) -> bytes:
        """Return the content of an object. Raise FileTooLarge, inside a Failure, if it exceeds `limit`.

        `seconds` is the time for an empty object; `size_seconds` adds to it for a large one.
        """
        return wait_for(self.begin_get(key, limit, seconds))

    def begin_get(self, key: str, limit: int, seconds: float) -> Future[bytes]:
        """Like `get`, but return a Future at once. Errors are raised by the Future."""
        return self._begin(lambda fs: self._get(fs, key, limit, seconds), key)

    def get_range(self, key: str, start: int, length: int, seconds: float) -> bytes:
        wanted = f"bytes={start}-{start + length - 1}"
        try:
            found = self._run(lambda fs: self._get(fs, key, max(length, LARGEST), seconds, wanted), key)
        except Failure as failure:
            if self._status(failure.__cause__) == 416:
                return b""  # the range begins after the end of the file
            raise
        return found[:length]

    @abstractmethod
    def put(self, key: str, data: bytes, *, exclusive: bool, seconds: float) -> None: ...

    @abstractmethod
    def head(self, key: str, seconds: float) -> Entry: ...

    @abstractmethod
    def page(self, prefix: str, token: str | None, between: Between, seconds: float) -> tuple[list[Entry], str | None]:
        """Return up to 1,000 objects in key order, and the token of the next page.

        The objects begin at the start of `between`, and may extend beyond its end.
        """

    @abstractmethod
    def delete(self, keys: list[str], seconds: float) -> dict[str, Failure]:
        """Delete the keys. Return the failure of each key that could not be deleted. A missing key is not a failure."""

    def close(self) -> None:
        with self._lock:
            fs, self._fs = self._fs, None
        if fs is not None and (session := self._session(fs)) is not None:
            run_within(fs.loop, session.close(), 5.0)

    # The rest of this class runs the requests

    def _run(self, work: Callable[[Any], Awaitable[T]], key: str, seconds: float | None = None) -> T:
        return wait_for(self._begin(work, key, seconds))

    def _begin(self, work: Callable[[Any], Awaitable[T]], key: str, seconds: float | None = None) -> Future[T]:
        """Start a request on the client's loop, within `seconds` if given. All errors are raised as Failure.

        The time limit excludes the client's set-up, which happens once and waits for no server.
        """

        async def run() -> T:
            ready = False
            try:
                await self._make_ready(fs)
                ready = True
                async with asyncio.timeout(seconds):
                    return await work(fs)
            except Failure:
                raise
            except Exception as error:
                raise self._explain(error, key, ready) from self._cause(error, ready)

        try:
            fs = self._client()
        except Exception as error:
            raise self._explain(error, key, ready=False) from self._cause(error, ready=False)
        return asyncio.run_coroutine_threadsafe(run(), fs.loop)

    def _client(self) -> Any:
        with self._lock:
            if self._fs is None:
                self._fs = self._new_client()
            return self._fs

    # Methods that a backend implements

    @abstractmethod
    def _new_client(self) -> Any: ...

    @abstractmethod
    async def _make_ready(self, fs: Any) -> None:
        """Load the client's credentials and create its session."""

    @abstractmethod
    def _session(self, fs: Any) -> Any:
        """Return the part of the client to close, or None if it was never set up."""

    @abstractmethod
    async def _get(self, fs: Any, key: str, limit: int, seconds: float, wanted: str | None = None) -> bytes:
        """Read the object, or the range `wanted`, in the syntax of HTTP's `Range` header."""

    @abstractmethod
    def _status(self, error: BaseException | None) -> int | None:
        """Return the HTTP status of an error response."""

    @abstractmethod
    def _explain(self, error: Exception, key: str, ready: bool) -> Failure:
        """Translate an exception. `ready` is False if the client's set-up failed, so no request was sent."""

    @abstractmethod
    def _cause(self, error: Exception, ready: bool) -> BaseException | None:
        """Return the `__cause__` of the Failure, or None if it must not be shown."""


def size_seconds(size: int) -> float:
    """Return the seconds that a file of this size may take beyond those for an empty file."""
    return size / _SLOW_BYTES


def run_within(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Run a coroutine on the clients' loop, which has its own thread, and wait. Cancel it after `seconds`."""
    return wait_for(asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), loop))


def wait_for(future: Future[T]) -> T:
    """Wait for a Future of the clients' loop. Cancel it if the wait is interrupted."""
    try:
        return future.result()
    except CancelledError:
        raise closed() from None
    except BaseException:
        future.cancel()
        raise


def closed() -> Failure:
    """Return the failure of a request that was cancelled because its client was closed. Its outcome is unknown."""
    return Failure(Fate.UNCLEAR, StorageFailed("the connection was closed before an answer came"))


async def read_within(length: int | None, read: Callable[[int], Awaitable[bytes]], where: str, limit: int) -> bytes:
    """Read a response body in pieces. Raise Failure with FileTooLarge once it exceeds `limit`.

    `length` is the length from the header, or None.
    """
    if length is not None and length > limit:
        raise too_large(where, length, limit)
    out = bytearray()
    while piece := await read(_PIECE):
        out += piece
        # covers a missing header and a body that is decompressed in transit
        if len(out) > limit:
            raise too_large(where, None, limit)
    return bytes(out)


def too_large(where: str, size: int | None, limit: int) -> Failure:
    return Failure(Fate.REFUSED, FileTooLarge.of(where, size, limit))
