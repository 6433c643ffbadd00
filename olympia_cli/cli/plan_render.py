"""What a plan would change, told before anybody is asked."""

from __future__ import annotations

from collections.abc import Iterable

from olympia_cli.cli.context import Session
from olympia_cli.cli.log_patch import folded_changes
from olympia_cli.ops.look.diff import ObjectChange

SHOWN = 50
"""So many lines of a plan are told one by one."""


def say_plan(session: Session, changes: Iterable[ObjectChange], catalog: bool = False) -> int:
    """Talk of the changes, many alike on one line; how many there are."""
    lines, count, untold = 0, 0, 0
    for line, alike in folded_changes(changes):
        lines, count = lines + 1, count + alike
        if lines <= SHOWN:
            session.say(f"  {line}")
        else:
            untold += alike
    if untold:
        session.say(f"  … and {untold:,} more")
    if catalog:
        session.say("  ~ catalog")
    return count
