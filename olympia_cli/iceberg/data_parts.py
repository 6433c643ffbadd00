"""The rules of fsck's data level, whoever reads the files: what a part of a table names, and what is wrong with it.

A view has one file, its metadata, which names none.
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
    """The files of a table, from the top down. The values are the words that counts go by."""

    METADATA = "metadata"
    MANIFEST_LISTS = "manifest_lists"
    MANIFESTS = "manifests"
    DATA_FILES = "data_files"


READ = (Floor.METADATA, Floor.MANIFEST_LISTS, Floor.MANIFESTS)
"""The floors whose files are read. Data files are looked at from outside."""


@dataclass(frozen=True, slots=True)
class Below:
    """A file that a part names: it must have `length` bytes, 0 where nothing says how many; `what` says which kind of
    data file it is."""

    floor: Floor
    location: str
    length: int = 0
    what: str = ""


@dataclass(frozen=True, slots=True)
class Wrong:
    """What is wrong with a file. With the code of `UNSEEN` nobody knows whether anything is."""

    code: str
    message: str


UNSEEN = "F604"
NO_METADATA = Wrong("F601", "the definition names no metadata")
_CUT = "F602"
_LOST = "F603"
# code and words for a file that is missing, words for one that cannot be read
_WORDS = {
    Floor.METADATA: ("F601", "the metadata is missing", ""),
    Floor.MANIFEST_LISTS: (_LOST, "a manifest list is missing", "a manifest list cannot be read: "),
    Floor.MANIFESTS: (_LOST, "a manifest is missing", "a manifest cannot be read: "),
}


def look_into(
    floor: Floor, location: str, length: int, data: bytes | OlympiaError, kind: Kind = Kind.TABLE
) -> Iterator[Below | Wrong]:
    """What a part names, and at the end what is wrong with it, if anything is. It is part of an object of this kind."""
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
        # a file that lost whole blocks is sound in itself
        if len(data) < length:
            raise Damaged("F602", location, f"it is cut short: {len(data):,} of {length:,} bytes")
    except OlympiaError as error:
        yield _trouble(floor, error)


def judge_size(what: str, length: int, size: int | OlympiaError) -> Wrong | None:
    """What is wrong with a data file, by the size that it has."""
    if isinstance(size, PathMissing):
        return Wrong(_LOST, f"{what} is missing")
    if isinstance(size, OlympiaError):
        return Wrong(UNSEEN, size.message)
    return Wrong(_LOST, f"{what} is cut short: {size:,} of {length:,} bytes") if size < length else None


def store_of(location: str) -> str:
    """The store that a file is on; empty for a location that is none."""
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
