"""The prefix of a path selects the latest version, an older version, or the inside of a transaction.

Some clients insert the prefix as it is (Java, PyIceberg), others encode it with its slash. Both are accepted.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

_PREFIXED = re.compile(r"/v1/(at|txn)(?:/|%2[fF])([^/]+)(/.*)?")


@dataclass(frozen=True, slots=True)
class Prefix:
    """The state that a request refers to. Without `at` and `txn`: the latest version."""

    at: str | None = None
    txn: str | None = None

    @property
    def text(self) -> str:
        """The prefix as clients must write it."""
        if self.at is not None:
            return f"at/{quote(self.at, safe=':~')}"
        return "" if self.txn is None else f"txn/{quote(self.txn, safe='')}"


def split_prefix(path: str) -> tuple[Prefix, str]:
    """Return the prefix of an encoded path, and the path without it."""
    found = _PREFIXED.fullmatch(path)
    if found is None:
        return Prefix(), path
    return _prefix(found[1], unquote(found[2])), f"/v1{found[3] or ''}"


def parse_warehouse(text: str) -> Prefix | None:
    """Return the prefix in a warehouse name (`at/v12`, `txn/…`), or None for any other text."""
    kind, slash, rest = text.partition("/")
    return _prefix(kind, rest) if kind in ("at", "txn") and slash and rest else None


def _prefix(kind: str, text: str) -> Prefix:
    return Prefix(at=text) if kind == "at" else Prefix(txn=text)
