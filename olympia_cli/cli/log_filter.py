"""The filter of the log, by object, type of action and author."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from olympia_cli.catalog.references import at_version, oldest_version
from olympia_cli.catalog.replay import touched
from olympia_cli.catalog.snapshot import not_found
from olympia_cli.errors import Damaged, InvalidOption, quoted
from olympia_cli.format.action_types import RENAMES, new_name
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, as_found
from olympia_cli.ops.look.log import LogEntry, log

if TYPE_CHECKING:
    from olympia_cli.cli.context import Session


@dataclass(frozen=True, slots=True)
class Filter:
    """Conditions on a version. An entry that matches keeps only the actions that match."""

    object: NamespaceName | TableName | None
    types: frozenset[str]
    by: str | None

    @classmethod
    def parse(cls, object: NamespaceName | TableName | None, types: list[str], by: str | None) -> Filter:
        action_types = set(ActionType.keys())
        upper = frozenset(word.upper().replace("-", "_").replace(" ", "_") for word in types)
        if unknown := sorted(upper - action_types):
            raise InvalidOption(
                f"there is no action {quoted(unknown[0])}", hint="for example TABLE_CREATE or TABLE_DROP"
            )
        return cls(object, upper, by)

    @property
    def names(self) -> list[ObjectName]:
        """The names that the filter's object may have: a table or a view, for example. Empty without an object."""
        if self.object is None or not self.object.name:
            return [] if self.object is None else [self.object]
        return [as_found(kind, self.object.namespace, self.object.name) for kind in (Kind.TABLE, Kind.VIEW)]

    @property
    def is_empty(self) -> bool:
        return self.object is None and not self.types and self.by is None

    def apply(self, entry: LogEntry) -> LogEntry | None:
        """Return the entry with the matching actions, or None if there are none."""
        if entry.unreadable:
            return entry  # its actions are unknown, so they may match
        if self.by is not None and self.by not in (entry.by, entry.by.partition("@")[0]):
            return None
        if self.object is None and not self.types:
            return entry
        actions = tuple(action for action in entry.changes if self._matches(action))
        if not actions:
            return None
        info = tuple(action for action in entry.actions if action.type == ActionType.COMMIT_INFO)
        return replace(entry, actions=(*actions, *info))

    def _matches(self, action: Action) -> bool:
        if self.types and action.type_name not in self.types:
            return False
        if self.object is None:
            return True
        names = [] if action.name is None else [action.name]
        if action.type in RENAMES:
            names.append(new_name(action))
        return any(self._is_about(name) for name in names)

    def _is_about(self, name: ObjectName) -> bool:
        if self.object is None or name.namespace != self.object.namespace:
            return False
        # a change of a namespace affects all objects in it
        return not self.object.name or not name.name or name.name == self.object.name


def check_known(session: Session, entry_filter: Filter) -> None:
    """Raise the error of `show` if no version has the object. An unreadable version may have it."""
    names = entry_filter.names
    if not names:
        return
    try:
        latest = session.snapshot()
        oldest = oldest_version(latest)
        if any(version.find(name) for version in (latest, at_version(oldest, latest)) for name in names):
            return
        if any(entry.unreadable or _is_about(entry, names) for entry in log(latest, oldest)):
            return
    except Damaged:
        return
    raise not_found(names[0], latest.version)


def _is_about(entry: LogEntry, names: list[ObjectName]) -> bool:
    return any(name in touched(action) for action in entry.changes for name in names)


def take(entry_filter: Filter, entries: Iterable[LogEntry], number: int | None) -> Iterator[LogEntry]:
    """Return the first matching entries, up to a number."""
    number = None if number is None else min(number, sys.maxsize)
    if entry_filter.is_empty:
        return islice(entries, number)
    matches = (match for entry in entries if (match := entry_filter.apply(entry)) is not None)
    return islice(matches, number)
