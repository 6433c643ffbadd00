"""This package's code as one zip file for Spark's executors. Its dependencies must be installed there."""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
import zipfile
from contextlib import suppress
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from zipimport import zipimporter

import olympia_cli

# a fixed time, so that equal code makes equal files; zip files hold no time before 1980
_TIME = (1980, 1, 1, 0, 0, 0)
_PREFIX = "olympia-spark-"
_LOCK = "in-use"


@lru_cache(maxsize=1)
def package_zip() -> str:
    """Return the path of the zip file, which is made once per process and removed at its end. If the process is killed,
    the next process that makes a zip file removes it.

    The name contains a checksum of the code: Spark refuses a second, different file of the same name.
    """
    loader: object = olympia_cli.__spec__.loader if olympia_cli.__spec__ is not None else None
    if isinstance(loader, zipimporter):
        # a job that was submitted with it
        return str(loader.archive)
    folder = Path(olympia_cli.__file__).parent
    sources = {path.relative_to(folder.parent).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*.py"))}
    digest = sha256()
    for name, data in sources.items():
        digest.update(f"{name}\0{len(data)}\0".encode() + data)
    path = _own_folder() / f"olympia_cli-{digest.hexdigest()[:16]}.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in sources.items():
            file.writestr(zipfile.ZipInfo(name, _TIME), data, zipfile.ZIP_DEFLATED)
    return str(path)


def _own_folder() -> Path:
    """Create a folder that exists as long as this process: Spark serves the file from there. A file lock marks the
    folder as in use, and ends with the process."""
    for leftover in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _remove_unused(leftover)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # renamed only once it is locked, so that no other process takes the folder for unused
    os.rename(folder / "lock", folder / _LOCK)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_unused(folder: Path) -> None:
    """Remove the folder of a process that has ended. Raise OSError if it is in use, or belongs to another user."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)
