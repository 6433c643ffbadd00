"""Parse relative days such as `yesterday` and `monday 09:00`. Times without a zone are UTC."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import time

from olympia_cli.errors import InvalidReference, quoted

DAY_MILLIS = 86_400_000
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
DAYS = ("today", "yesterday", *WEEKDAYS)
_FIRST_WEEKDAY = 3  # 1970 began on a Thursday


@dataclass(frozen=True, slots=True)
class OnDay:
    """A day relative to now, with a time of day.

    `text` is the input. Without a time of day it may also be the name of an export, which takes precedence.
    """

    text: str
    day: str
    clock_millis: int = 0
    zone_millis: int = 0

    def moment(self, now_millis: int) -> int:
        """Return the time in milliseconds since 1970. A weekday is its most recent occurrence that is not in the
        future.
        """
        today = (now_millis + self.zone_millis) // DAY_MILLIS
        if self.day not in WEEKDAYS:
            return self._on(today - DAYS.index(self.day))
        moment = self._on(today - (today + _FIRST_WEEKDAY - WEEKDAYS.index(self.day)) % 7)
        return moment if moment <= now_millis else moment - 7 * DAY_MILLIS

    def _on(self, day: int) -> int:
        return day * DAY_MILLIS + self.clock_millis - self.zone_millis


def parse_day(text: str) -> OnDay | None:
    """Parse a day with an optional time of day (default 00:00). Return None for any other text."""
    found = re.fullmatch(rf"({'|'.join(DAYS)})(?:[ tT](.*))?", text, re.IGNORECASE | re.ASCII)
    if not found:
        return None
    day, clock = found[1].lower(), found[2]
    if clock is None:
        return OnDay(text, day)
    try:
        # `fromisoformat` needs two digits for the hour
        at = time.fromisoformat(re.sub(r"^(\d):", r"0\1:", clock.upper()))
    except ValueError:
        shown = quoted(text)
        raise InvalidReference(
            f"{shown} is not a time", hint=f"write '{day} 09:00', in UTC unless a zone follows"
        ) from None
    offset = at.utcoffset()
    zone = 0 if offset is None else (offset.days * 86_400 + offset.seconds) * 1_000
    seconds = (at.hour * 60 + at.minute) * 60 + at.second
    return OnDay(text, day, seconds * 1_000 + at.microsecond // 1_000, zone)
