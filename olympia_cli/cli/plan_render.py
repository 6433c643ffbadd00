"""Printing the changes of a plan, before the user confirms it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from olympia_cli.cli.context import Session
from olympia_cli.cli.log_patch import field_lines, told_changes
from olympia_cli.ops.look.diff import ObjectChange

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
