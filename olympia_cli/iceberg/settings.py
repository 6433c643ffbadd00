"""Convert settings between PyIceberg and this catalog's stores."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from olympia_cli.catalog.properties import TIMEOUT
from olympia_cli.errors import Refused
from olympia_cli.iceberg.locations import folders_of, names_barred
from olympia_cli.storage.open import BUCKET_SCHEMES, scheme_of

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

PY_IO_IMPL = "py-io-impl"
LOCATION_PROVIDER = "write.py-location-provider.impl"
LOADS_CODE = (PY_IO_IMPL, "py-catalog-impl", LOCATION_PROVIDER)
"""Properties that make PyIceberg load code by its name. Every writer of a table's metadata can set them there."""

_OPTIONS: dict[str, dict[str, tuple[str, ...]]] = {
    "s3": {
        "endpoint_url": ("s3.endpoint",),
        "key": ("s3.access-key-id", "client.access-key-id"),
        "secret": ("s3.secret-access-key", "client.secret-access-key"),
        "token": ("s3.session-token", "client.session-token"),
        "region": ("s3.region", "client.region"),
        "profile": ("s3.profile-name", "client.profile-name"),
        "anon": ("s3.anonymous",),
    },
    "gs": {
        "endpoint_url": ("gcs.service.host",),
        "token": ("gcs.oauth2.token",),
        "project": ("gcs.project-id",),
    },
}


def without_code(properties: Mapping[str, str]) -> dict[str, str]:
    """Return the table's properties without those that name code to load."""
    return {key: value for key, value in properties.items() if key not in LOADS_CODE}


def trusted(metadata: TableMetadata, settings: Mapping[str, str], barred: Sequence[str] = ()) -> TableMetadata:
    """Return the metadata for PyIceberg, which loads the location provider that it names before it writes a file.

    Replace the provider by one that refuses, unless the user's own settings name the same one. Also replace it if the
    table's folders are barred.
    """
    named = metadata.properties.get(LOCATION_PROVIDER)
    if names_barred(folders_of(metadata.location, metadata.properties), barred):
        refusing: type[object] = BarredPlace
    elif named is None or named == settings.get(LOCATION_PROVIDER):
        return metadata
    else:
        refusing = UnknownProvider
    name = f"{refusing.__module__}.{refusing.__qualname__}"
    return metadata.model_copy(update={"properties": {**metadata.properties, LOCATION_PROVIDER: name}})


class UnknownProvider:
    """Replaces a location provider that the table names but the user's settings do not."""

    def __init__(self, location: str, properties: Mapping[str, str]) -> None:
        raise Refused(
            f"the table's property {LOCATION_PROVIDER} names code to load, which the settings of the catalog do not",
            hint="unset it in the table's metadata, or set the same in the properties of the catalog",
        )


class BarredPlace:
    """Replaces the location provider of a table among the catalog's own files."""

    def __init__(self, location: str, properties: Mapping[str, str]) -> None:
        raise Refused("the table's location, or a path in its properties, is among the catalog's own files", hint="")


def store_options(uri: str, properties: Mapping[str, str]) -> dict[str, object]:
    """Return the options for the catalog's store from PyIceberg's properties for the same kind of store."""
    options: dict[str, object] = {}
    for option, names in _OPTIONS.get(scheme_of(uri), {}).items():
        value = next((properties[name] for name in names if properties.get(name)), None)
        if value is not None:
            options[option] = value.lower() == "true" if option == "anon" else value
    if TIMEOUT in properties and options:
        options["timeout"] = properties[TIMEOUT]
    return options


def same_sdk(location: str) -> dict[str, str]:
    """Return the properties that make PyIceberg open a location with the SDK of this catalog's stores."""
    return {PY_IO_IMPL: "pyiceberg.io.fsspec.FsspecFileIO"} if scheme_of(location) in BUCKET_SCHEMES else {}


def io_properties(uri: str, options: Mapping[str, object]) -> dict[str, str]:
    """Return PyIceberg's properties for a store's options, as far as they exist."""
    names = {option: names[0] for option, names in _OPTIONS.get(scheme_of(uri), {}).items()}
    return {
        names[option]: str(value).lower() if isinstance(value, bool) else str(value)
        for option, value in options.items()
        if option in names and value is not None
    }
