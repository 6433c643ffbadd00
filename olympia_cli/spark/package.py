"""This package's own code for Spark's executors, as one zip file. What it depends on must be there already."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

import olympia_cli

# a zip file holds times, and nothing before 1980; a fixed one makes equal code equal files
_TIME = (1980, 1, 1, 0, 0, 0)


@lru_cache(maxsize=1)
def package_zip() -> str:
    """The path of the zip file, made once for this process and removed at its end.

    Its name holds a digest of the code: Spark refuses a second file of the same name that differs.
    """
    folder = Path(olympia_cli.__file__).parent
    sources = {path.relative_to(folder.parent).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.py"))}
    digest = sha256()
    for name, data in sources.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    place = Path(tempfile.mkdtemp(prefix="olympia-spark-"))
    # Spark serves the file from here for as long as the session lives
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    path = place / f"olympia_cli-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in sources.items():
            file.writestr(zipfile.ZipInfo(name, _TIME), data, zipfile.ZIP_DEFLATED)
    return str(path)
