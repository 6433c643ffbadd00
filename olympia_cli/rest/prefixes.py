"""The prefix of a path says what of the catalog is meant: now, an older version, or the inside of a transaction.

Clients put a prefix into the path as it is (Java, PyIceberg) or encode it first, its slash too; both arrive here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, unquote

_PREFIXED = re.compile(r"/v1/(at|txn)(?:/|%2[fF])([^/]+)(/.*)?")


@dataclass(frozen=True, slots=True)
class Prefix:
    """Where a request looks. Both None: the latest version."""

    at: str | None = None
    txn: str | None = None

    @property
    def text(self) -> str:
        """As a client is told to write it."""
        if self.at is not None:
            return f"at/{quote(self.at, safe=':~')}"
        return "" if self.txn is None else f"txn/{quote(self.txn, safe='')}"


def split_prefix(path: str) -> tuple[Prefix, str]:
    """The prefix of a path that is still encoded, and the path as it would be without it."""
    found = _PREFIXED.fullmatch(path)
    if found is None:
        return Prefix(), path
    return _prefix(found[1], unquote(found[2])), f"/v1{found[3] or ''}"


def parse_warehouse(text: str) -> Prefix | None:
    """The prefix that a client names as its warehouse: `at/v12`, `txn/…`; None for any other text."""
    kind, slash, rest = text.partition("/")
    return _prefix(kind, rest) if kind in ("at", "txn") and slash and rest else None


def _prefix(kind: str, text: str) -> Prefix:
    return Prefix(at=text) if kind == "at" else Prefix(txn=text)
