"""Remember texts in bounded memory."""

from __future__ import annotations

from olympia_cli.ops.walk.reach import path_digest


class Seen:
    """A set of texts, as digests. A full set is cleared: then some texts count as new again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._digests: set[bytes] = set()

    def __contains__(self, text: str) -> bool:
        return path_digest(text) in self._digests

    def add(self, text: str) -> bool:
        """Add a text. Return True if it is new."""
        digest = path_digest(text)
        if digest in self._digests:
            return False
        if len(self._digests) >= self._most:
            self._digests.clear()
        self._digests.add(digest)
        return True
