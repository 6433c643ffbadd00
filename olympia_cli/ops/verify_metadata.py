"""A look at an Iceberg table's metadata file: is it there, and is it what it should be?"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Mapping

from olympia_cli.errors import Damaged, InvalidOption, PathMissing
from olympia_cli.storage.open import open_store

FORMAT_VERSIONS = (1, 2, 3)


def verify_metadata(location: str, options: Mapping[str, object] | None) -> None:
    """Raise unless the location holds the metadata of an Iceberg table. `options` are those of its storage."""
    folder, _, name = location.rpartition("/")
    if not folder or not name:
        raise InvalidOption(f"{location[:200]!a} is not the location of a file", hint="give the metadata file itself")
    try:
        data = open_store(folder, options).read(name)
    except PathMissing:
        raise PathMissing(f"there is no metadata at {location}", hint="check the location") from None
    try:
        # such files may be compressed, and say so in their names only by convention
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
        found = json.loads(text)
    except (ValueError, OSError, EOFError, zlib.error, RecursionError):
        raise Damaged(location, "it is not JSON", hint="check the location") from None
    if not isinstance(found, dict) or found.get("format-version") not in FORMAT_VERSIONS:
        raise Damaged(location, "it is not the metadata of an Iceberg table", hint="check the location")
    missing = [key for key in ("location", "last-column-id") if key not in found]
    if missing:
        raise Damaged(location, f"it is Iceberg metadata without {missing[0]!a}", hint="check the location")
