"""This package's own code for Spark's executors, as one zip file. What it depends on must be there already."""

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

# a zip file holds times, and nothing before 1980; a fixed one makes equal code equal files
_TIME = (1980, 1, 1, 0, 0, 0)
_PREFIX = "olympia-spark-"
_LOCK = "in-use"


@lru_cache(maxsize=1)
def package_zip() -> str:
    """The path of the zip file, made once for this process and removed at its end; or by the next that makes one, if
    this process is killed.

    Its name holds a digest of the code: Spark refuses a second file of the same name that differs.
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
    """A folder for as long as this process lives: Spark serves the file from there. It is this process's by a lock,
    which goes with the process however that ends."""
    for leftover in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError):
            _remove_unused(leftover)
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    lock = os.open(folder / "lock", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    # nobody takes it for unused before
    os.rename(folder / "lock", folder / _LOCK)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _remove_unused(folder: Path) -> None:
    """Remove the folder of a process that is gone. OSError when it is in use, or somebody else's."""
    lock = os.open(folder / _LOCK, os.O_RDWR | os.O_NOFOLLOW)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(folder)
    finally:
        os.close(lock)
