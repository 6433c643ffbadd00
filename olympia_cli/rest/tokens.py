"""Who may do what: bearer tokens, known by their digests alone.

The file is TOML, a table for each token:

    [[token]]
    name = "etl"
    sha256 = "…"                     # of the token's bytes, in hex
    scopes = ["read", "write"]
    namespaces = ["sales"]           # all, if left out
    locations = ["s3://lake/sales"]  # where its tables may be; wherever the server allows, if left out
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from olympia_cli.catalog.clock import Clock, SystemClock
from olympia_cli.errors import InvalidOption

SCOPES = ("read", "write")
GRACE_MILLIS = 60_000
"""How long tokens hold after the last sound reading of their file."""
MAX_BYTES = 2**20
_HINT = "it is TOML: [[token]] with name, sha256 and scopes, as in the guide to serve"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. None stands for everything."""

    name: str
    writes: bool = True
    namespaces: frozenset[str] | None = None
    locations: tuple[str, ...] | None = None

    def may_see(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces


class TokensState(StrEnum):
    """How the last reading of the file went. Tokens are admitted in the first two states alone."""

    CURRENT = "current"
    STALE = "stale"
    """The file cannot be read, and the tokens of the last sound reading still hold."""
    UNREADABLE = "unreadable"
    EMPTY = "empty"
    MISSING = "missing"


class Tokens:
    """The tokens of a file. Each request reads the file again: a stamp of time and size can miss a change."""

    def __init__(self, path: str, clock: Clock | None = None) -> None:
        """Raise InvalidOption unless the file is sound and holds a token: a server that admits none is a mistake."""
        self._path = path
        self._clock = clock if clock is not None else SystemClock()
        self._content: bytes | None = None
        self._parsed: dict[str, Caller] | str = {}
        self._callers: dict[str, Caller] = {}
        self._read_at = 0
        self.state = TokensState.MISSING
        self.problem: str | None = None
        """Why the state is not CURRENT. It names the file, so it is for the log alone."""
        self.refresh()
        if self.problem is not None:
            raise InvalidOption(self.problem, hint=_HINT)

    def caller(self, token: str) -> Caller | None:
        """Whose token it is. It is looked up by its digest, so how long that takes tells nothing of it."""
        return self._callers.get(hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest())

    def refresh(self) -> None:
        """Read the file again.

        An empty or missing file takes all tokens back at once. If the file cannot be read, or is malformed, the tokens
        of the last sound reading hold for a minute after that reading.
        """
        now = self._clock.elapsed_millis()
        found = self._found()
        if isinstance(found, str):
            self.problem = found
            if now - self._read_at > GRACE_MILLIS:
                self._callers = {}
            self.state = TokensState.STALE if self._callers else TokensState.UNREADABLE
            return
        self._callers, self._read_at = found or {}, now
        if found:
            self.state, self.problem = TokensState.CURRENT, None
        elif found is None:
            self.state = TokensState.MISSING
            self.problem = f"the tokens file {self._path} cannot be read: it is missing"
        else:
            self.state, self.problem = TokensState.EMPTY, f"the tokens file {self._path} has no tokens"

    def _found(self) -> dict[str, Caller] | str | None:
        """The tokens in the file, None if there is no file, or why it cannot be read."""
        try:
            content = _content(self._path)
        except OSError as error:
            return f"the tokens file {self._path} cannot be read: {error.strerror}"
        if content is None:
            return None
        if content != self._content:
            # a malformed file, too, is parsed once and not with each request
            self._content, self._parsed = content, _parsed(content, self._path)
        return self._parsed


def _content(path: str) -> bytes | None:
    """The bytes of a file, None if it is missing."""
    try:
        # O_NONBLOCK: opening a FIFO must not wait for its other end
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except (FileNotFoundError, NotADirectoryError):
        return None
    try:
        if not stat.S_ISREG(os.fstat(handle).st_mode):
            raise OSError(errno.EINVAL, "it is not a regular file")
        content = b""
        while part := os.read(handle, 65_536):
            content += part
            if len(content) > MAX_BYTES:
                raise OSError(errno.EFBIG, f"it has more than {MAX_BYTES:,} bytes")
        return content
    finally:
        os.close(handle)


def _parsed(content: bytes, path: str) -> dict[str, Caller] | str:
    """The tokens by their digests, or what is wrong with the file."""
    try:
        return _callers(tomllib.loads(content.decode()), path)
    except InvalidOption as error:
        return error.message
    except (ValueError, RecursionError) as error:
        return f"{path} is not TOML: {error}"


def _callers(content: dict[str, Any], path: str) -> dict[str, Caller]:
    entries = content.get("token", [])
    if not isinstance(entries, list) or content.keys() - {"token"}:
        raise InvalidOption(f"{path} holds something other than a list of tokens", hint=_HINT)
    callers: dict[str, Caller] = {}
    names: set[str] = set()
    for number, entry in enumerate(entries, 1):
        digest, caller = _entry(entry, f"token {number} of {path}")
        if digest in callers or caller.name in names:
            raise InvalidOption(f"token {number} of {path} is there twice", hint=_HINT)
        callers[digest] = caller
        names.add(caller.name)
    return callers


def _entry(entry: object, where: str) -> tuple[str, Caller]:
    if not isinstance(entry, Mapping):
        raise InvalidOption(f"{where} is not a table", hint=_HINT)
    if unknown := entry.keys() - {"name", "sha256", "scopes", "namespaces", "locations"}:
        raise InvalidOption(f"{where} has a key {min(unknown)!a} that means nothing", hint=_HINT)
    name, digest = entry.get("name"), entry.get("sha256")
    if not isinstance(name, str) or not re.fullmatch(r"[\w.@-]{1,100}", name):
        raise InvalidOption(f"{where} has no name of letters, digits and . @ - _", hint=_HINT)
    if not isinstance(digest, str) or not re.fullmatch(r"[0-9a-fA-F]{64}", digest):
        raise InvalidOption(f"{where} has no SHA-256 of 64 hex digits", hint=_HINT)
    scopes = _texts(entry, "scopes", where)
    if not scopes or not set(scopes) <= set(SCOPES):
        raise InvalidOption(f"{where} has scopes other than {' and '.join(SCOPES)}, or none", hint=_HINT)
    namespaces, locations = _texts(entry, "namespaces", where), _texts(entry, "locations", where)
    caller = Caller(
        name,
        "write" in scopes,
        None if namespaces is None else frozenset(namespaces),
        None if locations is None else tuple(locations),
    )
    return digest.lower(), caller


def _texts(entry: Mapping[str, Any], key: str, where: str) -> list[str] | None:
    value = entry.get(key)
    if value is not None and not (isinstance(value, list) and all(isinstance(item, str) and item for item in value)):
        raise InvalidOption(f"{where}: {key} is not a list of texts", hint=_HINT)
    return value
