"""`status --watch`: the screen again and again on a terminal, a record a round in a pipe."""

from __future__ import annotations

import sys
from typing import Any

from olympia_cli.cli.context import Session
from olympia_cli.cli.escape import dumps
from olympia_cli.cli.params import Output
from olympia_cli.cli.status_render import describe_failure, describe_status, print_failure, print_status, round_line
from olympia_cli.errors import InvalidOption, OlympiaError

EVERY_SECONDS = 5.0
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watch(session: Session, full: bool, seconds: str | None) -> None:
    """Until Ctrl-C. A catalog that cannot be looked at is what an operator wants to see, and no reason to stop."""
    every = _parse(seconds)
    if session.output in (Output.CSV, Output.NAME):
        raise InvalidOption("--watch has no such output", hint="use table, wide, json or jsonl")
    clock = session.catalog.clock
    while True:
        _round(session, full)
        sys.stdout.flush()
        clock.sleep(every)


def _round(session: Session, full: bool) -> None:
    from olympia_cli.names import time_text
    from olympia_cli.ops.look.status import status

    on_screen = session.is_tty and session.output in (Output.TABLE, Output.WIDE)
    try:
        catalog_status = status(session.catalog, full)
    except OlympiaError as error:
        if on_screen:
            sys.stdout.write(_CLEAR)
            print_failure(session, error)
        else:
            _record(session, describe_failure(session, error, time_text(session.catalog.clock.now_millis())))
        return
    if on_screen:
        sys.stdout.write(_CLEAR)
        print_status(session, catalog_status)
    else:
        _record(session, describe_status(session, catalog_status))


def _record(session: Session, values: dict[str, Any]) -> None:
    as_json = session.output in (Output.JSON, Output.JSONL)
    text = dumps(values, sys.stdout) if as_json else round_line(session, values)
    sys.stdout.write(text + "\n")


def _parse(seconds: str | None) -> float:
    from olympia_cli.cli.params import parse_seconds

    if seconds is None:
        return EVERY_SECONDS
    every = float(seconds) if seconds.isascii() and seconds.isdigit() and len(seconds) < 9 else parse_seconds(seconds)
    if not every:
        raise InvalidOption("a pause of 0 seconds is none", hint="give a number of seconds: 5, say")
    return every
