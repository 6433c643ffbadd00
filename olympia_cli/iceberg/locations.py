"""Where table data is: what engines write as locations, as a store and a path on it.

Locations are taken literally, as Iceberg takes them: `%3A` in one is part of the file's name.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass

from olympia_cli.errors import InvalidLocation

LOCAL = "/"
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):")
# Hadoop's names for the same store
_SAME = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True)
class Place:
    """A file: the store that it is on, as `open_store` takes it, and its path there."""

    store: str
    path: str


def place_of(location: str) -> Place:
    """Where the file is; InvalidLocation for what names no file anywhere. Whether the store can be opened is another
    matter."""
    if "\0" in location or any("\ud800" <= character <= "\udfff" for character in location):
        raise InvalidLocation("its location is not text that a file's name can be")
    found = _SCHEME.match(location)
    scheme = found[1].lower() if found else ""
    if scheme == "file":
        return _local(location[len("file:") :])
    if scheme and location.startswith("//", len(scheme) + 1):
        authority, _, path = location[len(scheme) + 3 :].partition("/")
        if not path or path.endswith("/"):
            raise InvalidLocation("its location is not that of a file")
        return Place(f"{_SAME.get(scheme, scheme)}://{authority}", path)
    return _local(location)


def _local(path: str) -> Place:
    if path.startswith("//"):
        host, slash, rest = path[2:].partition("/")
        if host not in ("", "localhost"):
            raise InvalidLocation("its location is on another machine")
        path = slash + rest
    if not path.startswith("/"):
        raise InvalidLocation("its location is relative, so it depends on where a program runs")
    if path.endswith("/"):
        raise InvalidLocation("its location is not that of a file")
    return Place(LOCAL, os.path.normpath(path).lstrip("/"))
