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

import hashlib
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from olympia_cli.errors import InvalidOption

SCOPES = ("read", "write")
_HINT = "see the guide to serve for what a file of tokens looks like"


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks. None stands for everything."""

    name: str
    writes: bool = True
    namespaces: frozenset[str] | None = None
    locations: tuple[str, ...] | None = None

    def may_see(self, namespace: str) -> bool:
        return self.namespaces is None or namespace in self.namespaces


class Tokens:
    """The tokens of a file. The file is read again when it changes; one that cannot be read changes nothing."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._stamp = self._stat()
        self._callers = self._read()

    def caller(self, token: str) -> Caller | None:
        """Whose token it is. It is looked up by its digest, so how long that takes tells nothing of it."""
        return self._callers.get(hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest())

    def refresh(self) -> str | None:
        """Look whether the file has changed. Why it cannot be taken, if so; the former tokens go on."""
        try:
            stamp = self._stat()
            if stamp != self._stamp:
                self._stamp = stamp
                self._callers = self._read()
        except InvalidOption as error:
            return str(error)
        return None

    def _stat(self) -> tuple[int, int]:
        try:
            found = os.stat(self._path)
        except OSError as error:
            raise InvalidOption(f"the file of tokens cannot be read: {error.strerror}", hint=self._path) from None
        return found.st_mtime_ns, found.st_size

    def _read(self) -> dict[str, Caller]:
        try:
            with open(self._path, "rb") as file:
                content = tomllib.load(file)
        except OSError as error:
            raise InvalidOption(f"the file of tokens cannot be read: {error.strerror}", hint=self._path) from None
        except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
            raise InvalidOption(f"{self._path} is not TOML: {error}", hint=_HINT) from None
        entries = content.get("token")
        if not isinstance(entries, list) or not entries or content.keys() != {"token"}:
            raise InvalidOption(f"{self._path} holds no list of tokens", hint=_HINT)
        callers: dict[str, Caller] = {}
        for number, entry in enumerate(entries, 1):
            digest, caller = _entry(entry, f"token {number} of {self._path}")
            if digest in callers or any(known.name == caller.name for known in callers.values()):
                raise InvalidOption(f"token {number} of {self._path} is there twice", hint=_HINT)
            callers[digest] = caller
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
