"""What the fields of changed objects were and are, as lines."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import read_root
from olympia_cli.cli.context import Session
from olympia_cli.cli.escape import visible
from olympia_cli.ops.diff import ObjectChange, changed_fields, diff
from olympia_cli.ops.log import LogEntry


def patch_lines(session: Session, entry: LogEntry) -> Iterator[str]:
    """The changes that a version made to its predecessor, field by field."""
    if entry.previous_version is None:
        return
    new = entry.snapshot
    old = Snapshot(new.store, read_root(new.store, entry.previous_version, new.file.width), new)
    if old.root.catalog_def != new.root.catalog_def and (fields := changed_fields(old.definition, new.definition)):
        yield "~ catalog"
        for line in field_lines(fields):
            yield f"  {line}"
    for change in diff(old, new):
        yield change_line(change)
        for line in field_lines(change.fields()):
            yield f"  {line}"


def change_line(change: ObjectChange) -> str:
    """One changed object."""
    mark = {"created": "+", "dropped": "-", "altered": "~", "renamed": ">"}[change.change]
    text = f"{mark} {change.name.kind.word} {change.name}"
    if change.change == "renamed":
        text = f"{mark} {change.name.kind.word} {change.old_name} to {change.name}"
    return visible(text)


def field_lines(fields: dict[str, tuple[Any, Any]]) -> Iterator[str]:
    for name, (old, new) in fields.items():
        if old is not None:
            yield visible(f"- {name}: {_value(old)}")
        if new is not None:
            yield visible(f"+ {name}: {_value(new)}")


def _value(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
