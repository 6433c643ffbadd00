"""Exclusive creation over a network: what stands after a request that failed.

A failed request says little. The store may have carried it out and lost the reply, or the request was sent
twice and met its own object. So after any failure but a plain refusal the key is read:

1. equal to what was sent: won
2. different: PathTaken
3. absent: wait a little and create again, with the same bytes
4. the time is up while it is absent or unreadable: OutcomeUnknown, and nothing is cleaned up

Once bytes may have reached the store, no others are sent for that key, and a refusal says nothing any more:
an earlier request may still be under way.

As long as nothing was sent, because nobody listens, the same time is allowed: a server that restarts is back before
it is up.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from enum import Enum

from olympia_cli.errors import FileTooLarge, OlympiaError, OutcomeUnknown, PathTaken, StorageFailed

TIME_ALLOWED = 30.0
# too little to send or read anything in
MOMENT = 0.01


class Fate(Enum):
    """What a failure says about the request."""

    MISSING = "there is nothing under that key"
    REFUSED = "the store says no, and will say no again; nothing was done"
    UNSENT = "no connection: not a byte left this machine"
    UNCLEAR = "it may or may not have been carried out; another time may go better"


class Failure(Exception):
    """One request that failed, from the client's own exception. What a store's caller gets is its `error`.

    `silent`: nothing was heard in the time that was left, which tells less than any answer.
    """

    def __init__(self, fate: Fate, error: OlympiaError, *, silent: bool = False) -> None:
        super().__init__(str(error))
        self.fate = fate
        self.error = error
        self.silent = silent


def reason(before: Failure | None, now: Failure) -> Failure:
    """Which of two failures in a row says why: the later one, unless it is our own impatience."""
    return before if before is not None and now.silent else now


def pause(attempt: int, *, longest: float = 2.0) -> float:
    """Seconds to wait after an attempt (the first is 0): doubling, and never in step with other writers."""
    return min(longest, 0.05 * 2.0 ** min(attempt, 10)) * random.uniform(0.5, 1.0)


def fair(time_allowed: float) -> float:
    """The seconds that a request which writes gets at least: one that is cut off may have been sent, so none is begun
    that a slow store could not answer in time."""
    return min(1.0, time_allowed / 8)


def settle_create(
    send: Callable[[float], None],
    read: Callable[[float], bytes],
    data: bytes,
    where: str,
    *,
    time_allowed: float = TIME_ALLOWED,
) -> None:
    """Create until it is known who won. `send` and `read` do one request each, within the seconds given to
    them, and raise Failure; `where` is the key as a person would write it.
    """
    start = time.monotonic()
    least = fair(time_allowed)
    why: Failure | None = None
    sent = False
    attempt = 0
    while (share := _share(start, time_allowed)) > least:
        try:
            return send(share)
        except Failure as failure:
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
    failure: Failure,
) -> bool:
    """Whether the key holds my bytes; False if it holds none. Goes on asking while it cannot be read."""
    attempt = 0
    unreadable: Failure | None = None
    while (share := _share(start, time_allowed)) > MOMENT:
        try:
            found = read(share)
        except Failure as now:
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
    """Half of the time left: the other half is for finding out."""
    return (start + time_allowed - time.monotonic()) / 2


def _sleep(seconds: float, start: float, time_allowed: float) -> None:
    time.sleep(max(0.0, min(seconds, _share(start, time_allowed))))
