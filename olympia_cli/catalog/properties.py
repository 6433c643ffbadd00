"""The keys of the properties that this program writes or reads, and the checks of properties that a user gives.

Keys that begin with `olympia.` are this program's. They are found in four places:

- The catalog's definition: settings of the user, and records of the program.
- Definitions of namespaces, tables and views: notes of imports.
- Summaries of the snapshots of Iceberg tables: notes of imports and of appends from Spark.
- The properties of the catalog for PyIceberg, which a program or a configuration file gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress

from olympia_cli.errors import InvalidOption, InvalidReference, quoted
from olympia_cli.masking import carries_secret
from olympia_cli.names import nearest, parse_duration

RESERVED = "olympia."
"""The prefix of this program's properties. An unknown property with this prefix is a typing error."""

# Settings of a catalog, in its definition

MAX_AGE, MIN_VERSIONS = "olympia.retention.max-version-age", "olympia.retention.min-versions"
DEFAULT_MAX_AGE, DEFAULT_MIN_VERSIONS = "7d", "3"
MAX_ACTIONS = "olympia.txn.max-actions"
FSCK_MAX_AGE = "olympia.fsck.max-age"
TABLE_LOCATION = "olympia.table-location"
"""The setting for the location of Iceberg tables that are created without one."""

# Records of the program, in the catalog's definition

REQUIRED_FEATURES = "olympia.required-features"
EXPIRE_OLDEST = "olympia.expire.oldest"
EXPIRE_PURGED = "olympia.expire.purged"
EXPIRE_QUARANTINE = "olympia.expire.quarantine"
EXPIRE_PURGING = "olympia.expire.purging"
EXPORT_PREFIX = "olympia.export."
ACKNOWLEDGED = "olympia.fsck.acknowledged"
PROMOTED = "olympia.promoted"

PROTECTING = (EXPORT_PREFIX, "olympia.expire.", ACKNOWLEDGED, PROMOTED)
"""Prefixes of the records that protect files or record their deletion. They refer to one catalog's versions, so copies
omit them."""

# Notes of imports, on the catalog, on objects and in the snapshots of tables

IMPORTED = "olympia.import."
"""The prefix of properties in which an import stores its notes. The catalog has a note per source."""
FORMER_NAME = "olympia.import.name"
"""The name at the source, of an object that is renamed because the format forbids that name."""

PARQUET_FOLDER = "olympia.import.parquet"
"""The folder of a table's Parquet files."""
PARQUET_FILES = "olympia.import.parquet.files"
"""The number of files in that folder that were ever part of the table."""

IOX_SOURCE = "olympia.import.iox"
"""The source of a table, and of the snapshots that imports made."""
IOX_STATE = "olympia.import.iox.state"
"""A checksum of the files and deletes from which a snapshot was made."""
IOX_REVISION = "iox.revision"
IOX_TRANSACTION = "iox.transaction"
IOX_TIME = "iox.time"

DELTACAT = "deltacat."
"""The prefix of the properties of objects from a DeltaCAT catalog."""
DELTACAT_CATALOG = f"{DELTACAT}catalog"
"""The id of the catalog, wherever it is copied to."""
DELTACAT_NAMESPACE = f"{DELTACAT}namespace"
DELTACAT_TABLE = f"{DELTACAT}table"
DELTACAT_TRANSACTION = f"{DELTACAT}transaction"
"""The last transaction that wrote to the object."""
DELTACAT_HISTORY = f"{DELTACAT}history"
"""The newest hundred revisions of the object: number, operation, transaction and time."""
DELTACAT_VERSION = f"{DELTACAT}table-version"
DELTACAT_DESCRIPTION = f"{DELTACAT}description"
DELTACAT_PROPERTY = f"{DELTACAT}property."
"""The prefix of properties at the source whose own names have another meaning here."""
DELTACAT_LEFT_OUT = f"{DELTACAT}left-out"
"""The number of groups of parts of a table that were left out."""
DELTACAT_REWRITTEN = f"{DELTACAT}rewritten"
"""`true` if rows of a table were merged and rewritten."""
DELTACAT_METADATA = f"{DELTACAT}metadata-location"
"""The metadata that the import wrote: a table with any other metadata was changed here."""

# Notes of appends from Spark, in the snapshots of tables

RUN = "olympia.run"
"""The user's name for the append that created the snapshot."""
APPEND = "olympia.append"
"""The append's folder, which is unique."""

# Settings of the catalog for PyIceberg

TIMEOUT = "olympia.timeout"
ONE_SDK = "olympia.one-sdk"
"""Open tables in buckets with the SDKs that open the catalog. PyIceberg prefers others, whose defaults differ, such as
an endpoint in the environment."""

# Checks of properties

PLACES = (
    "location",
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)
"""The properties of namespaces and tables whose values are locations."""

Properties = Mapping[str, str]
MIN_TTL_MILLIS = 60 * 1000
MAX_TTL_MILLIS = 366 * 86_400_000


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
