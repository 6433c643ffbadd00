"""Settings of PyIceberg and of this catalog's stores, which mean the same under different names."""

from __future__ import annotations

from collections.abc import Mapping

from olympia_cli.storage.open import BUCKET_SCHEMES, scheme_of

PY_IO_IMPL = "py-io-impl"

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
TIMEOUT = "olympia.timeout"
ONE_SDK = "olympia.one-sdk"
"""Tables in buckets are opened with the SDKs that the catalog is opened with. PyIceberg prefers others, which look
elsewhere for what they are not told: an endpoint in the environment, for one."""


def store_options(uri: str, properties: Mapping[str, str]) -> dict[str, object]:
    """What opens the catalog's own store, from PyIceberg's properties for the same kind of store."""
    options: dict[str, object] = {}
    for option, names in _OPTIONS.get(scheme_of(uri), {}).items():
        value = next((properties[name] for name in names if properties.get(name)), None)
        if value is not None:
            options[option] = value.lower() == "true" if option == "anon" else value
    if TIMEOUT in properties and options:
        options["timeout"] = properties[TIMEOUT]
    return options


def same_sdk(location: str) -> dict[str, str]:
    """What has PyIceberg open a location with the SDK that this catalog's stores use."""
    return {PY_IO_IMPL: "pyiceberg.io.fsspec.FsspecFileIO"} if scheme_of(location) in BUCKET_SCHEMES else {}


def io_properties(uri: str, options: Mapping[str, object]) -> dict[str, str]:
    """PyIceberg's properties for a store's options, as far as it has them."""
    names = {option: names[0] for option, names in _OPTIONS.get(scheme_of(uri), {}).items()}
    return {
        names[option]: str(value).lower() if isinstance(value, bool) else str(value)
        for option, value in options.items()
        if option in names and value is not None
    }
