"""Checks of the metadata files of Iceberg tables and views."""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Mapping
from typing import Any

from olympia_cli.errors import Damaged, Unsupported
from olympia_cli.format.strict_json import check_characters, read_json

FORMAT_VERSIONS = (1, 2, 3)
VIEW_FORMAT_VERSIONS = (1,)
# larger than any real metadata, and small enough for memory: a compression bomb is refused
MAX_BYTES = 256 * 1024 * 1024
_HINT = "check the location"


def parse_metadata(data: bytes, location: str) -> dict[str, Any]:
    """Parse the metadata file of an Iceberg table. Raise Damaged if it is not table metadata, and Unsupported if its
    format version is unknown.
    """
    return _parsed(data, location, "table", FORMAT_VERSIONS, ("location", "last-column-id"))


def parse_view_metadata(data: bytes, location: str) -> dict[str, Any]:
    """Parse the metadata file of an Iceberg view. Raise Damaged also if the current version is not listed."""
    metadata = _parsed(data, location, "view", VIEW_FORMAT_VERSIONS, ("view-uuid", "current-version-id", "versions"))
    versions, current = metadata["versions"], metadata["current-version-id"]
    listed = (
        [version.get("version-id") for version in versions if isinstance(version, dict)]
        if isinstance(versions, list)
        else []
    )
    if current not in listed:
        raise Damaged("F602", location, "its current version is not in it")
    return metadata


def check_registrable(metadata: Mapping[str, Any], location: str) -> None:
    """Raise Damaged if engines that write in UTF-8 could not open the metadata. The catalog still shows a table that
    has it, since Java reads such text.
    """
    try:
        check_characters(metadata)
    except ValueError as error:
        raise Damaged("F602", location, str(error), hint="write the metadata again without it") from None


def _parsed(
    data: bytes, location: str, what: str, format_versions: tuple[int, ...], keys: tuple[str, ...]
) -> dict[str, Any]:
    try:
        metadata = read_json(unpacked(data, location))
    except (ValueError, OSError, EOFError, zlib.error):
        raise Damaged("F602", location, "it is empty" if not data else "it is not JSON") from None
    version = metadata.get("format-version") if isinstance(metadata, dict) else None
    # True equals 1, but is not a version
    if not isinstance(version, int) or isinstance(version, bool) or version < format_versions[0]:
        raise Damaged("F602", location, f"it is not the metadata of an Iceberg {what}")
    missing = [key for key in keys if key not in metadata]
    if missing:
        raise Damaged("F602", location, f"it is Iceberg metadata without {missing[0]!a}")
    if version not in format_versions:
        raise Unsupported(f"{location}: it is Iceberg metadata of format version {version}")
    return dict(metadata)


def unpacked(data: bytes, location: str) -> bytes:
    """Return the text of a metadata file. Raise Unsupported if it unpacks to more than any metadata has."""
    # the file may be compressed; its name tells so only by convention
    if not data.startswith(b"\x1f\x8b"):
        return data
    text = gzip.GzipFile(fileobj=io.BytesIO(data)).read(MAX_BYTES + 1)
    if len(text) > MAX_BYTES:
        raise Unsupported(f"{location}: it unpacks to more than {MAX_BYTES:,} bytes", hint=_HINT)
    return text
