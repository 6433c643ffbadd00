"""The version of the last change of each object, from the log."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from olympia_cli.catalog.references import oldest_version
from olympia_cli.catalog.replay import replay
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.names import NamespaceName, ObjectName
from olympia_cli.ops.look.log import LogEntry, log


def last_changes(snapshot: Snapshot, names: Iterable[ObjectName]) -> dict[ObjectName, LogEntry]:
    """Return the last version that changed each object.

    The log is read back only as far as needed. Objects are missing whose last change is older than the oldest version,
    or is in a version without an action log.
    """
    waiting = _Waiting(set(names))
    last: dict[ObjectName, LogEntry] = {}
    for entry in log(snapshot, oldest_version(snapshot)) if waiting.names else ():
        # versions that a rollback undid did not form the present state
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
    """The names whose last change is not yet found. Actions are replayed newest first."""

    names: set[ObjectName]

    def put(self, name: ObjectName, definition: bytes) -> None:
        self.names.discard(name)

    def drop(self, name: ObjectName) -> None:
        self.names.discard(name)

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        self.names.discard(new)
        if isinstance(new, NamespaceName):
            self.names = {name for name in self.names if name.namespace != new.namespace}
