"""Names that the format forbids, and what they become: one rule for every kind of source, undone as that of URLs is.

A space, a control character or half a surrogate pair becomes `%` and two hex digits for each byte of its UTF-8, and so
does a `%` that two hex digits follow. A name that is too long for the catalog then is cut, and ends in `~` and 16 hex
digits of its SHA-256. What was renamed keeps its former name in the property `olympia.import.name`.
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
    """The name as a catalog may hold it that allows so many bytes; most names stay as they are."""
    legal = _FORBIDDEN.sub(lambda found: "".join(f"%{byte:02X}" for byte in _bytes(found[0])), name)
    data = _bytes(legal)
    if len(data) <= size:
        return legal
    digest = sha256(_bytes(name)).hexdigest()[:_DIGITS]
    kept = data[: max(size - 1 - _DIGITS, 0)].decode("utf-8", "ignore")
    # a cut must not leave half of an escape
    return (re.sub("%[0-9A-F]?$", "", kept) + "~" + digest)[:size]


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


@dataclass(frozen=True, slots=True)
class Renaming:
    """Names of a source as a catalog of these sizes has them; `into` is one namespace for all. Where the source is a
    catalog of ours, whose names were legal, `keeps_legal` leaves a `%` in them as it is: an earlier import may have
    put it there."""

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
        """What an object that is renamed was called; None for one whose own name stays."""
        new = self.name(name)
        if name.kind is Kind.NAMESPACE:
            return None if new == name else name.namespace
        moved = self.into is not None and name.namespace != self.into
        return full_name(name.namespace, name.name) if moved or new.name != name.name else None
