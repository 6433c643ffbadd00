"""The clocks that a catalog looks at, as one value, so that a test can hold them still or turn them back."""

from __future__ import annotations

import time
from typing import NamedTuple, Protocol

# only this clock counts the time that a laptop's lid was closed; where there is none, the monotonic one must do
_ELAPSED: int = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

_NAP = 0.5


class Clock(Protocol):
    def now_millis(self) -> int:
        """The time of day. It may jump, forwards or backwards."""
        ...

    def elapsed_millis(self) -> int:
        """Time that only goes forward, and goes on while the machine is suspended."""
        ...

    def sleep(self, seconds: float) -> None: ...


class Moment(NamedTuple):
    """One moment by both clocks."""

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
        """In naps. Ctrl-C that comes after Python last looked for it and before the system sleeps does not end that
        sleep, nor does one that another thread gets: it is seen after it."""
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            time.sleep(min(left, _NAP))
