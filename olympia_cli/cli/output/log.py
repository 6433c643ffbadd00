"""Texts of the log: actions, ages and names as lines. At 80 columns a table would lose too much."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render, visible
from olympia_cli.cli.session import Session
from olympia_cli.errors import Damaged, VersionNotFound
from olympia_cli.names import Kind, NamespaceName, quote_part, time_text
from olympia_cli.names import full_name as quoted
from olympia_cli.ops import inspect

if TYPE_CHECKING:
    from olympia_cli.catalog.snapshot import Snapshot
    from olympia_cli.names import TableName
    from olympia_cli.ops.inspect import LogEntry, ObjectChange

_SIGNS = {"CREATE": "+", "RESTORE": "+", "DROP": "-", "RENAME": ">", "EXISTS": "?", "DESCRIBE": "?", "SELECT": "?"}
_QUOTED = re.compile(r'"((?:[^"]|"")+)"')
_COLUMNS = (("added_columns", "+column "), ("removed_columns", "-column "))
_FILES = (("added_files", "+"), ("removed_files", "-"), ("deleted_files", "-"), ("unnamed_files", "~"))
FOLD_FROM = 4
"""Number of similar consecutive actions from which they share one line."""


def age(millis: int, now_millis: int) -> str:
    """Format the time since a moment in one unit: `3d`."""
    seconds = max(0, now_millis - millis) // 1000
    for size, unit in ((604_800 * 52, "y"), (604_800, "w"), (86_400, "d"), (3_600, "h"), (60, "m")):
        if seconds >= size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def full_name(action: dict[str, Any]) -> str:
    """Return the full name of an action's object, as commands take it."""
    if action["object"] == "catalog":
        return ""
    if action["object"] == "namespace":
        return str(action["namespace"])
    return quoted(action["namespace"], action["name"])


def sign(action: dict[str, Any]) -> str:
    """Return the sign of an action: + created, - dropped, ~ altered, > renamed, ? read."""
    words = action["type"].split("_")
    if "SHOW" in words or "SNOW" in words:
        return "?"
    if "RESTORE" in words and (action["detail"] or {}).get("replaces"):
        return "~"
    return next((_SIGNS[word] for word in words if word in _SIGNS), "~")


def action_line(action: dict[str, Any]) -> str:
    """Format an action as one line."""
    kind, name, detail = action["object"], full_name(action), action["detail"] or {}
    words = [sign(action), kind]
    if name:
        words.append(name)
    if "to" in detail:
        to = detail["to"]
        new = to["namespace"] if kind == "namespace" else quoted(to["namespace"], to["name"])
        words.append(f"to {new}")
    if "from_version" in detail and "RESTORE" in action["type"]:
        words.append(f"from v{detail['from_version']}")
    if action["type"].startswith("CATALOG_") and action["type"] != "CATALOG_ALTER":
        words[:] = [sign(action), action["type"].removeprefix("CATALOG_").lower().replace("_", " ")]
        if "export" in detail:
            words[1] += " drop" if detail.get("dropped") else ""
            words.append(f"{detail['export']} of v{detail['at_version']}")
        if "former_oldest" in detail:
            words.append(f"oldest v{detail['former_oldest']} → v{detail['oldest']}")
        if detail.get("description"):
            words.append(" " + detail["description"])
        if "purged" in detail:
            words.append(f"below v{detail['purged']}")
    if action["type"] == "CATALOG_CREATE":
        words = ["+", "catalog"]
    parts = []
    for key, mark in (("set", ""), ("unset", "-")):
        if detail.get(key):
            parts.append(", ".join(mark + word for word in detail[key]))
    parts += [f"{mark}{column}" for key, mark in _COLUMNS for column in detail.get(key, ())]
    parts += [f"column {rename['from']} → {rename['to']}" for rename in detail.get("renamed_columns", ())]
    if files := [f"{mark}{detail[key]:,}" for key, mark in _FILES if detail.get(key)]:
        parts.append("files " + " ".join(files))
    if any("metadata_location" in field for field in detail.get("fields", ())):
        parts.append("metadata → " + short_location(detail.get("metadata_location", "")))
    elif detail.get("fields"):
        parts.append(", ".join(detail["fields"]))
    text = " ".join(words)
    return visible(f"{text}  {'; '.join(parts)}" if parts else text)


def conflict_line(conflict: dict[str, Any]) -> str:
    """Format a conflict of a revert: the object and the reason."""
    when = "" if conflict["version"] is None else f" (v{conflict['version']})"
    return visible(f"! {conflict['object']} {full_name(conflict)}".rstrip() + f"  {conflict['why']}{when}")


def short_location(location: str) -> str:
    """Return the last part of a metadata location; only that part usually changes."""
    return location.rstrip("/").rpartition("/")[2] or location


def said(line: str) -> str:
    """Format a line of a message, quoted unless it begins with a letter or digit: it must not look like an action."""
    text = visible(line)
    return text if not text or text[0].isalnum() else f'"{text}"'


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line for one action, or for many similar ones."""

    text: str
    sign: str


def folded(actions: Sequence[dict[str, Any]]) -> Iterator[LogLine]:
    """Yield one line per action. Many consecutive actions of one type in one namespace share a line."""
    for _, group in groupby(actions, key=lambda action: (action["type"], sign(action), _fold_key(action))):
        alike = list(group)
        if len(alike) < FOLD_FROM or alike[0]["object"] == "catalog":
            yield from (LogLine(action_line(action), sign(action)) for action in alike)
            continue
        kind, mark = alike[0]["object"], sign(alike[0])
        first, last = full_name(alike[0]), alike[-1]["name"]
        yield LogLine(visible(f"{mark} {len(alike)} {kind}s  {first} … {quote_part(last)}"), mark)


def _fold_key(action: dict[str, Any]) -> str:
    return "" if action["object"] == "namespace" else str(action["namespace"])


def stat(actions: Iterable[dict[str, Any]]) -> str:
    """Count the actions by sign: `+1 ~2 -3`."""
    counts: dict[str, int] = {}
    for action in actions:
        counts[sign(action)] = counts.get(sign(action), 0) + 1
    return " ".join(f"{mark}{counts[mark]}" for mark in "+~>-" if mark in counts)


def parse_object(session: Session, text: str) -> NamespaceName | TableName:
    """Parse `NS` or `NS.T`, quoted as full names are."""
    if match := _QUOTED.fullmatch(text):
        return session.namespace_name(match[1].replace('""', '"'))
    if text.startswith('"') or "." in text:
        return session.table_name(text)
    return session.namespace_name(text)


# Changed objects as lines, with the old and the new values of their fields.

Fields = dict[str, tuple[Any, Any]]
"""Old and new values by the name of the field."""

MARKS = {"created": "+", "dropped": "-", "altered": "~", "renamed": ">"}


class Patched(NamedTuple):
    """The lines of a version's changes, field by field. `complete` is false if some changes cannot be shown."""

    lines: list[str]
    complete: bool


def patch_lines(entry: LogEntry) -> Patched:
    if entry.previous_version is None or entry.snapshot is None:
        return Patched([], False)
    lines: list[str] = []
    try:
        lines.extend(_patch(entry.snapshot, entry.previous_version))
    except (Damaged, VersionNotFound) as damaged:
        return Patched([*lines, visible(f"! cannot be shown: {damaged.message}")], False)
    return Patched(lines, True)


def _patch(new: Snapshot, previous: int) -> Iterator[str]:
    from olympia_cli.catalog.snapshot import Snapshot
    from olympia_cli.catalog.versions import read_root

    old = Snapshot(new.store, read_root(new.store, previous, new.file.width), new)
    if old.root.catalog_def != new.root.catalog_def:
        lines = [f"  {line}" for line in field_lines(inspect.changed_fields(old.definition, new.definition))]
        yield from ["~ catalog", *lines] if lines else []
    for change in inspect.diff(old, new):
        yield change_line(change)
        for line in field_lines(change.all_fields()):
            yield f"  {line}"


def change_line(change: ObjectChange) -> str:
    """Return the line of a changed object."""
    mark = MARKS[change.change]
    text = f"{mark} {change.name.kind.word} {change.name}"
    if change.change == "renamed":
        text = f"{mark} {change.name.kind.word} {change.old_name} to {change.name}"
    return visible(text)


def folded_changes(changes: Iterable[ObjectChange]) -> Iterator[tuple[str, int]]:
    """Yield lines with the number of changes in each: many similar neighbours share a line."""
    alike: list[ObjectChange] = []
    for change in changes:
        if alike and _alike(change) != _alike(alike[0]):
            yield from _folded(alike)
            alike = []
        alike.append(change)
    yield from _folded(alike)


def told_changes(
    changes: Iterable[ObjectChange], fields: Callable[[ObjectChange], Fields] = lambda change: change.fields()
) -> Iterator[tuple[str, int]]:
    """Yield lines like `folded_changes`, but one per change that has fields to show, with the fields below it."""
    for has_fields, group in groupby(changes, key=lambda change: bool(fields(change))):
        if not has_fields:
            yield from folded_changes(group)
            continue
        for change in group:
            yield change_line(change), 1
            yield from ((f"    {line}", 0) for line in field_lines(fields(change)))


def _alike(change: ObjectChange) -> tuple[str, int, str]:
    kind = change.name.kind
    return change.change, kind, "" if kind is Kind.NAMESPACE else change.name.namespace


def _folded(alike: list[ObjectChange]) -> Iterator[tuple[str, int]]:
    if len(alike) < FOLD_FROM:
        yield from ((change_line(change), 1) for change in alike)
        return
    first, last = alike[0].name, alike[-1].name
    end = last.namespace if isinstance(last, NamespaceName) else quote_part(last.name)
    mark = MARKS[alike[0].change]
    yield visible(f"{mark} {len(alike):,} {first.kind.word}s  {first} … {end}"), len(alike)


def field_lines(fields: Fields) -> Iterator[str]:
    for name, (old, new) in fields.items():
        if old is not None:
            yield visible(f"- {name}: {_value(old)}")
        if new is not None:
            yield visible(f"+ {name}: {_value(new)}")


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


# Printing the log: blocks for people, with or without a graph; lines for pipes; JSON and CSV for programs.

Patch = Callable[["LogEntry"], Patched]
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
        "actions": [inspect.describe_action(action) for action in entry.changes],
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
            render.json_list(out, "versions", map(describe, entries), {})
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
    lanes = _Lanes(_marks())
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


def _marks() -> tuple[str, ...]:
    """Return the characters of the graph, in ASCII if the output has no others."""
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


# Printing the changes of a plan, before the user confirms it.

SHOWN = 50
"""Number of lines of a plan that are printed."""


def say_plan(
    session: Session, changes: Iterable[ObjectChange], catalog: Mapping[str, tuple[Any, Any]] | None = None
) -> int:
    """Print changes and the fields that differ, with many similar changes on one line. Return the number of changes.

    `catalog` has the changed fields of the catalog's own definition.
    """
    lines, count, omitted = 0, 0, 0
    for line, number in told_changes(changes):
        lines, count = lines + 1, count + number
        if lines <= SHOWN:
            session.say(f"  {line}")
        else:
            omitted += number
    if omitted:
        session.say(f"  … and {omitted:,} more")
    if catalog:
        session.say("  ~ catalog")
        for line in field_lines(dict(catalog)):
            session.say(f"      {line}")
    return count
