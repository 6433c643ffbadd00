"""The cache of names for the completion: one small file per catalog, readable by its owner only.

A cache file that cannot be read or written is ignored, and the names are looked up again.
"""

from __future__ import annotations

import contextlib
import json
import os
import stat
import time
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path
from typing import Any

SECONDS = 5.0
MAX_BYTES = 4_000_000
_UNUSABLE = (OSError, ValueError, TypeError)


def recall(uri: str, options: Mapping[str, Any], key: str) -> list[str] | None:
    """Return the cached names, or None if there are none, or only old ones."""
    with contextlib.suppress(*_UNUSABLE):
        return _read(_path(uri, options)).get(key, (0.0, None))[1]
    return None


def remember(uri: str, options: Mapping[str, Any], key: str, names: list[str]) -> None:
    """Cache names for some seconds."""
    import tempfile

    with contextlib.suppress(*_UNUSABLE):
        path = _path(uri, options)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            entries = _read(path)
        except _UNUSABLE:
            entries = {}
        entries[key] = (time.time(), names)
        # a new file that only its owner can read, moved into place atomically
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix="names-", suffix=".new")
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(entries, file)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def _read(path: Path) -> dict[str, tuple[float, list[str]]]:
    """Read the entries that are not too old. Raise an error unless the file is a regular file of this user."""
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    with open(handle, "rb") as file:
        about = os.fstat(handle)
        if not stat.S_ISREG(about.st_mode) or about.st_uid != os.getuid() or about.st_size > MAX_BYTES:
            raise ValueError("not a cache")
        entries = json.loads(file.read())
    if not isinstance(entries, dict):
        raise ValueError("not a cache")
    now = time.time()
    young_entries: dict[str, tuple[float, list[str]]] = {}
    for key, (at, names) in entries.items():
        if not isinstance(at, float) or not all(isinstance(name, str) for name in names):
            raise ValueError("not a cache")
        if 0 <= now - at < SECONDS:
            young_entries[key] = (at, names)
    return young_entries


def _path(uri: str, options: Mapping[str, Any]) -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    # a relative path means different catalogs in different folders; the options include the endpoint
    where = uri if "://" in uri else os.path.abspath(os.path.expanduser(uri))
    key = json.dumps([where, dict(options)], sort_keys=True, default=str)
    return base / "olympia" / f"names-{sha256(key.encode(errors='surrogateescape')).hexdigest()[:32]}.json"
