"""`status --watch`: refreshes the screen of a terminal; prints one record per refresh into a pipe."""

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
    """Refresh until Ctrl-C. A catalog that cannot be read is shown as such, and does not end the watch."""
    interval = _parse(seconds)
    if session.output in (Output.CSV, Output.NAME):
        raise InvalidOption(f"--watch cannot print {session.output}", hint="use table, wide, json or jsonl")
    clock = session.catalog.clock
    while True:
        _round(session, full)
        sys.stdout.flush()
        clock.sleep(interval)


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
    is_number = seconds.isascii() and seconds.isdigit() and len(seconds) < 9
    interval = float(seconds) if is_number else parse_seconds(seconds)
    if not interval:
        raise InvalidOption("the interval must not be 0 seconds", hint="give a number of seconds, such as 5")
    return interval
