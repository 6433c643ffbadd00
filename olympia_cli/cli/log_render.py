"""Printing the log: blocks for people, with or without a graph; lines for pipes; JSON and CSV for programs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TextIO

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.escape import visible
from olympia_cli.cli.log_patch import Patched
from olympia_cli.cli.log_text import action_line, age, folded, said, stat
from olympia_cli.cli.params import Output
from olympia_cli.names import time_text
from olympia_cli.ops.look.describe import describe_action
from olympia_cli.ops.look.log import LogEntry

Patch = Callable[[LogEntry], Patched]
NO_PATCH = Patched([], False)
_STYLES = {"+": "32", "-": "31", "~": "33", ">": "36"}


def describe(entry: LogEntry) -> dict[str, Any]:
    """Return an entry of the log for JSON."""
    created = entry.created_at_millis
    values: dict[str, Any] = {
        "version": entry.version,
        "created_at": None if created is None else time_text(created),
        "previous_version": entry.previous_version,
        "rollback_from": entry.rollback_from,
        "rollback_to": entry.rollback_to,
        "undone_by": entry.undone_by,
        "reverts": [{"first": first, "last": last} for first, last in entry.reverts],
        "reverted_by": entry.reverted_by,
        "transaction_id": entry.transaction_id or None,
        "by": entry.by or None,
        "message": entry.message or None,
        "actions": [describe_action(action) for action in entry.changes],
    }
    return {**values, "unreadable": entry.unreadable} if entry.unreadable else values


def print_log(
    session: Session,
    entries: Iterable[LogEntry],
    now_millis: int,
    *,
    oneline: bool,
    graph: bool,
    stats: bool,
    patch: Patch | None,
    paged: bool = True,
) -> None:
    """Print the entries as they come."""
    with session.out(paged=paged) as out:
        if session.output is Output.JSON:
            render.json_list(session, out, "versions", map(describe, entries), {})
        elif session.output is Output.JSONL:
            for entry in entries:
                out.write(render.json_text(session, describe(entry)) + "\n")
                out.flush()
        elif session.output is Output.CSV:
            render.csv_row(session, out, _CSV)
            for entry in entries:
                for row in _csv_rows(entry):
                    render.csv_row(session, out, [row.get(key) for key in _CSV])
                out.flush()
        elif session.output is Output.NAME:
            for entry in entries:
                out.write(f"v{entry.version}\n")
                out.flush()
        elif oneline or graph:
            _print_lines(session, out, entries, now_millis, graph)
        elif not session.is_tty:
            _print_for_pipe(out, entries, stats, patch)
        else:
            _print_blocks(session, out, entries, now_millis, stats, patch)


_CSV = ["version", "created_at", "by", "message", "type", "object", "namespace", "name", "undone_by"]


def _csv_rows(entry: LogEntry) -> Iterator[dict[str, Any]]:
    values = describe(entry)
    for action in values.pop("actions") or [{}]:
        yield {**values, **action}


def _print_for_pipe(out: TextIO, entries: Iterable[LogEntry], stats: bool, patch: Patch | None) -> None:
    """Print one action per line, each with its version, so that lines can be cut and sorted."""
    for entry in entries:
        values = describe(entry)
        moment = values["created_at"] or ""
        lead = "\t".join(
            [f"v{entry.version}", moment, visible(entry.by), visible(entry.message), ", ".join(fate(entry))]
        )
        patched = patch(entry) if patch is not None and not stats else NO_PATCH
        actions = _without_patch(values["actions"]) if patched.complete else values["actions"]
        lines = [stat(actions)] if stats else [action_line(action) for action in actions]
        if entry.unreadable:
            lines = [_unreadable(entry)]
        for line in [*lines, *patched.lines] or [""]:
            # a field of the line before repeats only the version
            out.write(f"v{entry.version}\t\t\t\t\t{line}\n" if line.startswith(" ") else f"{lead}\t{line}\n")
        out.flush()


def _print_blocks(
    session: Session, out: TextIO, entries: Iterable[LogEntry], now: int, stats: bool, patch: Patch | None
) -> None:
    paint = painter(session)
    width = 0
    for entry in entries:
        width = width or len(f"v{entry.version}") + 1
        values = describe(entry)
        moment = (values["created_at"] or "")[:19].replace("T", " ").ljust(19) + ("Z" if values["created_at"] else " ")
        undone = entry.undone_by is not None
        kind = [] if entry.rollback_to is None else [f"rollback to v{entry.rollback_to}"]
        note = "".join(f"  {text}" for text in (*kind, *fate(entry)))
        head = f"v{entry.version}".ljust(width)
        ago = _age(entry, now)
        out.write(f"{paint(head, '2' if undone else '1')} {moment} {ago}  {visible(entry.by)}{paint(note, '35')}\n")
        indent = " " * (width + 1)
        for line in entry.message.splitlines():
            out.write(f"{indent}{said(line)}\n")
        patched = patch(entry) if patch is not None and not stats else NO_PATCH
        if entry.unreadable:
            out.write(f"{indent}{paint(_unreadable(entry), '31')}\n")
        elif stats:
            out.write(f"{indent}{stat(values['actions'])}\n")
        elif entry.rollback_to is not None:
            last = entry.rollback_from or entry.version - 1
            first = entry.rollback_to + 1
            span = f"v{first}" if first == last else f"v{first}…v{last}"
            out.write(f"{indent}{paint(f'< undoes {span}', '35')}\n")
        else:
            for row in folded(_without_patch(values["actions"]) if patched.complete else values["actions"]):
                out.write(f"{indent}{paint(row.text, '2' if undone else _STYLES.get(row.sign, '0'))}\n")
        for line in patched.lines:
            out.write(f"{indent}{paint(line, '2' if undone else style(line))}\n")
        out.flush()


def _print_lines(session: Session, out: TextIO, entries: Iterable[LogEntry], now: int, graph: bool) -> None:
    """Print one line per version. With a graph, the versions that a rollback undid have a lane of their own."""
    paint = painter(session)
    lanes = _Lanes(_marks(session))
    for entry in entries:
        values = describe(entry)
        summary = stat(values["actions"])
        if entry.rollback_to is not None:
            summary = f"rollback v{entry.rollback_from} → v{entry.rollback_to}"
        if entry.unreadable:
            summary = "unreadable"
        lead = lanes.next(entry) if graph else ""
        ago = _age(entry, now)
        subject = said(entry.message.split("\n", 1)[0])
        if not subject and entry.rollback_to is None:
            subject = _first(values["actions"])
        undone = entry.undone_by is not None
        text = f"v{entry.version:<5} {ago}  {summary:<10}  {subject}"
        notes = [text for text in fate(entry) if not (graph and undone)]
        text += f"  ({', '.join(notes)})" if notes else ""
        by = visible(entry.by)
        room = session.width - len(lead) - len(by) - 2
        if session.is_tty and room >= 20:
            text = (text if len(text) <= room else text[: room - 1] + "…").ljust(room)
        out.write(f"{lead}{paint(text, '2' if undone else '0')}  {by}\n")
        out.flush()


def fate(entry: LogEntry) -> list[str]:
    """Return notes on a version: the versions that it reverts, and the version that undid or reverted it."""
    notes = ["reverts " + (f"v{first}" if first == last else f"v{first}…v{last}") for first, last in entry.reverts]
    notes += [] if entry.undone_by is None else [f"undone by v{entry.undone_by}"]
    return notes + ([] if entry.reverted_by is None else [f"reverted by v{entry.reverted_by}"])


def _without_patch(actions: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the actions that a patch does not show: those on the catalog, except changes of its definition."""
    return [action for action in actions if action["object"] == "catalog" and action["type"] != "CATALOG_ALTER"]


def _first(actions: list[dict[str, Any]]) -> str:
    """Summarize the actions of a version that has no message."""
    lines = [line.text for line in folded(actions)]
    return " ".join([*lines[:1], *([f"and {len(lines) - 1:,} more"] if lines[1:] else [])])


def _unreadable(entry: LogEntry) -> str:
    return visible(f"! unreadable: {entry.unreadable}")


def _age(entry: LogEntry, now: int) -> str:
    created = entry.created_at_millis
    return ("?" if created is None else age(created, now)).rjust(4)


def _marks(session: Session) -> tuple[str, ...]:
    """Return the characters of the graph, in ASCII if the output has no others."""
    import sys

    try:
        "●○│┐┘┤─".encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        return ("*", "o", "|", "\\", "/", "+", "-")
    return ("●", "○", "│", "┐", "┘", "┤", "─")


class _Lanes:
    def __init__(self, marks: tuple[str, ...]) -> None:
        self._dot, self._undone, self._bar, self._out, self._in, self._both, self._dash = marks
        self._target: int | None = None

    def next(self, entry: LogEntry) -> str:
        if entry.undone_by is not None:
            return f"{self._bar} {self._undone} "
        back = self._target is not None and entry.version == self._target
        if entry.rollback_to is not None and entry.rollback_to < entry.version - 1:
            self._target = entry.rollback_to
            return f"{self._dot}{self._dash}{self._both if back else self._out} "
        if back:
            self._target = None
            return f"{self._dot}{self._dash}{self._in} "
        return f"{self._dot}   "


def style(line: str) -> str:
    """Return the colour of a line that begins with a sign, such as a changed field."""
    return _STYLES.get(line.lstrip()[:1], "0")


def painter(session: Session) -> Callable[[str, str], str]:
    """Return a function that colours a text by escape codes, if the output has colours."""
    if not session.color:
        return lambda text, code: text
    return lambda text, code: f"\x1b[{code}m{text}\x1b[0m" if text and code != "0" else text
