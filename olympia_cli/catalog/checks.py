"""Checks of values that go into definitions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from olympia_cli.catalog.protection import PROTECTING
from olympia_cli.catalog.snapshot import REQUIRED_FEATURES
from olympia_cli.errors import InvalidOption, InvalidReference, quoted
from olympia_cli.masking import carries_secret
from olympia_cli.names import nearest, parse_duration

Properties = Mapping[str, str]
MIN_TTL_MILLIS = 60 * 1000
MAX_TTL_MILLIS = 366 * 86_400_000
MAX_AGE, MIN_VERSIONS = "olympia.retention.max-version-age", "olympia.retention.min-versions"
DEFAULT_MAX_AGE, DEFAULT_MIN_VERSIONS = "7d", "3"
MAX_ACTIONS = "olympia.txn.max-actions"
FSCK_MAX_AGE = "olympia.fsck.max-age"
TABLE_LOCATION = "olympia.table-location"
"""The setting for the location of Iceberg tables that are created without one."""

PLACES = (
    "location",
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""The properties of namespaces and tables whose values are locations."""

RESERVED = "olympia."
"""The prefix of this program's properties. An unknown property with this prefix is a typing error."""

IMPORTED = "olympia.import."
"""The prefix of properties in which an import stores its notes, on the catalog and on objects."""


def check_changes(set_properties: Properties | None, unset_properties: Sequence[str], *others: object) -> None:
    if not set_properties and not unset_properties and all(other is None or other == b"" for other in others):
        raise InvalidOption("nothing to change", hint="name a property to set or unset")
    if both := set(set_properties or {}) & set(unset_properties):
        raise InvalidOption(f"the property {min(both)} is both set and unset", hint="do one or the other")
    check_properties(set_properties or {})
    check_properties(dict.fromkeys(unset_properties, ""))


def check_object_properties(properties: Properties) -> None:
    """Raise InvalidOption for properties that a namespace, table or view must not have."""
    check_properties(properties)
    check_places(properties)
    for key in properties:
        if key in SETTINGS:
            words = ("catalog", "alter", "--set", f"{key}={properties[key]}")
            raise InvalidOption(f"{key} is a setting of the catalog", hint="set it there", command=words)
        if key.startswith(IMPORTED):
            raise _kept(key)
        if key.startswith(RESERVED):
            hint = f"choose a name that does not begin with {RESERVED}"
            raise InvalidOption(f"{key[:80]} is not a property of objects", hint=hint)


def check_properties(properties: Properties) -> None:
    """Raise InvalidOption for properties that no definition can hold."""
    for key, value in properties.items():
        if not key:
            raise InvalidOption("a property must have a name", hint="")
        check_text(key, "name of a property")
        check_text(value, f"value of the property {key}")


def check_places(properties: Properties) -> None:
    """Raise InvalidOption if a location among the properties holds a secret."""
    for key in PLACES:
        if key in properties:
            check_no_secret(properties[key], f"property {key}")


def check_no_secret(location: str, what: str) -> None:
    """Raise InvalidOption if a location holds a secret: every reader of the catalog would see it."""
    if carries_secret(location):
        raise InvalidOption(
            f"the {what} holds a user, a password or a query, and every reader of the catalog would see it",
            hint="leave that out; credentials are for the SDK's own settings, or the storage options of a profile",
        )


def check_catalog_settings(
    properties: Properties, unset_properties: Sequence[str] = (), txn_ttl_millis: int | None = None
) -> None:
    """Raise InvalidOption for properties that only the program may set, and for invalid values of settings."""
    for key in (*properties, *unset_properties):
        if key.startswith((*PROTECTING, IMPORTED)) or key == REQUIRED_FEATURES:
            raise _kept(key)
    for key, value in properties.items():
        if key in SETTINGS:
            SETTINGS[key](key, value)
        elif key.startswith(RESERVED):
            raise InvalidOption(f"{key[:80]} is not a setting of a catalog", hint=_meant(key))
    if txn_ttl_millis is not None and not MIN_TTL_MILLIS <= txn_ttl_millis <= MAX_TTL_MILLIS:
        raise InvalidOption("a transaction's lifetime is 1 minute to 1 year", hint="write 1h, 3d or 2w")


def known_settings(properties: Properties) -> dict[str, str]:
    """Return the properties of an older catalog that are allowed in a new one."""
    found = {}
    for key, value in properties.items():
        with suppress(InvalidOption):
            check_catalog_settings({key: value})
            found[key] = value
    return found


def check_text(value: str, what: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise InvalidOption(f"the {what} is not valid Unicode: {quoted(value)}", hint="") from None


def _kept(key: str) -> InvalidOption:
    return InvalidOption(f"{key} is kept by the program itself", hint="")


def _check_duration(key: str, value: str) -> None:
    try:
        parse_duration(value)
    except InvalidReference:
        raise InvalidOption(f"{quoted(value)} is not a duration", hint="write 7d, 12h or 4w") from None


def _check_number(key: str, value: str) -> None:
    if not (value.isascii() and value.isdigit() and len(value) <= 9 and int(value) > 0):
        raise InvalidOption(f"{quoted(value)} is not a number above 0", hint=f"set {key} to a whole number")


def _check_location(key: str, value: str) -> None:
    if not value.strip():
        raise InvalidOption(f"{key} is not a location", hint="give a folder or a URI")
    check_no_secret(value, f"property {key}")


SETTINGS: dict[str, Callable[[str, str], None]] = {
    MAX_AGE: _check_duration,
    MIN_VERSIONS: _check_number,
    MAX_ACTIONS: _check_number,
    FSCK_MAX_AGE: _check_duration,
    TABLE_LOCATION: _check_location,
}
"""The settings of a catalog, with the check of each value."""


def _meant(key: str) -> str:
    known = {setting.removeprefix(RESERVED): setting for setting in SETTINGS}
    meant = nearest(key.removeprefix(RESERVED), known)
    return f"did you mean {known[meant]}?" if meant else "there are: " + ", ".join(SETTINGS)
