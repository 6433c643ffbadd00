"""The common part of buckets whose client is asynchronous and speaks HTTP, as those of fsspec do.

It runs the requests on the client's event loop, and translates exceptions and error responses into failures. A backend
provides the client, the requests, and the words that its service uses.
"""

from __future__ import annotations

import asyncio
import inspect
import socket
import ssl
import threading
from abc import abstractmethod
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, ClassVar, TypeVar

import aiohttp

from olympia_cli.errors import (
    FileTooLarge,
    InvalidOption,
    PathMissing,
    PathTaken,
    StorageDenied,
    StorageFailed,
    StorageFull,
    quoted,
)
from olympia_cli.storage.objects import Bucket, closed
from olympia_cli.storage.protocol import LARGEST
from olympia_cli.storage.settle import Fate, RequestFailure

_PIECE = 1 << 20
_CLOSE_SECONDS = 5.0

T = TypeVar("T")
Errors = tuple[type[BaseException], ...]
Options = Mapping[str, object]
"""The options that a user gives for a bucket."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An error response: the HTTP status, and the service's own code and message."""

    status: int
    code: str = ""
    message: str = ""


NO_BUCKET = "NoSuchBucket"
"""The code of an answer that says that the bucket is missing."""


@dataclass(frozen=True, slots=True)
class CloudService:
    """The words and codes of a service."""

    scheme: str
    name: str
    """Stands for the endpoint in messages if that is unknown."""
    credentials: str
    credentials_hint: str
    credential_errors: Errors
    refused_statuses: Collection[int]
    """Permanent errors. The outcome of a request with any other error status is unknown."""
    refused_codes: Collection[str] = ()
    denied_codes: Collection[str] = ()
    passing_codes: Collection[str] = ()
    """Codes of responses with the status of a denial that a retry may overcome."""
    unclear_codes: Collection[str] = ()
    """Codes of responses with status 404 that do not say that the object is missing."""
    timeouts: Errors = (TimeoutError,)
    told_errors: Errors = (TypeError, ValueError)
    """Errors of the client's set-up whose text is shown."""
    place: str = "the endpoint"
    """To be checked if the service cannot be reached."""
    settings: str = "the bucket and the options"
    """To be checked if the service refuses a request."""


class HttpBucket(Bucket):
    """A bucket. `_fs` is the client, made on first use."""

    service: ClassVar[CloudService]

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self._name = name
        # fsspec's caches outlive the store and miss what other programs write
        self._settings = {**settings, "use_listings_cache": False, "skip_instance_cache": True}
        self._lock = threading.Lock()
        self._fs: Any = None
        self._session: Any = None

    @property
    def uri(self) -> str:
        return f"{self.service.scheme}://{self._name}"

    def get(self, key: str, limit: int, seconds: float) -> bytes:
        return wait_for(self.begin_get(key, limit, seconds))

    def begin_get(self, key: str, limit: int, seconds: float) -> Future[bytes]:
        return self._begin(lambda fs: self._get(fs, key, limit, seconds), key)

    def get_range(self, key: str, start: int, length: int, seconds: float) -> bytes:
        wanted = f"bytes={start}-{start + length - 1}"
        try:
            found = self._run(lambda fs: self._get(fs, key, max(length, LARGEST), seconds, wanted), key)
        except RequestFailure as failure:
            if (answer := self._answer(failure.__cause__)) is not None and answer.status == 416:
                return b""  # the range begins after the end of the file
            raise
        return found[:length]

    def close(self) -> None:
        with self._lock:
            fs, session = self._fs, self._session
            self._fs = self._session = None
        if fs is not None and session is not None:
            closing = asyncio.wait_for(session.close(), _CLOSE_SECONDS)
            wait_for(asyncio.run_coroutine_threadsafe(closing, fs.loop))

    # Requests on the client's event loop, which has a thread of its own

    def _run(self, work: Callable[[Any], Awaitable[T]], key: str, seconds: float | None = None) -> T:
        return wait_for(self._begin(work, key, seconds))

    def _begin(self, work: Callable[[Any], Awaitable[T]], key: str, seconds: float | None = None) -> Future[T]:
        """Start a request on the client's loop, within `seconds` if given. All errors are raised as RequestFailure.

        The time limit excludes the client's set-up, which happens once and waits for no server.
        """

        async def run() -> T:
            ready = False
            try:
                self._session = await self._open_session(fs)
                ready = True
                async with asyncio.timeout(seconds):
                    return await work(fs)
            except RequestFailure:
                raise
            except Exception as error:
                # errors during set-up may contain a secret
                raise self._explain(error, key, ready) from error if ready else None

        try:
            fs = self._client()
        except Exception as error:
            raise self._explain(error, key, ready=False) from None
        return asyncio.run_coroutine_threadsafe(run(), fs.loop)

    def _client(self) -> Any:
        with self._lock:
            if self._fs is None:
                self._fs = self._new_client()
            return self._fs

    # The meaning of failures

    def _explain(self, error: Exception, key: str, ready: bool) -> RequestFailure:
        """Translate an exception. `ready` is False if the client's set-up failed, so no request was sent."""
        where, service = f"{self.uri}/{key}", self.service
        if (answer := self._answer(error)) is not None:
            return self._meaning(answer, where)
        if isinstance(error, service.credential_errors):
            said = f"no usable {service.credentials} credentials for {self.uri}"
            return RequestFailure(Fate.REFUSED, StorageDenied(said, hint=service.credentials_hint))
        # a client may use one class for connections that were never established and for those that broke
        inside = getattr(error, "kwargs", {}).get("error") or error
        # the error's text masks secrets in the endpoint
        endpoint = self._endpoint() if "://" in self._endpoint() else service.name
        if isinstance(inside, aiohttp.ClientConnectorError):
            return _unreachable(inside.os_error, endpoint, where, f"check {service.place} and the network")
        if isinstance(error, service.timeouts):
            return RequestFailure(Fate.UNCLEAR, StorageFailed(f"{where}: {endpoint} timed out"), silent=True)
        if ready and (refusal := self._refusal(error, where, endpoint)) is not None:
            return RequestFailure(Fate.REFUSED, refusal)
        if isinstance(error, aiohttp.InvalidURL):
            return RequestFailure(Fate.REFUSED, InvalidOption(f"cannot open {self.uri}: the endpoint is not a URL"))
        if not ready:
            said = str(error) if isinstance(error, service.told_errors) else ""
            return RequestFailure(
                Fate.REFUSED, InvalidOption(f"cannot open {self.uri}: {said or type(error).__name__}")
            )
        return RequestFailure(
            Fate.UNCLEAR, StorageFailed(f"{where}: the connection to {endpoint} failed: {_why(inside)}")
        )

    def _meaning(self, answer: Answer, where: str) -> RequestFailure:
        status, code, service = answer.status, answer.code, self.service
        detail = f"{status} {code}" if code not in ("", str(status)) else str(status)
        said = f"{where}: {answer.message.rstrip('.') or 'refused'} ({detail})"
        if code == NO_BUCKET:
            hint = "create the bucket, or check its name and the endpoint"
            return RequestFailure(Fate.REFUSED, StorageFailed(f"there is no bucket {self._name}", hint=hint))
        if (status in (401, 403) and code not in service.passing_codes) or code in service.denied_codes:
            return RequestFailure(Fate.REFUSED, StorageDenied(said))
        if status == 404 and code not in service.unclear_codes:
            return RequestFailure(Fate.MISSING, PathMissing(f"no file {where}"))
        if status == 507:
            return RequestFailure(Fate.REFUSED, StorageFull(said))
        if status in service.refused_statuses or code in service.refused_codes:
            return RequestFailure(Fate.REFUSED, StorageFailed(said, hint=f"check {service.settings}"))
        if status == 412:
            return RequestFailure(Fate.UNCLEAR, PathTaken(f"{where} is taken"))
        return RequestFailure(Fate.UNCLEAR, StorageFailed(said))

    # Methods that a backend implements

    @abstractmethod
    def _new_client(self) -> Any: ...

    @abstractmethod
    async def _open_session(self, fs: Any) -> Any:
        """Load the client's credentials and create its session, once. Return the session, which `close` closes."""

    @abstractmethod
    async def _get(self, fs: Any, key: str, limit: int, seconds: float, wanted: str | None = None) -> bytes:
        """Read the object, or the range `wanted`, in the syntax of HTTP's `Range` header."""

    @abstractmethod
    def _answer(self, error: BaseException | None) -> Answer | None:
        """Return the error response inside an exception, if there is one."""

    @abstractmethod
    def _endpoint(self) -> str:
        """Return the endpoint in use, or an empty string. Another thread may close the client meanwhile."""

    def _refusal(self, error: Exception, where: str, endpoint: str) -> StorageFailed | None:
        """Return the error for an exception of this client alone that a retry would repeat, or None for any other."""
        return None


def wait_for(future: Future[T]) -> T:
    """Wait for a Future of the clients' loop. Cancel it if the wait is interrupted."""
    try:
        return future.result()
    except CancelledError:
        raise closed() from None
    except BaseException:
        future.cancel()
        raise


async def read_within(length: int | None, read: Callable[[int], Awaitable[bytes]], where: str, limit: int) -> bytes:
    """Read a response body in pieces. Raise RequestFailure with FileTooLarge once it exceeds `limit`.

    `length` is the length from the header, or None.
    """
    if length is not None and length > limit:
        raise RequestFailure(Fate.REFUSED, FileTooLarge.of(where, length, limit))
    out = bytearray()
    while piece := await read(_PIECE):
        out += piece
        # covers a missing header and a body that is decompressed in transit
        if len(out) > limit:
            raise RequestFailure(Fate.REFUSED, FileTooLarge.of(where, None, limit))
    return bytes(out)


def check_body(data: bytes, expected: int | None, wanted: str | None, found: str | None) -> None:
    """Raise the client's error for a broken connection if the body is not what was requested.

    Its length must be the expected one, if that is known. If the range `wanted` was requested, the response must name
    its range (`found`).
    """
    if expected is not None and len(data) != expected:
        raise aiohttp.ClientPayloadError(f"received {len(data)} of {expected} bytes")
    if wanted is not None and found is None:
        raise aiohttp.ClientPayloadError("the server ignored the range and sent the whole file")


def timeouts(time_allowed: float) -> tuple[float, float]:
    """Return the seconds for a connection, and for each wait for bytes."""
    return min(5.0, time_allowed), min(15.0, time_allowed / 2)


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


_TLS_HINT = "check that the endpoint speaks TLS, or write http://, and check its certificate"


def _unreachable(error: BaseException, endpoint: str, where: str, hint: str) -> RequestFailure:
    """Return the failure for a connection that was not established, so that no byte of the request was sent."""
    said = f"cannot reach {endpoint} for {where}: {_why(error)}"
    # a handshake that breaks off may come from a restarting server, so it is retried; other TLS errors are permanent
    if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError | ssl.SSLZeroReturnError):
        return RequestFailure(Fate.REFUSED, StorageFailed(said, hint=_TLS_HINT))
    return RequestFailure(Fate.UNSENT, StorageFailed(said, hint=hint))


def _why(error: BaseException) -> str:
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
