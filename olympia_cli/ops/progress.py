"""The interface through which long operations report progress."""

from __future__ import annotations

from typing import Protocol


class Progress(Protocol):
    def phase(self, what: str, total: int | None = None) -> None:
        """Begin a phase, for example "reading nodes", with the number of its files if that is known."""
        ...

    def advance(self, count: int = 1) -> None:
        """Count more files as done."""
        ...


class Silent:
    """Progress that reports nothing."""

    def phase(self, what: str, total: int | None = None) -> None:
        pass

    def advance(self, count: int = 1) -> None:
        pass


class Within(Silent):
    """Forward the count, drop the phase names."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress

    def advance(self, count: int = 1) -> None:
        self._progress.advance(count)


SILENT = Silent()
