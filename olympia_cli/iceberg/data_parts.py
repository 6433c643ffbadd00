"""The rules of fsck's data level, independent of the file reader: references of a table's files, and their problems.

A view has one file, its metadata, without references.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum

from olympia_cli.errors import Damaged, InvalidLocation, OlympiaError, PathMissing
from olympia_cli.iceberg.locations import parse_location
from olympia_cli.iceberg.manifests import Content, decode_manifest, decode_manifest_list
from olympia_cli.iceberg.metadata import referenced_snapshots
from olympia_cli.names import Kind
from olympia_cli.ops.verify_metadata import parse_metadata, parse_view_metadata


class Floor(StrEnum):
    """The levels of a table's files, from the top down. The values are the names of the counters."""

    METADATA = "metadata"
    MANIFEST_LISTS = "manifest_lists"
    MANIFESTS = "manifests"
    DATA_FILES = "data_files"


READ = (Floor.METADATA, Floor.MANIFEST_LISTS, Floor.MANIFESTS)
"""The levels whose files are read. Of data files, only the size is checked."""


@dataclass(frozen=True, slots=True)
class Below:
    """A reference to a file. It must have at least `length` bytes (0: unknown). `what` is the kind of data file."""

    floor: Floor
    location: str
    length: int = 0
    what: str = ""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A problem with a file. With the code `UNSEEN`, the state of the file is unknown."""

    code: str
    message: str


UNSEEN = "F604"
NO_METADATA = Wrong("F601", "the definition names no metadata")
_CUT = "F602"
_LOST = "F603"
# code and message for a missing file, and the prefix of the message for an unreadable one
_WORDS = {
    Floor.METADATA: ("F601", "the metadata is missing", ""),
    Floor.MANIFEST_LISTS: (_LOST, "a manifest list is missing", "a manifest list cannot be read: "),
    Floor.MANIFESTS: (_LOST, "a manifest is missing", "a manifest cannot be read: "),
}


def look_into(
    floor: Floor, location: str, length: int, data: bytes | OlympiaError, kind: Kind = Kind.TABLE
) -> Iterator[Below | Wrong]:
    """Yield the references in a part, and at the end its problem, if any. `kind` is the kind of object that it belongs
    to.
    """
    if isinstance(data, OlympiaError):
        yield _trouble(floor, data)
        return
    try:
        match floor:
            case Floor.METADATA if kind is Kind.VIEW:
                parse_view_metadata(data, location)
            case Floor.METADATA:
                yield from _of_metadata(data, location)
            case Floor.MANIFEST_LISTS:
                for manifest in decode_manifest_list(data, location):
                    yield Below(Floor.MANIFESTS, manifest.location, manifest.length)
            case _:
                for file in decode_manifest(data, location):
                    what = "a data file" if file.content is Content.DATA else "a delete file"
                    yield Below(Floor.DATA_FILES, file.location, file.size, what)
        # a file that lost whole blocks has no internal damage
        if len(data) < length:
            raise Damaged("F602", location, f"it is cut short: {len(data):,} of {length:,} bytes")
    except OlympiaError as error:
        yield _trouble(floor, error)


def judge_size(what: str, length: int, size: int | OlympiaError) -> Wrong | None:
    """Return the problem with a data file of this size, or None."""
    if isinstance(size, PathMissing):
        return Wrong(_LOST, f"{what} is missing")
    if isinstance(size, OlympiaError):
        return Wrong(UNSEEN, size.message)
    return Wrong(_LOST, f"{what} is cut short: {size:,} of {length:,} bytes") if size < length else None


def store_of(location: str) -> str:
    """Return the store of a location, or an empty string for an invalid location."""
    try:
        return parse_location(location).store
    except InvalidLocation:
        return ""


def _of_metadata(data: bytes, location: str) -> Iterator[Below]:
    for snapshot in referenced_snapshots(parse_metadata(data, location), location):
        if snapshot.manifest_list:
            yield Below(Floor.MANIFEST_LISTS, snapshot.manifest_list)
        for manifest in snapshot.manifests:
            yield Below(Floor.MANIFESTS, manifest)


def _trouble(floor: Floor, error: OlympiaError) -> Wrong:
    code, missing, unreadable = _WORDS[floor]
    if isinstance(error, Damaged):
        return Wrong(_CUT, unreadable + error.reason)
    if isinstance(error, PathMissing):
        return Wrong(code, missing)
    return Wrong(UNSEEN, error.message)
