"""Requests that a client sends again because the answer was lost: done once, and answered alike.

The answers are kept in this process. After a restart, or at another server, a key is new; then the requirements of a
commit still say no to what was done already.
"""

from __future__ import annotations

import asyncio
import hashlib
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from starlette.responses import Response

from olympia_cli.catalog.clock import Clock
from olympia_cli.rest.failures import Failure, bad_request

LIFETIME_MILLIS = 30 * 60 * 1000
LIFETIME = "PT30M"
KEPT = 10_000
KEPT_BYTES = 64 * 2**20
"""Those that were made first go when there are too many, or they are too large together."""


@dataclass(slots=True)
class _Kept:
    fingerprint: bytes
    made_at: int
    answer: asyncio.Future[Response]


class Idempotency:
    """Used on the event loop alone."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._kept: dict[tuple[str, str], _Kept] = {}
        self._size = 0

    async def once(
        self, caller: str, key: str | None, request: bytes, work: Callable[[], Awaitable[Response]]
    ) -> Response:
        """The answer of the work, or the one that was given to the same request before."""
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
        try:
            answer = await work()
        except BaseException as error:
            if isinstance(error, Failure) and error.status < 500:
                self._end(kept, error.response())
            else:
                # what is not known to have ended may be tried again
                self._kept.pop(known, None)
                kept.answer.set_exception(error if isinstance(error, Exception) else RuntimeError(type(error).__name__))
                # who waits for it gets it; that nobody does is no mistake
                kept.answer.exception()
            raise
        self._end(kept, answer)
        return answer

    def _end(self, kept: _Kept, answer: Response) -> None:
        kept.answer.set_result(answer)
        self._size += len(answer.body)

    def _forget(self, now: int) -> None:
        for key, kept in list(self._kept.items()):
            few = len(self._kept) < KEPT and self._size < KEPT_BYTES
            if few and now - kept.made_at <= LIFETIME_MILLIS:
                return
            # one that is under way stays, whatever there is
            if kept.answer.done():
                del self._kept[key]
                self._size -= len(kept.answer.result().body)


def _checked(key: str) -> str:
    try:
        if len(key) == 36:
            return str(uuid.UUID(key))
    except ValueError:
        pass
    raise bad_request("the idempotency key is not a UUID")
