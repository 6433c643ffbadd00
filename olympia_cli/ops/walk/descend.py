"""The way down a tree. Who goes down says how places are looked at, and what a visit leads to; the order is here."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

P = TypeVar("P")
F = TypeVar("F")

AT_ONCE = 1024
"""So many places are looked at together, so that a store can read them in parallel."""


def descend(
    tops: Iterable[P],
    look: Callable[[Sequence[P]], Iterable[tuple[P, F]]],
    visit: Callable[[P, F], Iterable[P]],
    *,
    at_once: int | None = AT_ONCE,
) -> Iterator[list[P]]:
    """Visit places and all that visits lead to; gives each batch of places once they were visited.

    `look` maps places to what is there; `visit` says which places to go on to. What was found last is looked at first,
    so that no more waits than a few nodes a level. Without a bound a batch is a whole level.
    """
    waiting = list(tops)
    while waiting:
        first = 0 if at_once is None else max(0, len(waiting) - at_once)
        batch, waiting = waiting[first:], waiting[:first]
        for place, facts in look(batch):
            waiting.extend(visit(place, facts))
        yield batch
