"""Metadata files and manifests as the server reads and creates them: with its own settings, each read once."""

from __future__ import annotations

from olympia_cli.errors import OlympiaError, PathMissing, PathOutside, Refused, StorageFailed
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.locations import Location
from olympia_cli.iceberg.metadata_files import Delete, create_in
from olympia_cli.rest.cache import ByteCache


class KeptFiles:
    """Files on our stores. Metadata and manifests never change, so the content of recent ones is cached."""

    def __init__(self, files: TableFiles, cache_bytes: int) -> None:
        self._files = files
        self._kept = ByteCache(cache_bytes)

    def read(self, location: Location) -> bytes:
        # the same file within another folder may not be read, as a link leads there
        key = (location, location.root)
        content = self._kept.get(key)
        if content is None:
            found = self._files.fetch(location)
            if isinstance(found, PathOutside):
                raise outside(location.text)
            if isinstance(found, PathMissing) or (isinstance(found, StorageFailed) and found.is_no_file):
                # a pipe is no file: a reader would wait for its other end
                raise FileNotFoundError(f"{location.text} is no file")
            if isinstance(found, OlympiaError):
                raise found
            content = found
            self._kept.put(key, content)
        return content

    def create(self, location: Location, content: bytes) -> Delete:
        try:
            return create_in(*self._files.opened(location), content)
        except PathOutside:
            raise outside(location.text) from None


def outside(location: str) -> Refused:
    """The error for a link that leads out of a caller's folders. It does not tell where to."""
    return Refused(f"{location} leads outside of what you may use here", hint="")
