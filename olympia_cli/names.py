"""Names of catalog objects, references to versions and days, and new ids. Text is parsed once, at the edge."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime, time
from enum import IntEnum
from os import urandom
from typing import Any, ClassVar

from olympia_cli.errors import InvalidName, InvalidReference, quoted

# Parse relative days such as `yesterday` and `monday 09:00`. Times without a zone are UTC.

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


# Names of catalog objects and references to versions. Text is parsed once, at the edge.


class Kind(IntEnum):
    """The types of object. The numbers are the format's type ids."""

    CATALOG = 0
    NAMESPACE = 1
    TABLE = 2
    VIEW = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, order=True)
class NamespaceName:
    """A namespace. The name is literal: dots and quotes are ordinary characters."""

    kind: ClassVar[Kind] = Kind.NAMESPACE
    namespace: str

    def __post_init__(self) -> None:
        check_name(self.namespace, "namespace")

    @property
    def name(self) -> str:
        """Always empty, so that all object names have the same attributes."""
        return ""

    def __str__(self) -> str:
        return self.namespace


@dataclass(frozen=True, slots=True, order=True)
class TableName:
    """A table in a namespace."""

    kind: ClassVar[Kind] = Kind.TABLE
    namespace: str
    name: str

    def __post_init__(self) -> None:
        check_name(self.namespace, "namespace")
        check_name(self.name, "table")

    @classmethod
    def known_legal(cls, namespace: str, name: str) -> TableName:
        """Create a name without checking its characters."""
        return cls.all_known_legal(namespace, [name])[0]

    @classmethod
    def all_known_legal(cls, namespace: str, names: Iterable[str]) -> list[TableName]:
        """Create the names of many tables of a namespace without checking their characters.

        Slots are set directly, because lists have millions of names and the frozen dataclass is slow.
        """
        slots: Any = cls
        new, set_namespace, set_name = object.__new__, slots.namespace.__set__, slots.name.__set__
        tables = []
        for name in names:
            table = new(cls)
            set_namespace(table, namespace)
            set_name(table, name)
            tables.append(table)
        return tables

    def __str__(self) -> str:
        return full_name(self.namespace, self.name)


@dataclass(frozen=True, slots=True, order=True)
class ViewName:
    """A view in a namespace."""

    kind: ClassVar[Kind] = Kind.VIEW
    namespace: str
    name: str

    def __post_init__(self) -> None:
        check_name(self.namespace, "namespace")
        check_name(self.name, "view")

    def __str__(self) -> str:
        return full_name(self.namespace, self.name)


ObjectName = NamespaceName | TableName | ViewName

_CLASSES: dict[Kind, type[NamespaceName] | type[TableName] | type[ViewName]] = {
    Kind.NAMESPACE: NamespaceName,
    Kind.TABLE: TableName,
    Kind.VIEW: ViewName,
}


def as_found(kind: Kind, namespace: str, name: str = "") -> ObjectName:
    """Create a name without checking it. Catalogs of the Java SDK allow spaces and control characters."""
    found = object.__new__(_CLASSES[kind])
    object.__setattr__(found, "namespace", namespace)
    if kind is not Kind.NAMESPACE:
        object.__setattr__(found, "name", name)
    return found


def checked(name: ObjectName) -> ObjectName:
    """Return the name. Raise InvalidName if the format forbids it."""
    name.__post_init__()
    return name


# patterns are compiled on first use, so that printing help starts fast
_FORBIDDEN = r"[\x00-\x20\x7f]"


def check_name(name: str, what: str) -> None:
    """Raise InvalidName if the format forbids the name. The length limit depends on the catalog and is checked
    elsewhere.
    """
    if not name:
        raise InvalidName(f"a {what} name must not be empty", hint="")
    if name.isascii() and name.isprintable() and " " not in name:
        return  # fast path: lists have millions of names
    found = re.search(_FORBIDDEN, name)
    if found:
        raise InvalidName(
            f"the {what} name {quoted(name)} holds the character U+{ord(found[0]):04X}",
            hint="spaces and control characters are not allowed in names",
        )
    try:
        name.encode()
    except UnicodeEncodeError:
        raise InvalidName(f"the {what} name {quoted(name)} is not valid Unicode", hint="") from None


def parse_table(text: str) -> TableName:
    """Parse `namespace.table`. A part with a dot or a double quote is in double quotes, inner quotes doubled."""
    return TableName(*_split(text, "table"))


def parse_view(text: str) -> ViewName:
    """Parse `namespace.view`, quoted like the name of a table."""
    return ViewName(*_split(text, "view"))


def parse_as_found(kind: Kind, text: str) -> ObjectName:
    """Parse a name without checking it, to find it in a catalog of the Java SDK."""
    return as_found(kind, text) if kind is Kind.NAMESPACE else as_found(kind, *_split(text, kind.word))


def full_name(namespace: str, name: str) -> str:
    """Return the full name as commands accept it."""
    return f"{quote_part(namespace)}.{quote_part(name)}"


def quote_part(part: str) -> str:
    """Return one part of a full name, in quotes if needed."""
    return '"' + part.replace('"', '""') + '"' if "." in part or '"' in part else part


_PART = r'"((?:[^"]|"")*)"|([^."]+)'


def _split(text: str, what: str) -> tuple[str, str]:
    parts: list[str] = []
    at = 0
    while True:
        found = re.compile(_PART).match(text, at)
        if not found:
            at = -1  # the text ends with a dot
            break
        parts.append(found[1].replace('""', '"') if found[1] is not None else found[2])
        at = found.end()
        if at == len(text) or text[at] != ".":
            break
        at += 1
    if at != len(text) or len(parts) != 2:
        raise InvalidName(
            f"{quoted(text)} is not the full name of a {what}",
            hint=f"write namespace.{what}; a part that holds a dot or a quote goes in double quotes",
        )
    return parts[0], parts[1]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name most similar to `name`, or None."""
    from difflib import get_close_matches

    # ignore case
    folded = {one.casefold(): one for one in known}
    found = get_close_matches(name[:200].casefold(), folded, 1)
    return folded[found[0]] if found else None


# References to versions


@dataclass(frozen=True, slots=True)
class AtVersion:
    version: int


@dataclass(frozen=True, slots=True)
class Latest:
    back: int = 0


@dataclass(frozen=True, slots=True)
class Oldest:
    pass


@dataclass(frozen=True, slots=True)
class AtTime:
    millis: int


@dataclass(frozen=True, slots=True)
class Ago:
    millis: int


@dataclass(frozen=True, slots=True)
class AtExport:
    name: str


SettledReference = AtVersion | Latest | Oldest | AtTime | AtExport
Reference = SettledReference | Ago | OnDay

_UNITS = {"ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}
_SURROGATE = "[\ud800-\udfff]"
_VERSION = r"v?([0-9]+)"
_BACK = r"latest~([0-9]+)"
_DURATION = r"([0-9]+)(ms|min|s|m|h|d|w)"
_TIME = r"[0-9]{4}-[0-9]{2}-[0-9]{2}([T ].*)?"


def parse_reference(text: str) -> Reference:
    """Parse a version reference. A text that matches no other form is the name of an export."""
    if found := re.fullmatch(_VERSION, text):
        return AtVersion(_number(found[1], text))
    if text == "latest":
        return Latest()
    if found := re.fullmatch(_BACK, text):
        return Latest(_number(found[1], text))
    if text == "oldest":
        return Oldest()
    if re.fullmatch(_DURATION, text):
        return Ago(parse_duration(text))
    if re.fullmatch(_TIME, text, re.IGNORECASE):
        return AtTime(parse_time(text))
    if (day := parse_day(text)) is not None:
        return day
    if not text or re.search(_FORBIDDEN, text) or re.search(_SURROGATE, text):
        raise InvalidReference(f"{quoted(text)} is not a version reference")
    return AtExport(text)


def settle(reference: Reference, now_millis: int, exports: Callable[[], Container[str]]) -> SettledReference:
    """Resolve a reference that is relative to now. A day that is also the name of an export means the export."""
    if isinstance(reference, OnDay):
        return AtExport(reference.text) if reference.text in exports() else AtTime(reference.moment(now_millis))
    return AtTime(now_millis - reference.millis) if isinstance(reference, Ago) else reference


def parse_duration(text: str) -> int:
    """Parse a duration such as `2h`, `3d` or `1w`. Return milliseconds."""
    found = re.fullmatch(_DURATION, text)
    if not found:
        raise InvalidReference(
            f"{quoted(text)} is not a duration", hint="write a number and s, m, h, d or w: 2h, 3d, 1w"
        )
    return _number(found[1], text) * _UNITS[found[2]]


def parse_time(text: str) -> int:
    """Parse an RFC 3339 time or date, UTC and 00:00 by default. Return milliseconds since 1970."""
    try:
        time = datetime.fromisoformat(text.upper())
    except ValueError:
        raise InvalidReference(
            f"{quoted(text)} is not a time", hint="write 2026-11-15 or 2026-11-15T20:04:00Z"
        ) from None
    if time.tzinfo is None:
        time = time.replace(tzinfo=UTC)
    since = time - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000 + since.microseconds // 1_000


def parse_moment(text: str, now_millis: int) -> int:
    """Parse a time, or a day relative to now. Return milliseconds since 1970."""
    day = parse_day(text)
    return parse_time(text) if day is None else day.moment(now_millis)


def check_export_name(name: str) -> None:
    """Raise InvalidName if the name is no valid reference, or if it would parse as another kind of reference."""
    try:
        reference = parse_reference(name)
    except InvalidReference:
        raise InvalidName(f"{quoted(name)} cannot name an export", hint="use letters, digits and dashes") from None
    # the name of a day is allowed, and then refers to the export
    if not (isinstance(reference, AtExport) or (isinstance(reference, OnDay) and name.lower() == reference.day)):
        raise InvalidName(f"{quoted(name)} cannot name an export: it reads as another reference", hint="choose a word")


def _number(digits: str, text: str) -> int:
    # longer numbers are mistakes, and `int()` is slow for millions of digits
    if len(digits) > 12:
        raise InvalidReference(f"the number in {quoted(text)} is too large")
    return int(digits)


def plural(count: int, word: str, words: str = "") -> str:
    """A number of things: `1 change`, `2 changes`, `2 entries`."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"


def span_text(millis: int) -> str:
    """Format a duration in its largest unit: 400 days, 5 hours."""
    words = {"d": "day", "h": "hour", "m": "minute"}
    unit = next((unit for unit in words if millis >= _UNITS[unit]), "m")
    return plural(millis // _UNITS[unit], words[unit])


def time_text(millis: int) -> str:
    """Format a time as RFC 3339 in UTC, with milliseconds."""
    try:
        moment = datetime.fromtimestamp(millis / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{millis} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{millis % 1000:03}Z"


def new_uuid() -> str:
    """Return a random UUID (version 4). Python's `uuid` module is twice as slow and takes time to import."""
    digits = urandom(16).hex()
    variant = "89ab"[int(digits[16], 16) & 3]
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-{variant}{digits[17:20]}-{digits[20:]}"
