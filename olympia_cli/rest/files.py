"""Metadata files and manifests of the server, read and created with its own settings, and cached."""

from __future__ import annotations

from olympia_cli.errors import OlympiaError, PathMissing, PathOutside, Refused, StorageFailed
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.locations import Location
from olympia_cli.iceberg.metadata_files import Delete, create_in
from olympia_cli.rest.cache import ByteCache


class KeptFiles:
    """Files on our stores. The content of recent metadata files and manifests is cached, because they never change."""

    def __init__(self, files: TableFiles, cache_bytes: int) -> None:
        self._files = files
        self._kept = ByteCache(cache_bytes)

    def read(self, location: Location) -> bytes:
        # the root is part of the key: with another root, a link to the file may be forbidden
        key = (location, location.root)
        content = self._kept.get(key)
        if content is None:
            found = self._files.fetch(location)
            if isinstance(found, PathOutside):
                raise outside(location.text)
            if isinstance(found, PathMissing) or (isinstance(found, StorageFailed) and found.is_no_file):
                # a FIFO, for example, which would block a reader
                raise FileNotFoundError(f"{location.text} is not a file")
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
    """Return the error for a link out of a caller's folders. The message omits the link's target."""
    return Refused(f"{location} leads outside of what you may use here", hint="")
