"""`log --follow`: past versions, the oldest first, and then new ones as they are committed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

from olympia_cli.cli.context import Session
from olympia_cli.cli.log_filter import Filter, take
from olympia_cli.cli.params import Output, parse_seconds
from olympia_cli.errors import InvalidOption
from olympia_cli.ops.look.follow import follow
from olympia_cli.ops.look.log import LogEntry, log_between

SHORTEST, LONGEST = 0.1, 3600.0
"""Limits of --interval, in seconds."""


def followed(
    session: Session, entry_filter: Filter, number: int | None, since: str | None, interval: str, others: Sequence[str]
) -> Iterator[LogEntry]:
    """Return the entries to show. `others` are given options that exclude --follow."""
    if others:
        raise InvalidOption(f"--follow and {others[0]} do not go together", hint="leave one of them out")
    if session.output is Output.JSON:
        raise InvalidOption("--follow has no end, so it cannot print one JSON document", hint="use -o jsonl")
    seconds = parse_seconds(interval)
    if not SHORTEST <= seconds <= LONGEST:
        raise InvalidOption(f"--interval {interval} is out of range", hint="choose 100ms to 1h")
    catalog, newest = session.catalog, session.snapshot()
    past: Iterator[LogEntry] = iter(())
    if number or since is not None:
        past = take(entry_filter, log_between(catalog, since, f"v{newest.version}"), number)
    return chain(reversed(list(past)), take(entry_filter, follow(newest, catalog.clock, seconds, session.say), None))
