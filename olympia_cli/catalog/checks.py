"""What may not be written into definitions, whoever asks for it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from olympia_cli.catalog.snapshot import EXPORT_PREFIX, REQUIRED_FEATURES
from olympia_cli.errors import InvalidOption

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


def check_catalog_settings(keys: set[str], txn_ttl_millis: int | None) -> None:
    """Refuse to change by hand what the program keeps true itself, and a lifetime that no commit could keep to."""
    for key in sorted(keys):
        if key.startswith((EXPORT_PREFIX, "olympia.expire.")) or key == REQUIRED_FEATURES:
            raise InvalidOption(f"{key} is kept by the program itself", hint="")
    if txn_ttl_millis is not None and not MIN_TTL_MILLIS <= txn_ttl_millis <= MAX_TTL_MILLIS:
        raise InvalidOption("a transaction's lifetime is 1 minute to 1 year", hint="write 1h, 3d or 2w")


def check_text(value: str, what: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"the {what} is not valid Unicode: {value[:60]!a}", hint="") from None
