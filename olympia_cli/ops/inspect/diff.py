"""The objects that were created, altered, renamed and dropped between two versions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot, read_object
from olympia_cli.format.paths import check_pointer
from olympia_cli.names import ObjectName
from olympia_cli.ops.fsck import describe_object_name
from olympia_cli.ops.inspect.describe import describe_definition, shown_field
from olympia_cli.tree.diff import diff as tree_diff


@dataclass(frozen=True, slots=True)
class ObjectChange:
    """An object that differs. `name` is its newer name; `old_name` differs from it only if the object was renamed."""

    change: str
    name: ObjectName
    old_name: ObjectName
    old: CatalogObject[ObjectDefinition] | None
    new: CatalogObject[ObjectDefinition] | None

    @property
    def id(self) -> str:
        present = self.new or self.old
        return present.id if present is not None else ""

    def fields(self) -> dict[str, tuple[Any, Any]]:
        """Return the old and new values of each field and property that differs. An absent value is None."""
        if self.old is None or self.new is None:
            return {}
        return changed_fields(self.old.definition, self.new.definition)

    def all_fields(self) -> dict[str, tuple[Any, Any]]:
        """Like `fields`, with all fields of an object that was created or dropped."""
        present = self.new or self.old
        if present is None or (self.old is not None and self.new is not None):
            return self.fields()
        empty = type(present.definition)()
        old, new = (empty, present.definition) if self.old is None else (present.definition, empty)
        return changed_fields(old, new)


def diff(old: Snapshot, new: Snapshot) -> Iterator[ObjectChange]:
    """Return the changes between two versions, sorted by name. Subtrees that both versions share are not read.

    An object was renamed if its id disappears under one name and appears under another. Its former name may be in use
    again.
    """
    gone: dict[ObjectName, str] = {}
    come: dict[ObjectName, str] = {}
    both: dict[ObjectName, tuple[str, str]] = {}
    for change in tree_diff(old.reader, old.root.node, new.reader, new.root.node):
        name = new.keys.decode(change.key, new.file.path)
        if change.old is not None and change.new is not None:
            both[name] = (change.old, change.new)
        elif change.old is not None:
            gone[name] = change.old
        elif change.new is not None:
            come[name] = change.new
    entries = [*gone.items(), *come.items()]
    entries += [(name, path) for name, paths in both.items() for path in paths]
    objects = dict(zip(entries, _read(old, entries), strict=True))
    yield from changes_of(
        {name: objects[name, path] for name, path in gone.items()},
        {name: objects[name, path] for name, path in come.items()},
        {name: (objects[name, before], objects[name, after]) for name, (before, after) in both.items()},
    )


Objects = dict[ObjectName, CatalogObject[ObjectDefinition]]


def changes_of(
    gone: Objects,
    come: Objects,
    both: Mapping[ObjectName, tuple[CatalogObject[ObjectDefinition], CatalogObject[ObjectDefinition]]],
) -> list[ObjectChange]:
    """Return the changes, sorted by name, from the objects whose names are gone, are new, or have another
    definition.
    """
    changes: list[ObjectChange] = []
    for name, (older, newer) in both.items():
        if older.id != newer.id:
            gone[name], come[name] = older, newer
        elif changed_fields(older.definition, newer.definition):
            changes.append(ObjectChange("altered", name, name, older, newer))
    dropped = {(name.kind, found.id): name for name, found in gone.items()}
    for name, present in come.items():
        former = dropped.pop((name.kind, present.id), None) if present.id else None
        if former is None:
            changes.append(ObjectChange("created", name, name, None, present))
        else:
            changes.append(ObjectChange("renamed", name, former, gone[former], present))
    for former in dropped.values():
        changes.append(ObjectChange("dropped", former, former, gone[former], None))
    return sorted(changes, key=_order)


def _order(change: ObjectChange) -> tuple[int, str, str, bool]:
    return change.name.kind, change.name.namespace, change.name.name, change.change != "dropped"


def changed_fields(old: Any, new: Any) -> dict[str, tuple[Any, Any]]:
    """Return the old and new values, masked, of the fields that differ. Properties count one by one."""
    before, after = describe_definition(old), describe_definition(new)
    changed: dict[str, tuple[Any, Any]] = {}
    for name in dict.fromkeys((*before, *after)):
        a, b = before.get(name), after.get(name)
        if a == b:
            continue
        if isinstance(a or b, dict) and name in ("properties", "exported_snapshots"):
            older, newer = a or {}, b or {}
            for key in sorted({*older, *newer}):
                if older.get(key) != newer.get(key):
                    changed[f"{name}.{key}"] = (older.get(key), newer.get(key))
        else:
            changed[name] = (a, b)
    return {name: (shown_field(name, a), shown_field(name, b)) for name, (a, b) in changed.items()}


def _read(snapshot: Snapshot, entries: Iterable[tuple[ObjectName, str]]) -> Iterator[CatalogObject[ObjectDefinition]]:
    entries = list(entries)
    # a renamed object has one definition under both names
    paths = dict.fromkeys(path for _, path in entries)
    for path in paths:
        check_pointer(path, snapshot.file.path)
    contents = dict(snapshot.store.read_many(paths))
    return (read_object(name, path, contents[path]) for name, path in entries)


def describe_change(change: ObjectChange) -> dict[str, Any]:
    """Return a change in its JSON form."""
    detail: dict[str, Any] = {}
    if change.change == "renamed":
        detail["from"] = {
            "namespace": change.old_name.namespace,
            "name": change.old_name.name or change.old_name.namespace,
        }
    if fields := change.fields():
        detail["fields"] = {key: {"from": old, "to": new} for key, (old, new) in fields.items()}
    return {"change": change.change, **describe_object_name(change.name), "id": change.id, "detail": detail}
