"""When the objects of a version were last changed, as the log has it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.replay import replay
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.names import NamespaceName, ObjectName
from olympia_cli.ops.look.log import LogEntry, log


def last_changes(snapshot: Snapshot, names: Iterable[ObjectName]) -> dict[ObjectName, LogEntry]:
    """The version that made each object what it is. The log is read back to the first that is not needed any more; what
    was made before the oldest version, or by a program that does not say what it did, is not in it."""
    waiting = _Waiting(set(names))
    last: dict[ObjectName, LogEntry] = {}
    for entry in log(snapshot, oldest_version(snapshot)) if waiting.names else ():
        # what a rollback passed over is no part of what things are
        if entry.undone_by is not None:
            continue
        before = set(waiting.names)
        for action in reversed(entry.changes):
            replay(action, waiting)
        last |= dict.fromkeys(before - waiting.names, entry)
        if not waiting.names:
            break
    return last


@dataclass(slots=True)
class _Waiting:
    """The names whose last change is not found yet; the newest version is looked at first."""

    names: set[ObjectName]

    def put(self, name: ObjectName, definition: bytes) -> None:
        self.names.discard(name)

    def drop(self, name: ObjectName) -> None:
        self.names.discard(name)

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        self.names.discard(new)
        if isinstance(new, NamespaceName):
            self.names = {name for name in self.names if name.namespace != new.namespace}
