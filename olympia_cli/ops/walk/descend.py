"""The order of a walk down a tree. The caller supplies how to read nodes and which children to follow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

P = TypeVar("P")
F = TypeVar("F")

AT_ONCE = 1024
"""The number of places to read together, so that the store can read them in parallel."""


def descend(
    tops: Iterable[P],
    look: Callable[[Sequence[P]], Iterable[tuple[P, F]]],
    visit: Callable[[P, F], Iterable[P]],
    *,
    at_once: int | None = AT_ONCE,
) -> Iterator[list[P]]:
    """Visit places and all places that the visits return. Yield each batch of places after its visits.

    `look` reads places and yields their facts; `visit` returns the places to follow. The last places found are read
    first, so that only a few nodes per level are waiting. If `at_once` is None, a batch is a whole level.
    """
    waiting = list(tops)
    while waiting:
        first = 0 if at_once is None else max(0, len(waiting) - at_once)
        batch, waiting = waiting[first:], waiting[:first]
        for place, facts in look(batch):
            waiting.extend(visit(place, facts))
        yield batch
