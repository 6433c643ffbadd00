"""How long work says how far it is, without knowing who listens."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def phase(self, what: str, total: int | None = None) -> None:
        """A step begins: what it does ("reading nodes"), and how many files it has to do with, if that is known."""
        ...

    def advance(self, count: int = 1) -> None:
        """So many files more are done."""
        ...


class Silent:
    """Nobody listens."""

    def phase(self, what: str, total: int | None = None) -> None:
        pass

    def advance(self, count: int = 1) -> None:
        pass


class Within(Silent):
    """A step whose own steps nobody is told of, only how far it is."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def advance(self, count: int = 1) -> None:
        self._progress.advance(count)


SILENT = Silent()
