"""Idempotency keys: a repeated request is run once, and gets the same response.

The responses are kept in this process. After a restart, or on another server, a key is new. The requirements of a
commit then still reject a repetition.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response

from olympia_cli.catalog.clock import Clock
from olympia_cli.rest.failures import UNKNOWN, Failure, bad_request

LIFETIME_MILLIS = 30 * 60 * 1000
LIFETIME = "PT30M"
KEPT = 10_000
KEPT_BYTES = 64 * 2**20
"""The maximum bytes of stored responses. The oldest ones are evicted."""


@dataclass(slots=True)
class _Kept:
    fingerprint: bytes
    made_at: int
    answer: asyncio.Future[Response]
    size: int = 0


class Idempotency:
    """Stored responses. Must only be used on the event loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._size = 0
        self._under_way: set[asyncio.Task[None]] = set()

    async def once(
        self, caller: str, key: str | None, request: bytes, work: Callable[[], Awaitable[Response]]
    ) -> Response:
        """Return the response of `work`, or the stored response to the same request."""
        if key is None:
            return await work()
        known, now = (caller, _checked(key)), self._clock.elapsed_millis()
        fingerprint = hashlib.sha256(request).digest()
        kept = self._kept.get(known)
        if kept is not None and now - kept.made_at <= LIFETIME_MILLIS:
            if kept.fingerprint != fingerprint:
                raise Failure(422, "UnprocessableEntityException", "the idempotency key was used for another request")
            return await asyncio.shield(kept.answer)
        self._forget(now)
        kept = self._kept[known] = _Kept(fingerprint, now, asyncio.get_running_loop().create_future())
        # a separate task, so that the work continues if the client gives up, and is not started again on a retry
        self._under_way.add(task := asyncio.create_task(self._do(known, kept, work)))
        task.add_done_callback(self._under_way.discard)
        return await asyncio.shield(kept.answer)

    async def _do(self, known: tuple[str, str], kept: _Kept, work: Callable[[], Awaitable[Response]]) -> None:
        try:
            answer = await work()
            kept.answer.set_result(answer)
        except BaseException as error:
            kept.answer.set_exception(error if isinstance(error, Exception) else RuntimeError(type(error).__name__))
            # marks the exception as retrieved, because there may be no waiter
            kept.answer.exception()
            # errors with an unknown outcome are stored, because a retry would conflict with the first attempt
            if not isinstance(error, Failure) or (error.status >= 500 and error.type != UNKNOWN):
                self._kept.pop(known, None)
                return
            answer = error.response()
        kept.size = len(answer.body)
        self._size += kept.size

    def _forget(self, now: int) -> None:
        for key, kept in list(self._kept.items()):
            few = len(self._kept) < KEPT and self._size < KEPT_BYTES
            if few and now - kept.made_at <= LIFETIME_MILLIS:
                return
            # pending requests are never evicted
            if kept.answer.done():
                del self._kept[key]
                self._size -= kept.size


def _checked(key: str) -> str:
    try:
        if len(key) == 36:
            return str(uuid.UUID(key))
    except ValueError:
        pass
    raise bad_request("the idempotency key is not a UUID")
