"""How metadata files are read and created: through PyIceberg in a user's own program, through our stores in a server.

Both take a parsed `Location`, and both create a file exclusively. The only way to delete a file here is the handle that
creating it returned, so no file is deleted that stood before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from pyiceberg.io import PY_IO_IMPL, FileIO

from olympia_cli.iceberg.locations import LOCAL, Location
from olympia_cli.storage.open import check_opens, open_store
from olympia_cli.storage.protocol import Store

OpenIO = Callable[[str], FileIO]
"""Return PyIceberg's FileIO for a location."""

Delete = Callable[[], None]
"""Delete the file that was created. FileNotFoundError if it is gone."""


class MetadataFiles(Protocol):
    """Metadata files, on the stores that a program may use."""

    def read(self, location: Location) -> bytes:
        """Return the content of a file. FileNotFoundError if it is missing."""
        ...

    def create(self, location: Location, content: bytes) -> Delete:
        """Create the file. An error of ours, but for OutcomeUnknown, means that the
        file does not stand there; so does FileExistsError. Any other error leaves that open."""
        ...


class PyIcebergFiles:
    """Metadata files by way of PyIceberg, with the settings of its catalog. The properties of a table never decide how
    a file is opened: they could name an endpoint that is given the credentials, or code to load."""

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
            # PyIceberg leaves it to the cache of the disk; a store syncs, so it survives a power cut like the root
            return create_in(open_store(LOCAL), location.path, content)
        with io.new_output(text).create() as stream:
            stream.write(content)
        return lambda: io.delete(text)


def create_in(store: Store, path: str, content: bytes) -> Delete:
    """Create the file in a store of ours."""
    store.create(path, content)
    return lambda: store.delete_many([path])
