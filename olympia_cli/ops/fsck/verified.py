"""The definitions that an earlier fsck has verified, so that the next one need not read them again.

Definitions are the main cost: there is one per object, and about a hundred per node. Nodes are always read, as trees
are checked edge by edge. A record has 28 bytes:

- The digest of the catalog's location and the path. The location matters, as a copy of a catalog has the same id and
  paths.
- The digest of the object's id, so that two objects with one id are still found.
- The time of the check, in seconds.
"""

from __future__ import annotations

import os
import re
import struct
from bisect import bisect_left
from contextlib import suppress
from hashlib import blake2b
from pathlib import Path

_HEAD = b"olympia fsck-verified 1\n"
_RECORD = struct.Struct("<16s8sI")


class Verified:
    """Verified files, stored below `state` in one folder per catalog."""

    def __init__(self, state: Path, now_millis: int, max_age_millis: int | None = None) -> None:
        self._state = state
        self._now = now_millis // 1000
        self._oldest = 0 if max_age_millis is None else self._now - max_age_millis // 1000
        self._file: Path | None = None
        self._where = b""
        self._records = b""
        self._count = 0
        self._new: dict[bytes, bytes] = {}

    def open(self, catalog_id: str, uri: str) -> None:
        """Read the records of a catalog. Ignore a file that cannot be read."""
        # the id comes from the catalog, and must not lead out of the folder
        name = catalog_id if re.fullmatch(r"[0-9A-Za-z-]{1,64}", catalog_id) else _digest(catalog_id.encode(), 16).hex()
        self._file = self._state / "olympia" / name / "fsck-verified"
        self._where = uri.encode("utf-8", "surrogatepass") + b"\0"
        try:
            data = self._file.read_bytes()
        except OSError:
            return
        body = data[len(_HEAD) : -16]
        if data.startswith(_HEAD) and len(body) % _RECORD.size == 0 and data[-16:] == _digest(body, 16):
            self._records, self._count = body, len(body) // _RECORD.size

    def find(self, path: str) -> bytes | None:
        """Return the digest of the id in a definition that was verified recently, or None."""
        key = self._key(path)
        at = bisect_left(range(self._count), key, key=self._key_at)
        if at >= self._count or self._key_at(at) != key:
            return None
        _, id, seconds = _RECORD.unpack_from(self._records, at * _RECORD.size)
        return bytes(id) if self._oldest <= seconds <= self._now else None

    def add(self, path: str, id: bytes) -> None:
        """Record a verified definition."""
        self._new[self._key(path)] = id

    def save(self) -> None:
        """Write the records atomically. Ignore errors, such as a full disk."""
        if self._file is None or not self._new:
            return
        records = [
            record
            for at in range(self._count)
            if (record := self._records[at * _RECORD.size : (at + 1) * _RECORD.size])[:16] not in self._new
            and self._oldest <= _RECORD.unpack(record)[2] <= self._now
        ]
        records += [_RECORD.pack(key, id, self._now) for key, id in self._new.items()]
        records.sort()
        body = b"".join(records)
        scratch = self._file.with_name(f"{self._file.name}.{os.getpid()}")
        try:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            scratch.write_bytes(_HEAD + body + _digest(body, 16))
            scratch.replace(self._file)
        except OSError:
            with suppress(OSError):
                scratch.unlink(missing_ok=True)

    def _key(self, path: str) -> bytes:
        return _digest(self._where + path.encode("utf-8", "surrogatepass"), 16)

    def _key_at(self, at: int) -> bytes:
        start = at * _RECORD.size
        return self._records[start : start + 16]


def state_home() -> Path:
    """Return the folder for the state of programs, by the XDG standard."""
    home = os.environ.get("XDG_STATE_HOME")
    return Path(home) if home else Path.home() / ".local" / "state"


def _digest(data: bytes, size: int) -> bytes:
    return blake2b(data, digest_size=size).digest()
