"""All actors at once on one small catalog, in orders drawn at random: two expires, clocks that disagree, listings that
lag, creations whose answer is lost.

As a program it goes from seed to seed for as long as one likes (`make soak SECONDS=3600`). A failure prints its seed
and its schedule: `replay(scene(seed).play, schedule)` runs it again.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections.abc import Iterator, Sequence
from functools import lru_cache

from olympia_cli.errors import CommitUnknown, OutcomeUnknown, PartlyDone, StorageFailed, VersionNotFound
from olympia_cli.format import codec
from tests.helpers.clock import HOUR, MINUTE
from tests.helpers.expire_world import (
    LIFETIME,
    Scene,
    aged,
    check_now,
    distribute_and_commit,
    in_turn,
    mark_now,
    marked,
    marked_twice,
    purge_now,
    read,
    read_old,
    rollback,
    share,
    skewed,
    undo_now,
    waiting,
    writer,
)
from tests.helpers.scheduler import Run, Work, wander

IN_DOUBT = (CommitUnknown, OutcomeUnknown, PartlyDone, StorageFailed)
"""Errors that are allowed if an answer is lost."""

SKEW = 14 * MINUTE
"""Maximum error of a clock: any two clocks agree within half an hour."""

MORTAL = ("expire", "expire too")
UNLUCKY = ("writer", "rollback", "expire", "expire too", "undo", "distributed", "export")

CAST: dict[str, Work] = {
    "writer": writer("x"),
    "other": writer("y"),
    "rollback": rollback(4),
    "expire": in_turn(mark_now, HOUR, purge_now),
    "expire too": in_turn(purge_now, mark_now, HOUR, purge_now),
    "undo": undo_now,
    "reader": read,
    "old reader": read_old(5),
    "distributed": distribute_and_commit,
    "export": share(5),
    "fsck": check_now,
    "clock": waiting(40 * MINUTE, HOUR, LIFETIME, HOUR),
}


def scene(seed: int) -> Scene:
    """Draw a scene from the seed: its actors, its start and the clocks that are off."""
    drawn = random.Random(seed)
    names = sorted(drawn.sample(list(CAST), 8), key=list(CAST).index)
    actors = {name: CAST[name] if name == "clock" else _off(CAST[name], drawn) for name in names}
    return Scene(drawn.choice((aged, marked, marked, marked_twice)), actors, may_refuse=[VersionNotFound, *IN_DOUBT])


def runs(seed: int, count: int) -> Iterator[Run]:
    return wander(scene(seed).play, count, seed, mortal=MORTAL, unlucky=UNLUCKY)


def _off(work: Work, drawn: random.Random) -> Work:
    by = drawn.choice((0, 0, -SKEW, SKEW))
    return skewed(work, by) if by else work


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Play random orders of all actors for as long as one likes.")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--seed", type=int, default=None, help="where to begin; by the clock if not given")
    parser.add_argument("--runs", type=int, default=40, help="orders of each seed")
    options = parser.parse_args(arguments)
    first = options.seed if options.seed is not None else time.time_ns() // 1_000_000
    # as in the tests: the same small files are decoded again and again
    codec.NodeRows = lru_cache(maxsize=4096)(codec.NodeRows)
    end, played, seed = time.monotonic() + options.seconds, 0, first
    while time.monotonic() < end:
        for run in runs(seed, options.runs):
            played += 1
            if run.violation is not None:
                print(f"seed {seed}: {run.describe()}")
                return 1
        seed += 1
    print(f"{played:,} orders of {seed - first:,} worlds, from the seed {first} on: all hold")
    return 0


if __name__ == "__main__":
    sys.exit(main())
