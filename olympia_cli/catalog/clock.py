"""The clocks of a catalog as one object, so that tests can stop them or set them back."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

# only CLOCK_BOOTTIME counts the time while the machine is suspended; the monotonic clock is the fallback
_ELAPSED: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_NAP = 0.5


class Clock(Protocol):
    def now_millis(self) -> int:
        """The time of day. It may jump forwards or backwards."""
        ...

    def elapsed_millis(self) -> int:
        """A time that never goes backwards, and continues while the machine is suspended."""
        ...

    def sleep(self, seconds: float) -> None: ...


class Moment(NamedTuple):
    """A moment by both clocks."""

    wall: int
    elapsed: int


def moment(clock: Clock) -> Moment:
    return Moment(clock.now_millis(), clock.elapsed_millis())


class SystemClock:
    def now_millis(self) -> int:
        return time.time_ns() // 1_000_000

    def elapsed_millis(self) -> int:
        return time.clock_gettime_ns(_ELAPSED) // 1_000_000

    def sleep(self, seconds: float) -> None:
        """Sleep in short intervals, so that Ctrl-C always ends it.

        A signal that arrives just before the system call, or in another thread, does not interrupt the sleep. It is
        handled only after the current interval.
        """
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP))
