"""A bucket as its backend reaches it: one request a call, on the loop of the client, tried once.

The clients' own retries are switched off, so that the time allowed means something and no request is sent twice behind
our back.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from typing import Any, TypeVar

from olympia_cli.errors import FileTooLarge, InvalidOption, StorageFailed, quoted
from olympia_cli.storage.protocol import LARGEST, Between
from olympia_cli.storage.settle import Failure, Fate

# a large file gets more time: what a slow line carries in a second
_SLOW_BYTES = 1024 * 1024
_PIECE = 1 << 20

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Entry:
    """One object as a listing or a look at it shows it."""

    key: str
    size: int
    modified_at_millis: int


def check_options(scheme: str, options: Iterable[str], takers: Iterable[Callable[..., object]], ours: set[str]) -> None:
    """Raise InvalidOption for an option that is none of ours, and that none of these takes as an argument. The clients
    ignore such a one, or fail with it later."""
    from olympia_cli.names import nearest

    known = ours.union(*(inspect.signature(taker).parameters for taker in takers)) - {"self", "args", "kwargs"}
    for option in sorted(set(options) - known):
        meant = nearest(option, known)
        hint = f"did you mean {meant}?" if meant else ""
        raise InvalidOption(f"not an option of {scheme}://: {quoted(option)}", hint=hint)


class Bucket(ABC):
    """One request a call, tried once, within the seconds given. Any failure is raised as a Failure, from the
    client's own exception. A backend brings a client, what it is asked, and what its exceptions mean."""

    delete_batch: int
    """How many keys `delete` takes."""

    def __init__(self, name: str, settings: Mapping[str, Any]) -> None:
        self._name = name
        self._settings = settings
        self._lock = threading.Lock()
        self._fs: Any = None

    @property
    @abstractmethod
    def uri(self) -> str: ...

    def get(self, key: str, limit: int, seconds: float) -> bytes:
        """The seconds are for an empty file; a large one gets `size_seconds` more. One of more bytes than the limit is
        refused as FileTooLarge."""
        return wait_for(self.begin_get(key, limit, seconds))

    def begin_get(self, key: str, limit: int, seconds: float) -> Future[bytes]:
        """`get`, and nobody waits: what it raises comes out of the Future."""
        return self._begin(lambda fs: self._get(fs, key, limit, seconds), key)

    def get_range(self, key: str, start: int, length: int, seconds: float) -> bytes:
        wanted = f"bytes={start}-{start + length - 1}"
        try:
            found = self._run(lambda fs: self._get(fs, key, max(length, LARGEST), seconds, wanted), key)
        except Failure as failure:
            if self._status(failure.__cause__) == 416:
                return b""  # the file ends before the range begins
            raise
        return found[:length]

    @abstractmethod
    def put(self, key: str, data: bytes, *, exclusive: bool, seconds: float) -> None: ...

    @abstractmethod
    def head(self, key: str, seconds: float) -> Entry: ...

    @abstractmethod
    def page(self, prefix: str, token: str | None, between: Between, seconds: float) -> tuple[list[Entry], str | None]:
        """Up to 1,000 objects in the order of their keys, and the token of the page after them. They begin where
        `between` does, and may go on after its end."""

    @abstractmethod
    def delete(self, keys: list[str], seconds: float) -> dict[str, Failure]:
        """Delete the keys; those that failed, and why. A missing key is no failure."""

    def close(self) -> None:
        with self._lock:
            fs, self._fs = self._fs, None
        if fs is not None and (session := self._session(fs)) is not None:
            run_within(fs.loop, session.close(), 5.0)

    # What the requests of backends are made with

    def _run(self, work: Callable[[Any], Awaitable[T]], key: str, seconds: float | None = None) -> T:
        return wait_for(self._begin(work, key, seconds))

    def _begin(self, work: Callable[[Any], Awaitable[T]], key: str, seconds: float | None = None) -> Future[T]:
        """Do the request on the client's loop, within the time if it is given; whatever goes wrong is a Failure.

        Making the client ready, which happens once, is not counted: no server is waited for.
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

    # What a backend says of its client

    @abstractmethod
    def _new_client(self) -> Any: ...

    @abstractmethod
    async def _make_ready(self, fs: Any) -> None:
        """Let the client have its credentials and its session."""

    @abstractmethod
    def _session(self, fs: Any) -> Any:
        """What of a client is to be closed; None where it was never ready."""

    @abstractmethod
    async def _get(self, fs: Any, key: str, limit: int, seconds: float, wanted: str | None = None) -> bytes:
        """`wanted` is a range of bytes as HTTP writes it; without, all of the file."""

    @abstractmethod
    def _status(self, error: BaseException | None) -> int | None:
        """The HTTP status of an answer that is an error."""

    @abstractmethod
    def _explain(self, error: Exception, key: str, ready: bool) -> Failure:
        """The failure that an exception means. `ready`: the client was set up; before that, nothing is sent."""

    @abstractmethod
    def _cause(self, error: Exception, ready: bool) -> BaseException | None:
        """What a failure is told to come from; None where nobody is to see it."""


def size_seconds(size: int) -> float:
    """How much longer than an empty file one of so many bytes may take."""
    return size / _SLOW_BYTES


def run_within(loop: asyncio.AbstractEventLoop, work: Coroutine[Any, Any, T], seconds: float) -> T:
    """Run it on the clients' loop, which has a thread of its own, and wait; stop it when the time is up."""
    return wait_for(asyncio.run_coroutine_threadsafe(asyncio.wait_for(work, seconds), loop))


def wait_for(future: Future[T]) -> T:
    """What runs on the clients' loop; it is stopped when whoever waits is."""
    try:
        return future.result()
    except CancelledError:
        raise closed() from None
    except BaseException:
        future.cancel()
        raise


def closed() -> Failure:
    """A client that is closed cancels what waits for one of its connections, and nothing says what became of it."""
    return Failure(Fate.UNCLEAR, StorageFailed("the connection was closed before an answer came"))


async def read_within(length: int | None, read: Callable[[int], Awaitable[bytes]], where: str, limit: int) -> bytes:
    """A body of the length that its header says, if it says one, read in pieces: no more than the limit, and a bit."""
    if length is not None and length > limit:
        raise too_large(where, length, limit)
    out = bytearray()
    while piece := await read(_PIECE):
        out += piece
        # without a header, or unpacked on the way, only this tells how large it is
        if len(out) > limit:
            raise too_large(where, None, limit)
    return bytes(out)


def too_large(where: str, size: int | None, limit: int) -> Failure:
    return Failure(Fate.REFUSED, FileTooLarge.of(where, size, limit))
