"""Open the store of a URI. Backends are imported on use, because their SDKs load slowly."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from olympia_cli.errors import InvalidLocation, InvalidOption, PathOutside, quoted
from olympia_cli.masking import carries_secret
from olympia_cli.names import parse_duration
from olympia_cli.storage.protocol import TIME_ALLOWED, SizeLimit, Store, check_path, largest

if TYPE_CHECKING:
    from olympia_cli.storage.local import LocalStore
    from olympia_cli.storage.memory import MemoryStore
    from olympia_cli.storage.objects import ObjectStore

SCHEMES = ("file", "s3", "gs", "memory")
BUCKET_SCHEMES = ("s3", "gs")
_SUPPORTED = "a local folder, or file://, s3://, gs:// or memory://"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def open_store(uri: str, options: Mapping[str, object] | None = None, *, size_limit: SizeLimit = largest) -> Store:
    """Return the store at a location, a plain path or a URI of one of SCHEMES, without reading or writing.

    `options` are the backend's (endpoint_url, region, anon, …). For buckets there are two more. `timeout` is the time
    limit of an operation. `bucket` lists the buckets, separated by commas, that the other options apply to.
    `size_limit` returns the largest size of a file that is read in full.
    """
    store = _opened(uri, options)
    store.size_limit = size_limit
    return store


def _opened(uri: str, options: Mapping[str, object] | None) -> LocalStore | MemoryStore | ObjectStore:
    if not uri.strip() or "\0" in uri:
        raise InvalidLocation("the catalog's location is empty or holds a NUL character", hint=f"use {_SUPPORTED}")
    scheme, rest = _split(uri)
    if scheme in (*BUCKET_SCHEMES, "memory") and carries_secret(uri):
        raise InvalidLocation(
            f"a {scheme}:// location must not hold a user, a password or a query",
            hint=f"write {scheme}://{'name' if scheme == 'memory' else 'bucket/prefix'}; credentials and endpoints are "
            "options, not part of it",
        )
    own = dict(options or {})
    time_allowed = _seconds(own.pop("timeout", TIME_ALLOWED))
    if scheme in ("file", "memory") and own:
        raise InvalidOption(f"{scheme}:// takes no options: {', '.join(sorted(own))}")
    match scheme:
        case "file":
            from olympia_cli.storage.local import LocalStore

            return LocalStore(rest)
        case "memory":
            from olympia_cli.storage.memory import shared

            return shared(rest)
        case "s3":
            bucket, prefix = _bucket_and_prefix(scheme, rest)
            from olympia_cli.storage.s3 import S3Store

            return S3Store(bucket, prefix, _options_of(bucket, own), time_allowed=time_allowed)
        case "gs":
            bucket, prefix = _bucket_and_prefix(scheme, rest)
            from olympia_cli.storage.gcs import GcsStore

            return GcsStore(bucket, prefix, _options_of(bucket, own), time_allowed=time_allowed)
        case _:
            raise InvalidLocation(f"no store is known for {scheme}://", hint=f"use {_SUPPORTED}")


def check_opens(location: str) -> None:
    """Raise InvalidLocation for a location with a user or password: SDKs repeat parts of it in their errors."""
    if carries_secret(re.split("[?#]", location, maxsplit=1)[0]):
        raise InvalidLocation(
            f"{location} holds a user or a password, and is not opened", hint="register the table without them"
        )


def scheme_of(uri: str) -> str:
    """Return the scheme of a location, or `file` if it has none."""
    scheme, separator, _ = uri.partition("://")
    return scheme.lower() if separator else "file"


def _options_of(bucket: str, options: Mapping[str, object]) -> dict[str, object]:
    """Return the options, or none if they apply to other buckets."""
    others = {name: value for name, value in options.items() if name != "bucket"}
    meant = options.get("bucket", bucket)
    if not isinstance(meant, str):
        raise InvalidOption(f"the option bucket is {meant!a}", hint='write bucket = "lake" or "lake, backup"')
    return others if bucket in re.split(r"[,\s]+", meant.strip()) else {}


def _seconds(timeout: object) -> float:
    """Parse a number of seconds, or a duration such as `30s`."""
    if isinstance(timeout, str):
        timeout = float(timeout) if re.fullmatch(r"[0-9]+(\.[0-9]+)?", timeout) else parse_duration(timeout) / 1000
    if isinstance(timeout, bool) or not isinstance(timeout, int | float) or not 0 < timeout <= sys.float_info.max:
        raise InvalidOption(f"the timeout {timeout!a} is not a duration", hint="write 30s, for example")
    return float(timeout)


def _split(uri: str) -> tuple[str, str]:
    """Return the scheme and the text after `://`. For a local folder, return `file` and its path."""
    found = _SCHEME.match(uri)
    scheme = found[1].lower() if found else ""
    if uri.startswith(("://", ":/")):
        raise InvalidLocation(f"{quoted(uri)} has no scheme", hint=f"use {_SUPPORTED}")
    if "://" not in uri or not found or not uri[found.end() :].startswith("//"):
        if scheme in SCHEMES:
            raise InvalidLocation(
                f"{scheme}: is neither a folder nor a URI", hint=f"write {scheme}:// with two slashes"
            )
        return "file", os.path.expanduser(uri)
    rest = uri[found.end() + 2 :]
    return (scheme, _local_path(uri)) if scheme == "file" else (scheme, rest)


def _local_path(uri: str) -> str:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost") or not parts.path or parts.query or parts.fragment:
        raise InvalidLocation("a file:// location names a folder of this machine", hint="write file:///folder")
    return unquote(parts.path)


def _bucket_and_prefix(scheme: str, rest: str) -> tuple[str, str]:
    bucket, _, prefix = rest.partition("/")
    if not _BUCKET.fullmatch(bucket):
        raise InvalidLocation(
            f"a {scheme}:// location begins with the name of a bucket",
            hint=f"write {scheme}://bucket/prefix; credentials and endpoints are options, not part of it",
        )
    prefix = prefix.strip("/")
    try:
        return bucket, check_path(prefix) if prefix else ""
    except PathOutside:
        raise InvalidLocation(f"not a prefix in a bucket: {prefix!a}") from None
