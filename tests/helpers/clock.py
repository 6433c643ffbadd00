"""A clock that stands still until a test moves it."""

from __future__ import annotations

SECOND = 1_000
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DAY = 24 * HOUR

START = 1_700_000_000_000


class FakeClock:
    """Sleeping advances it and takes no time. `wall` is the time of day, `elapsed` the time that only goes forward."""

    def __init__(self, wall: int = START, elapsed: int = 5 * DAY) -> None:
        self.wall = wall
        self.elapsed = elapsed
        self.slept: list[float] = []

    def now_millis(self) -> int:
        return self.wall

    def elapsed_millis(self) -> int:
        return self.elapsed

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.advance(round(seconds * 1000))

    def advance(self, millis: int) -> None:
        """Let time pass, for both clocks."""
        self.wall += millis
        self.elapsed += millis

    def set_wall(self, millis: int) -> None:
        """Set the wall clock; no time passes."""
        self.wall = millis
