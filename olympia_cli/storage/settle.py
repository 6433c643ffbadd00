"""Exclusive creation over a network, with requests whose outcome is unknown.

A failed request may have created the file: its response was lost, or it was sent twice and failed because of its own
first attempt. So after any failure but a plain refusal, read the key:

1. It holds the bytes that were sent: the caller won.
2. It holds other bytes: raise PathTaken.
3. It is absent: wait, then create again with the same bytes.
4. The time is up while it is absent or unreadable: raise OutcomeUnknown, and clean up nothing.

Once bytes may have reached the store, no other bytes are sent for that key. From then on a refusal proves nothing,
because an earlier request may still be under way.

Requests that were never sent, because no server listens, are retried within the same time limit, which outlasts the
restart of a server.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from enum import Enum

from olympia_cli.errors import FileTooLarge, OlympiaError, OutcomeUnknown, PathTaken, StorageFailed
from olympia_cli.storage.protocol import TIME_ALLOWED

MOMENT = 0.01
"""Seconds, too short to send or read anything."""


class Fate(Enum):
    """The outcome of a failed request."""

    MISSING = "no object has that key"
    REFUSED = "a permanent error: nothing was done, and a retry will fail, too"
    UNSENT = "no connection: no byte was sent"
    UNCLEAR = "the outcome is unknown, and a retry may succeed"


class RequestFailure(Exception):
    """A failed request, caused by the client's own exception. The store raises its `error` to the caller.

    `silent` is True after a timeout, which says less than any response.
    """

    def __init__(self, fate: Fate, error: OlympiaError, *, silent: bool = False) -> None:
        super().__init__(str(error))
        self.fate = fate
        self.error = error
        self.silent = silent


def reason(before: RequestFailure | None, now: RequestFailure) -> RequestFailure:
    """Return the more informative of two consecutive failures: the later one, unless it is a timeout."""
    return before if before is not None and now.silent else now


def pause(attempt: int, *, longest: float = 2.0) -> float:
    """Return the seconds to wait after an attempt (the first is 0): exponential backoff with jitter."""
    return min(longest, 0.05 * 2.0 ** min(attempt, 10)) * random.uniform(0.5, 1.0)


def fair(time_allowed: float) -> float:
    """Return the minimum time for a write request.

    A request that is cut off may have been sent, so none is started that a slow store could not answer in time.
    """
    return min(1.0, time_allowed / 8)


def settle_create(
    send: Callable[[float], None],
    read: Callable[[float], bytes],
    data: bytes,
    where: str,
    *,
    time_allowed: float = TIME_ALLOWED,
) -> None:
    """Create the file exclusively, and retry until the winner is known.

    `send` and `read` do one request each within the given seconds, and raise RequestFailure. `where` names the key in
    messages.
    """
    start = time.monotonic()
    least = fair(time_allowed)
    why: RequestFailure | None = None
    sent = False
    attempt = 0
    while (share := _share(start, time_allowed)) > least:
        try:
            return send(share)
        except RequestFailure as failure:
            fate, why = failure.fate, reason(why, failure)
        if fate is Fate.REFUSED and not sent:
            raise why.error from why.__cause__
        if sent or fate is not Fate.UNSENT:
            sent = True
            if _mine_stands(read, data, where, start, time_allowed, why):
                return
            if fate is Fate.REFUSED:
                break
        _sleep(pause(attempt), start, time_allowed)
        attempt += 1
    if why is None:
        raise StorageFailed(f"{where} was not created: no time was allowed for it", hint="")
    if not sent:
        raise why.error from why.__cause__
    raise _unknown(where, why.error.message) from why.__cause__


def _mine_stands(
    read: Callable[[float], bytes],
    data: bytes,
    where: str,
    start: float,
    time_allowed: float,
    failure: RequestFailure,
) -> bool:
    """Return True if the key holds my bytes, False if it is absent. Retry while it cannot be read."""
    attempt = 0
    unreadable: RequestFailure | None = None
    while (share := _share(start, time_allowed)) > MOMENT:
        try:
            found = read(share)
        except RequestFailure as now:
            if now.fate is Fate.MISSING:
                return False
            if isinstance(now.error, FileTooLarge):
                raise PathTaken(f"{where} is taken") from failure.__cause__
            unreadable = reason(unreadable, now)
            if now.fate is Fate.REFUSED:
                break
        else:
            if found == data:
                return True
            raise PathTaken(f"{where} is taken") from failure.__cause__
        _sleep(pause(attempt), start, time_allowed)
        attempt += 1
    if unreadable is None or unreadable.silent:
        raise _unknown(where, failure.error.message) from failure.__cause__
    raise _unknown(where, f"it cannot be read ({unreadable.error.message})") from unreadable.__cause__


def _unknown(where: str, why: str) -> OutcomeUnknown:
    return OutcomeUnknown(f"{where} may or may not have been created: {why}")


def _share(start: float, time_allowed: float) -> float:
    """Return half of the time left. The other half is for finding out the result."""
    return (start + time_allowed - time.monotonic()) / 2


def _sleep(seconds: float, start: float, time_allowed: float) -> None:
    time.sleep(max(0.0, min(seconds, _share(start, time_allowed))))
