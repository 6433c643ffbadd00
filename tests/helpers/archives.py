"""Files of others that are kept packed."""

from __future__ import annotations

import tarfile
from pathlib import Path


def unpack_archive(archive: Path, into: Path) -> None:
    with tarfile.open(archive) as files:
        # Python before 3.11.4 has no filters, and takes no argument for them
        files.extraction_filter = getattr(tarfile, "data_filter", None)
        files.extractall(into)
