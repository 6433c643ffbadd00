"""What may not be written into definitions, whoever asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from olympia_cli.catalog.protection import PROTECTING
from olympia_cli.catalog.snapshot import REQUIRED_FEATURES
from olympia_cli.errors import InvalidOption, InvalidReference
from olympia_cli.names import parse_duration

Properties = Mapping[str, str]
MIN_TTL_MILLIS = 60 * 1000
MAX_TTL_MILLIS = 366 * 86_400_000


def check_changes(set_properties: Properties | None, unset_properties: Sequence[str], *others: object) -> None:
    if not set_properties and not unset_properties and all(other is None or other == b"" for other in others):
        raise InvalidOption("there is nothing to change", hint="name a property to set or unset")
    if both := set(set_properties or {}) & set(unset_properties):
        raise InvalidOption(f"the property {min(both)} is both set and unset", hint="do one or the other")
    check_properties(set_properties or {})
    check_properties(dict.fromkeys(unset_properties, ""))


def check_properties(properties: Properties) -> None:
    """Refuse what no definition could hold."""
    for key, value in properties.items():
        if not key:
            raise InvalidOption("a property must have a name", hint="")
        check_text(key, "name of a property")
        check_text(value, f"value of the property {key}")


def check_catalog_settings(
    properties: Properties, unset_properties: Sequence[str] = (), txn_ttl_millis: int | None = None
) -> None:
    """Refuse to change by hand what the program keeps true itself, and values that it could not go by."""
    for key in (*properties, *unset_properties):
        if key.startswith(PROTECTING) or key == REQUIRED_FEATURES:
            raise InvalidOption(f"{key} is kept by the program itself", hint="")
    for key, value in properties.items():
        _check_retention(key, value)
    if txn_ttl_millis is not None and not MIN_TTL_MILLIS <= txn_ttl_millis <= MAX_TTL_MILLIS:
        raise InvalidOption("a transaction's lifetime is 1 minute to 1 year", hint="write 1h, 3d or 2w")


def check_text(value: str, what: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"the {what} is not valid Unicode: {value[:60]!a}", hint="") from None


def _check_retention(key: str, value: str) -> None:
    if key == "olympia.retention.max-version-age":
        try:
            parse_duration(value)
        except InvalidReference:
            raise InvalidOption(f"{value[:60]!a} is not a duration", hint="write 7d, 12h or 4w") from None
    if key in ("olympia.retention.min-versions", "olympia.txn.max-actions") and not (
        value.isascii() and value.isdigit() and len(value) <= 9 and int(value) > 0
    ):
        raise InvalidOption(f"{value[:60]!a} is not a number above 0", hint=f"set {key} to a whole number")
