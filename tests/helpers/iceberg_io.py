"""Files of PyIceberg that fail, given to a catalog as `py-io-impl`."""

from __future__ import annotations

from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO


class NothingIsDeleted(PyArrowFileIO):
    """File access of a user who may write but not delete."""

    def delete(self, location: str | InputFile | OutputFile) -> None:
        raise PermissionError(f"may not delete {location}")
