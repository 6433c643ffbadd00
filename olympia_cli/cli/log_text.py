"""Texts of the log: actions, ages and names as lines. At 80 columns a table would lose too much."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import TYPE_CHECKING, Any

from olympia_cli.cli.escape import visible
from olympia_cli.names import full_name as quoted
from olympia_cli.names import quote_part

if TYPE_CHECKING:
    from olympia_cli.cli.context import Session
    from olympia_cli.names import NamespaceName, TableName

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
class Line:
    """A line for one action, or for many similar ones."""

    text: str
    sign: str


def folded(actions: Sequence[dict[str, Any]]) -> Iterator[Line]:
    """Yield one line per action. Many consecutive actions of one type in one namespace share a line."""
    for _, group in groupby(actions, key=lambda action: (action["type"], sign(action), _fold_key(action))):
        alike = list(group)
        if len(alike) < FOLD_FROM or alike[0]["object"] == "catalog":
            yield from (Line(action_line(action), sign(action)) for action in alike)
            continue
        kind, mark = alike[0]["object"], sign(alike[0])
        first, last = full_name(alike[0]), alike[-1]["name"]
        yield Line(visible(f"{mark} {len(alike)} {kind}s  {first} … {quote_part(last)}"), mark)


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
