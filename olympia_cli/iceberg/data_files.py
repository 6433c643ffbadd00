"""List the data and delete files of a table, given its metadata location."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

from olympia_cli.errors import OlympiaError, PathMissing
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.locations import ANYWHERE, Reach, parse_location
from olympia_cli.iceberg.manifests import DataFile, Manifest, decode_manifest, decode_manifest_list
from olympia_cli.iceberg.metadata import current_snapshot
from olympia_cli.ops.verify_metadata import check_registrable, parse_metadata
from olympia_cli.storage.open import scheme_of


def data_files(files: TableFiles, location: str, *, statistics: bool = True) -> Iterator[DataFile]:
    """Yield the files of the current snapshot. Each manifest is read once. Whether the files exist is not checked.

    Raise the first error.
    """
    yield from files_of(files, read_metadata(files, location), location, statistics=statistics)


def read_metadata(files: TableFiles, location: str) -> dict[str, Any]:
    """Return the metadata file of a table as a JSON object."""
    return parse_metadata(_read(files, location, "metadata"), location)


def verify_metadata(location: str, options: Mapping[str, object] | None) -> None:
    """Raise an error unless the location holds the metadata of an Iceberg table that may be registered.

    `options` are those of its storage.
    """
    with closing(TableFiles(options, scheme_of(parse_location(location).store))) as files:
        try:
            check_registrable(read_metadata(files, location), location)
        except PathMissing as error:
            raise PathMissing(error.message, hint="check the location") from None


def files_of(
    files: TableFiles, metadata: Mapping[str, Any], location: str, *, statistics: bool = True, reach: Reach = ANYWHERE
) -> Iterator[DataFile]:
    """Like `data_files`, for metadata that was already read. Raise Refused for a manifest outside `reach`."""
    snapshot = current_snapshot(metadata, location)
    if snapshot is None:
        return
    if snapshot.manifest_list:
        data = _read(files, snapshot.manifest_list, "manifest list", reach)
        manifests = {one.location: one for one in decode_manifest_list(data, snapshot.manifest_list)}
    else:
        manifests = {one: Manifest(one) for one in snapshot.manifests}
    for where, found in files.read(manifests, reach):
        content = whole(found, where, "manifest")
        yield from decode_manifest(content, where, spec_id=manifests[where].spec_id, statistics=statistics)


def _read(files: TableFiles, location: str, what: str, reach: Reach = ANYWHERE) -> bytes:
    for _, found in files.read([location], reach):
        return whole(found, location, what)
    raise AssertionError("unreachable")


def whole(found: bytes | OlympiaError, location: str, what: str) -> bytes:
    """Return the content of a file. Raise its error, if any; for a missing file, the message names its kind."""
    if isinstance(found, PathMissing):
        raise PathMissing(
            f"there is no {what} at {location}", hint="check the tables", command=("fsck", "--level", "data")
        ) from None
    if isinstance(found, OlympiaError):
        raise found
    return found
