"""A URI becomes a store. The backends are imported here, when asked for: their SDKs take long to load."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from urllib.parse import unquote, urlsplit

from olympia_cli.errors import InvalidLocation, InvalidOption, PathOutside
from olympia_cli.storage.protocol import Store, check_path

SCHEMES = ("file", "s3", "gs", "memory")
_SUPPORTED = "a local folder, or file://, s3://, gs:// or memory://"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def open_store(uri: str, options: Mapping[str, object] | None = None) -> Store:
    """The store at the location: a plain path, or a URI of one of SCHEMES. `options` are the backend's own
    (endpoint_url, region, anon, …). Nothing is read or written.
    """
    if not uri.strip() or "\0" in uri:
        raise InvalidLocation("the catalog's location is empty or garbled", hint=f"use {_SUPPORTED}")
    scheme, rest = _split(uri)
    if scheme in ("file", "memory") and options:
        raise InvalidOption(f"{scheme}:// takes no options: {', '.join(sorted(options))}")
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

            return S3Store(bucket, prefix, options or {})
        case "gs":
            bucket, prefix = _bucket_and_prefix(scheme, rest)
            from olympia_cli.storage.gcs import GcsStore

            return GcsStore(bucket, prefix, options or {})
        case _:
            raise InvalidLocation(f"no store is known for {scheme}://", hint=f"use {_SUPPORTED}")


def _split(uri: str) -> tuple[str, str]:
    """The scheme and what follows `://`; for a local folder, its path."""
    found = _SCHEME.match(uri)
    scheme = found[1].lower() if found else ""
    if uri.startswith(("://", ":/")):
        raise InvalidLocation(f"{uri[:60]!a} has no scheme", hint=f"use {_SUPPORTED}")
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
        # what stands there may be a password: it is not repeated
        raise InvalidLocation(
            f"a {scheme}:// location begins with the name of a bucket",
            hint=f"write {scheme}://bucket/prefix; credentials and endpoints are options, not part of it",
        )
    prefix = prefix.strip("/")
    try:
        return bucket, check_path(prefix) if prefix else ""
    except PathOutside:
        raise InvalidLocation(f"not a prefix in a bucket: {prefix!r}") from None
