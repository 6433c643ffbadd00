"""Which versions of the log are wanted."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from olympia_cli.errors import InvalidOption, quoted
from olympia_cli.format.action_types import RENAMES, new_name
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.names import NamespaceName, ObjectName, TableName
from olympia_cli.ops.look.log import LogEntry


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on a version; of one that is wanted for an object, only the actions on that object are shown."""

    object: NamespaceName | TableName | None
    types: frozenset[str]
    by: str | None

    @classmethod
    def parse(cls, object: NamespaceName | TableName | None, types: list[str], by: str | None) -> Filter:
        known = set(ActionType.keys())
        upper = frozenset(one.upper().replace("-", "_").replace(" ", "_") for one in types)
        if unknown := sorted(upper - known):
            raise InvalidOption(
                f"there is no action {quoted(unknown[0])}", hint="for example TABLE_CREATE or TABLE_DROP"
            )
        return cls(object, upper, by)

    @property
    def is_empty(self) -> bool:
        return self.object is None and not self.types and self.by is None

    def apply(self, entry: LogEntry) -> LogEntry | None:
        """The entry with the actions that are wanted, or None."""
        if entry.unreadable:
            return entry  # nobody knows what it did, so nobody can leave it out
        if self.by is not None and self.by not in (entry.by, entry.by.partition("@")[0]):
            return None
        if self.object is None and not self.types:
            return entry
        wanted = tuple(action for action in entry.changes if self._wants(action))
        if not wanted:
            return None
        info = tuple(action for action in entry.actions if action.type == ActionType.COMMIT_INFO)
        return replace(entry, actions=(*wanted, *info))

    def _wants(self, action: Action) -> bool:
        if self.types and action.type_name not in self.types:
            return False
        if self.object is None:
            return True
        names = [] if action.name is None else [action.name]
        if action.type in RENAMES:
            names.append(new_name(action))
        return any(self._matches(name) for name in names)

    def _matches(self, name: ObjectName) -> bool:
        if self.object is None or name.namespace != self.object.namespace:
            return False
        # what happens to a namespace happens to all that is in it
        return not self.object.name or not name.name or name.name == self.object.name


def take(wanted: Filter, entries: Iterable[LogEntry], number: int | None) -> Iterator[LogEntry]:
    """The first so many entries that are wanted."""
    number = None if number is None else min(number, sys.maxsize)
    if wanted.is_empty:
        return islice(entries, number)
    found = (kept for entry in entries if (kept := wanted.apply(entry)) is not None)
    return islice(found, number)
