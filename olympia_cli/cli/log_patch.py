"""Changed objects as lines, with the old and the new values of their fields."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from typing import Any, NamedTuple

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import read_root
from olympia_cli.cli.escape import visible
from olympia_cli.cli.log_text import FOLD_FROM
from olympia_cli.errors import Damaged, VersionNotFound
from olympia_cli.names import Kind, NamespaceName, quote_part
from olympia_cli.ops.look.diff import ObjectChange, changed_fields, diff
from olympia_cli.ops.look.log import LogEntry

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
    old = Snapshot(new.store, read_root(new.store, previous, new.file.width), new)
    if old.root.catalog_def != new.root.catalog_def and (fields := changed_fields(old.definition, new.definition)):
        yield "~ catalog"
        for line in field_lines(fields):
            yield f"  {line}"
    for change in diff(old, new):
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
    changes: Iterable[ObjectChange], fields: Callable[[ObjectChange], Fields] = ObjectChange.fields
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
