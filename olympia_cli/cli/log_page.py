"""The log as an HTML page in one file: a timeline of versions with their actions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import Any

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.log_render import describe, fate
from olympia_cli.cli.log_text import Line, action_line, folded, sign, stat
from olympia_cli.cli.params import Output
from olympia_cli.errors import InvalidOption, quoted
from olympia_cli.names import plural
from olympia_cli.ops.look.log import LogEntry
from olympia_cli.pages import template

NAMED = 200
"""Number of actions per version that are listed one by one."""
SIGNS = {"+": "created", "-": "dropped", "~": "altered", ">": "renamed"}
"""The class of an action by its sign."""


def write_timeline(session: Session, path: str, entries: Iterable[LogEntry], now_millis: int) -> None:
    """Write the page, and print the number of versions on it."""
    render.check_output(session, path)
    numbers = count()
    # the entries come first, so that the end of the log takes no number
    versions = (_version(entry) for entry, _ in zip(entries, numbers, strict=False))
    try:
        with open(path, "w", encoding="utf-8", errors="backslashreplace") as file:
            page = template("log.html").stream(
                command="log", uri=session.store.uri, now=now_millis, entries=versions, signs=SIGNS
            )
            page.enable_buffering(50)
            file.writelines(page)
            file.write("\n")
    except OSError as error:
        raise InvalidOption(
            f"{quoted(path, 200)} cannot be written: {error.strerror}", hint="give another file"
        ) from None
    written = next(numbers)
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, {"html": path, "count": written})
    else:
        session.say(f"{plural(written, 'version')} in {path}")


def _version(entry: LogEntry) -> dict[str, Any]:
    described = describe(entry)
    actions = described["actions"]
    lines = list(folded(actions))
    kinds = {
        "undone": entry.undone_by is not None,
        "reverted": entry.reverted_by is not None,
        "rollback": entry.rollback_to is not None,
        "unreadable": bool(entry.unreadable),
    }
    is_cut = len(lines) < len(actions) or len(lines) > NAMED
    return {
        "version": entry.version,
        "classes": " ".join(["version", *(name for name, holds in kinds.items() if holds)]),
        "moment": (described["created_at"] or "?")[:19].replace("T", " "),
        "by": entry.by,
        "message": entry.message,
        "notes": [*([] if entry.rollback_to is None else [f"rollback to v{entry.rollback_to}"]), *fate(entry)],
        "unreadable": entry.unreadable,
        "lines": lines[:NAMED],
        "stat": stat(actions),
        "each": [Line(action_line(action), sign(action)) for action in actions[:NAMED]] if is_cut else [],
        "more": len(actions) - NAMED if len(actions) > NAMED else 0,
    }
