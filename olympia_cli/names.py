"""Names of objects and references to versions, parsed once, at the edge."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Any, ClassVar

from olympia_cli.days import OnDay, parse_day
from olympia_cli.errors import InvalidName, InvalidReference, quoted


class Kind(IntEnum):
    """The types of object; the numbers are the format's type ids."""

    CATALOG = 0
    NAMESPACE = 1
    TABLE = 2
    VIEW = 3

    @property
    def word(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True, order=True)
class NamespaceName:
    """A namespace. Its name is taken literally: dots and quotes are ordinary characters."""

    kind: ClassVar[Kind] = Kind.NAMESPACE
    namespace: str

    def __post_init__(self) -> None:
        check_name(self.namespace, "namespace")

    @property
    def name(self) -> str:
        """Empty: a namespace has no name beside its own."""
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
        """A name whose characters were looked at already."""
        return cls.all_known_legal(namespace, [name])[0]

    @classmethod
    def all_known_legal(cls, namespace: str, names: Iterable[str]) -> list[TableName]:
        """Such names in a namespace: lists have millions of them, so the slots are set past what guards them."""
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
    """A name as a catalog of the Java SDK holds it, unchecked: there spaces and control characters are legal."""
    found = object.__new__(_CLASSES[kind])
    object.__setattr__(found, "namespace", namespace)
    if kind is not Kind.NAMESPACE:
        object.__setattr__(found, "name", name)
    return found


def checked(name: ObjectName) -> ObjectName:
    """The same name; InvalidName where the format forbids it."""
    name.__post_init__()
    return name


# patterns are compiled when they are first used: a program that only prints help starts faster
_FORBIDDEN = r"[\x00-\x20\x7f]"


def check_name(name: str, what: str) -> None:
    """Raise InvalidName unless the format allows the name. Its length is the catalog's to judge."""
    if not name:
        raise InvalidName(f"a {what} name must not be empty", hint="")
    if name.isascii() and name.isprintable() and " " not in name:
        return  # what nearly all names are made of; lists have millions of them
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
    """`ns.table`, a part with a dot or a double quote in double quotes, the quote doubled."""
    return TableName(*_split(text, "table"))


def parse_view(text: str) -> ViewName:
    """`ns.view`, quoted as a table is."""
    return ViewName(*_split(text, "view"))


def parse_as_found(kind: Kind, text: str) -> ObjectName:
    """As `parse_table` and its like, unchecked: a name to look for in a catalog of the Java SDK."""
    return as_found(kind, text) if kind is Kind.NAMESPACE else as_found(kind, *_split(text, kind.word))


def full_name(namespace: str, name: str) -> str:
    """Both parts of a name, as commands take them."""
    return f"{quote_part(namespace)}.{quote_part(name)}"


def quote_part(part: str) -> str:
    """One part of a full name, quoted only when it must be."""
    return '"' + part.replace('"', '""') + '"' if "." in part or '"' in part else part


_PART = r'"((?:[^"]|"")*)"|([^."]+)'


def _split(text: str, what: str) -> tuple[str, str]:
    parts: list[str] = []
    at = 0
    while True:
        found = re.compile(_PART).match(text, at)
        if not found:
            at = -1  # a dot that nothing follows
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
    """Which of the known names somebody may have meant; None when none is like it."""
    from difflib import get_close_matches

    # two names that differ in case alone are one to most people
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
    """A version reference as a person writes it; what reads as none of the others is an export's name."""
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
    """The reference without what depends on now. A day that is the name of an export means the export."""
    if isinstance(reference, OnDay):
        return AtExport(reference.text) if reference.text in exports() else AtTime(reference.moment(now_millis))
    return AtTime(now_millis - reference.millis) if isinstance(reference, Ago) else reference


def parse_duration(text: str) -> int:
    """A duration such as `2h`, `3d` or `1w`, in milliseconds."""
    found = re.fullmatch(_DURATION, text)
    if not found:
        raise InvalidReference(
            f"{quoted(text)} is not a duration", hint="write a number and s, m, h, d or w: 2h, 3d, 1w"
        )
    return _number(found[1], text) * _UNITS[found[2]]


def parse_time(text: str) -> int:
    """An RFC 3339 time or date, in milliseconds since 1970; no zone means UTC, a date is 00:00."""
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
    """A time, or a day seen from now, in milliseconds since 1970."""
    day = parse_day(text)
    return parse_time(text) if day is None else day.moment(now_millis)


def check_export_name(name: str) -> None:
    """Raise InvalidName for a name that would read as another reference, or that no reference could name."""
    try:
        reference = parse_reference(name)
    except InvalidReference:
        raise InvalidName(f"{quoted(name)} cannot name an export", hint="use letters, digits and dashes") from None
    # a day's name is a good one for an export, and then means it
    if not (isinstance(reference, AtExport) or (isinstance(reference, OnDay) and name.lower() == reference.day)):
        raise InvalidName(f"{quoted(name)} cannot name an export: it reads as another reference", hint="choose a word")


def _number(digits: str, text: str) -> int:
    # a number longer than any version or sane duration is a mistake, and int() of millions of digits is slow
    if len(digits) > 12:
        raise InvalidReference(f"the number in {quoted(text)} is too large")
    return int(digits)


def plural(count: int, word: str, words: str = "") -> str:
    """A number of things: `1 change`, `2 changes`, `2 entries`."""
    return f"{count:,} {word if count == 1 else words or word + 's'}"


def span_text(millis: int) -> str:
    """A length of time in its largest unit: 400 days, 5 hours."""
    words = {"d": "day", "h": "hour", "m": "minute"}
    unit = next((unit for unit in words if millis >= _UNITS[unit]), "m")
    return plural(millis // _UNITS[unit], words[unit])


def time_text(millis: int) -> str:
    """RFC 3339 in UTC, to the millisecond."""
    try:
        moment = datetime.fromtimestamp(millis / 1000, UTC)
    except (OverflowError, ValueError, OSError):
        return f"{millis} ms"
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{millis % 1000:03}Z"
