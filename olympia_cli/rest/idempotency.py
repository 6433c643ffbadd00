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
LARGEST = 256 * 1024
"""An answer larger than this is not kept: the request is then not repeated either, but the table is shown anew."""


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

    async def once(
        self, caller: str, key: str | None, request: bytes, work: Callable[[], Awaitable[Response]]
    ) -> Response:
        """The answer of the work, or the one that was given to the same request before."""
        if key is None:
            return await work()
        fingerprint, now = hashlib.sha256(request).digest(), self._clock.elapsed_millis()
        kept = self._kept.get((caller, _checked(key)))
        if kept is not None and now - kept.made_at <= LIFETIME_MILLIS:
            if kept.fingerprint != fingerprint:
                raise Failure(422, "UnprocessableEntityException", "the idempotency key was used for another request")
            return await asyncio.shield(kept.answer)
        self._forget(now)
        kept = _Kept(fingerprint, now, asyncio.get_running_loop().create_future())
        self._kept[caller, _checked(key)] = kept
        try:
            answer = await work()
        except Failure as failure:
            if failure.status >= 500:
                self._drop(caller, key, kept, failure)
            else:
                kept.answer.set_result(failure.response())
            raise
        except BaseException as error:
            self._drop(caller, key, kept, error)
            raise
        kept.answer.set_result(answer)
        return answer

    def _drop(self, caller: str, key: str, kept: _Kept, error: BaseException) -> None:
        """What is not known to have ended may be tried again."""
        self._kept.pop((caller, _checked(key)), None)
        kept.answer.set_exception(error if isinstance(error, Exception) else RuntimeError(type(error).__name__))
        # who waits for it gets it; that nobody does is no mistake
        kept.answer.exception()

    def _forget(self, now: int) -> None:
        while self._kept:
            first = next(iter(self._kept))
            kept = self._kept[first]
            if not kept.answer.done() or (now - kept.made_at <= LIFETIME_MILLIS and len(self._kept) < KEPT):
                return
            del self._kept[first]


def _checked(key: str) -> str:
    try:
        if len(key) == 36:
            return str(uuid.UUID(key))
    except ValueError:
        pass
    raise bad_request("the idempotency key is not a UUID")
