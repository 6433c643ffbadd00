"""Days as people say them, seen from any moment."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from olympia_cli.errors import InvalidName, InvalidReference
from olympia_cli.names import (
    DAY_MILLIS,
    DAYS,
    WEEKDAYS,
    AtExport,
    AtTime,
    check_export_name,
    parse_day,
    parse_moment,
    parse_reference,
    settle,
)

QUICK = settings(max_examples=200, deadline=None, derandomize=True)
MOMENTS = st.integers(0, 4_000_000_000_000)
CLOCKS = st.times().map(lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000))
ZONES = st.integers(-23 * 60, 23 * 60)
SUNDAY = 1_794_744_000_000  # 2026-11-15 12:00 UTC, a Sunday


def told(millis: int, minutes: int = 0) -> datetime:
    zone = timezone(timedelta(minutes=minutes))
    return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)).astimezone(zone)


def moment(text: str, now: int) -> int:
    found = settle(parse_reference(text), now, lambda: ())
    assert isinstance(found, AtTime)
    return found.millis


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("today", "2026-11-15T00:00:00+00:00"),
        ("yesterday", "2026-11-14T00:00:00+00:00"),
        ("Yesterday 18:30", "2026-11-14T18:30:00+00:00"),
        ("today 18:30", "2026-11-15T18:30:00+00:00"),
        ("monday", "2026-11-09T00:00:00+00:00"),
        ("monday 09:00", "2026-11-09T09:00:00+00:00"),
        ("monday 9:00", "2026-11-09T09:00:00+00:00"),
        ("mondayT09:00:01.5", "2026-11-09T09:00:01.500000+00:00"),
        ("saturday 23:59", "2026-11-14T23:59:00+00:00"),
        ("sunday", "2026-11-15T00:00:00+00:00"),
        ("sunday 12:00", "2026-11-15T12:00:00+00:00"),
        ("sunday 12:01", "2026-11-08T12:01:00+00:00"),
        ("yesterday 18:30Z", "2026-11-14T18:30:00+00:00"),
        ("yesterday 18:30+02:00", "2026-11-14T16:30:00+00:00"),
        # there it is Monday already
        ("yesterday 00:00+13:00", "2026-11-14T11:00:00+00:00"),
    ],
)
def test_day_words_mean_moments_before_a_sunday_noon(text, expected):
    assert told(moment(text, SUNDAY)).isoformat() == expected
    assert parse_moment(text, SUNDAY) == moment(text, SUNDAY)


@QUICK
@given(MOMENTS, st.sampled_from(WEEKDAYS), CLOCKS, ZONES)
def test_a_weekday_is_the_last_one_at_that_time_that_is_not_still_to_come(now, day, clock, minutes):
    sign, zone = "-" if minutes < 0 else "+", f"{abs(minutes) // 60:02}:{abs(minutes) % 60:02}"
    found = moment(f"{day} {clock.isoformat()}{sign}{zone}", now)
    assert now - 7 * DAY_MILLIS < found <= now
    there = told(found, minutes)
    assert (WEEKDAYS[there.weekday()], there.time()) == (day, clock)


@QUICK
@given(MOMENTS, CLOCKS)
def test_today_and_yesterday_are_the_days_of_the_calendar_in_utc(now, clock):
    for word, back in (("today", 0), ("yesterday", 1)):
        found = told(moment(f"{word} {clock.isoformat()}", now))
        assert (found.date(), found.time()) == (told(now).date() - timedelta(days=back), clock)
        assert moment(word, now) == moment(f"{word} 00:00", now)


@pytest.mark.parametrize("day", DAYS)
def test_a_day_alone_may_be_an_export_and_then_is_one(day):
    check_export_name(day)
    check_export_name(day.title())
    assert settle(parse_reference(day), SUNDAY, lambda: {day}) == AtExport(day)
    assert isinstance(settle(parse_reference(day), SUNDAY, lambda: {"x"}), AtTime)
    with pytest.raises(InvalidName):
        check_export_name(f"{day} 09:00")


@pytest.mark.parametrize(
    "text",
    ["monday ", "monday noon", "monday 25:00", "today 9", "yesterday 09:00 Z x", "friday 09:00+25:00", "today\n"],
)
def test_a_day_with_anything_else_is_a_mistake(text):
    with pytest.raises(InvalidReference) as caught:
        parse_reference(text)
    assert str(caught.value).isprintable()


@pytest.mark.parametrize("text", ["tomorrow", "mon", "mondays", "to-day", "yesterday-09:00"])
def test_other_words_are_exports(text):
    assert parse_day(text) is None
    assert parse_reference(text) == AtExport(text)
