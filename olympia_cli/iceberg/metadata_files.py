"""Read and create metadata files: with PyIceberg in a user's program, with our stores in a server.

Both take a parsed `Location`, and create files exclusively. A file can only be deleted with the handle that its
creation returned, so existing files are never deleted.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyiceberg.io import PY_IO_IMPL, FileIO

from olympia_cli.iceberg.locations import LOCAL, Location
from olympia_cli.storage.open import check_opens, open_store
from olympia_cli.storage.protocol import Store

OpenIO = Callable[[str], FileIO]
"""Returns PyIceberg's FileIO for a location."""

Delete = Callable[[], None]
"""Deletes the file that was created. Raises FileNotFoundError if it does not exist."""


class MetadataFiles(Protocol):
    """Access to metadata files on the stores that a program may use."""

    def read(self, location: Location) -> bytes:
        """Return the content of a file. Raise FileNotFoundError if it is missing."""
        ...

    def create(self, location: Location, content: bytes) -> Delete:
        """Create the file. It was surely not created after FileExistsError, or after one of our errors except
        OutcomeUnknown.

        After any other error, the outcome is unknown.
        """
        ...


class PyIcebergFiles:
    """Metadata files through PyIceberg, with the catalog's settings.

    A table's own properties never decide how a file is opened: they could send credentials to a foreign endpoint, or
    load code.
    """

    def __init__(self, open_files: OpenIO) -> None:
        self._open_files = open_files

    def read(self, location: Location) -> bytes:
        check_opens(location.text)
        text = location.plain_text()
        with self._open_files(text).new_input(text).open() as stream:
            return stream.read()

    def create(self, location: Location, content: bytes) -> Delete:
        check_opens(location.text)
        text = location.plain_text()
        io = self._open_files(text)
        if location.store == LOCAL and PY_IO_IMPL not in io.properties:
            # PyIceberg does not sync local files; a store does, so that the file survives a power failure like the root
            return create_in(open_store(LOCAL), location.path, content)
        with io.new_output(text).create() as stream:
            stream.write(content)
        return lambda: io.delete(text)


def create_in(store: Store, path: str, content: bytes) -> Delete:
    """Create the file in one of our stores."""
    store.create(path, content)
    return lambda: store.delete_many([path])
