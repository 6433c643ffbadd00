"""Rename objects whose names the format forbids: one reversible rule for all sources, like that of URLs.

A space, a control character or half of a surrogate pair becomes `%` and two hex digits per byte of its UTF-8. So does a
`%` before two hex digits. A name that is then too long for the catalog is cut, and ends in `~` and 16 hex digits of its
SHA-256. The property `olympia.import.name` keeps the former name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from hashlib import sha256

from olympia_cli.format.node import Sizes
from olympia_cli.names import Kind, ObjectName, as_found, full_name

FORMER_NAME = "olympia.import.name"
_ILLEGAL = re.compile("[\x00-\x20\x7f\ud800-\udfff]")
_FORBIDDEN = re.compile(f"{_ILLEGAL.pattern}|%(?=[0-9A-Fa-f]{{2}})")
_DIGITS = 16


def legal_name(name: str, size: int) -> str:
    """Return a legal name of at most `size` bytes; most names stay as they are."""
    legal = _FORBIDDEN.sub(lambda found: "".join(f"%{byte:02X}" for byte in _bytes(found[0])), name)
    data = _bytes(legal)
    if len(data) <= size:
        return legal
    digest = sha256(_bytes(name)).hexdigest()[:_DIGITS]
    kept = data[: max(size - 1 - _DIGITS, 0)].decode("utf-8", "ignore")
    # do not cut an escape in half
    return (re.sub("%[0-9A-F]?$", "", kept) + "~" + digest)[:size]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Renaming:
    """Names of a source in a catalog of these sizes. `into` is one namespace for all objects. `keeps_legal` is for a
    source that is one of our catalogs: a `%` in its names stays, because an earlier import may have put it there."""

    sizes: Sizes
    into: str | None = None
    keeps_legal: bool = False

    def namespace(self, name: str) -> str:
        return self._legal(name, self.sizes.namespace) if self.into is None else self.into

    def _legal(self, name: str, size: int) -> str:
        kept = self.keeps_legal and not _ILLEGAL.search(name) and len(_bytes(name)) <= size
        return name if kept else legal_name(name, size)

    def name(self, name: ObjectName) -> ObjectName:
        if name.kind is Kind.NAMESPACE:
            return as_found(Kind.NAMESPACE, self.namespace(name.namespace))
        size = self.sizes.table if name.kind is Kind.TABLE else self.sizes.view
        return as_found(name.kind, self.namespace(name.namespace), self._legal(name.name, size))

    def former(self, name: ObjectName) -> str | None:
        """Return the original name of a renamed object; None if its name stays."""
        new = self.name(name)
        if name.kind is Kind.NAMESPACE:
            return None if new == name else name.namespace
        moved = self.into is not None and name.namespace != self.into
        return full_name(name.namespace, name.name) if moved or new.name != name.name else None
