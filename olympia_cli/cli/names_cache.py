"""Names that completion looked up a moment ago: one small file a catalog, for the eyes of its owner alone.

Everything here is best effort: what cannot be read or written is looked up again.
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


def recall(uri: str, options: Mapping[str, Any], what: str) -> list[str] | None:
    """What was looked up lately; None when it is not known, or too old."""
    with contextlib.suppress(*_UNUSABLE):
        return _read(_path(uri, options)).get(what, (0.0, None))[1]
    return None


def remember(uri: str, options: Mapping[str, Any], what: str, names: list[str]) -> None:
    """Keep the names for some seconds."""
    import tempfile

    with contextlib.suppress(*_UNUSABLE):
        path = _path(uri, options)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            entries = _read(path)
        except _UNUSABLE:
            entries = {}
        entries[what] = (time.time(), names)
        # a file of its own, readable by nobody else, put in place at once
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix="names-", suffix=".new")
        try:
            with open(handle, "w", encoding="utf-8") as file:
                json.dump(entries, file)
            os.replace(temporary, path)
        except BaseException:
            os.unlink(temporary)
            raise


def _read(path: Path) -> dict[str, tuple[float, list[str]]]:
    """The entries that are not too old. Only a plain file of our own is believed."""
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
    for what, (at, names) in entries.items():
        if not isinstance(at, float) or not all(isinstance(name, str) for name in names):
            raise ValueError("not a cache")
        if 0 <= now - at < SECONDS:
            young_entries[what] = (at, names)
    return young_entries


def _path(uri: str, options: Mapping[str, Any]) -> Path:
    home = os.environ.get("XDG_CACHE_HOME", "")
    base = Path(home) if os.path.isabs(home) else Path.home() / ".cache"
    # a plain path means another catalog in another folder; options hold the endpoint
    where = uri if "://" in uri else os.path.abspath(os.path.expanduser(uri))
    key = json.dumps([where, dict(options)], sort_keys=True, default=str)
    return base / "olympia" / f"names-{sha256(key.encode(errors='surrogateescape')).hexdigest()[:32]}.json"
