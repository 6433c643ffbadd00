"""The effect of each action on objects and on the catalog's own definition.

| action | `replay`: objects | `catalog_after`: the catalog's definition |
| --- | --- | --- |
| create, restore, alter | the name gets the definition in the action | |
| drop | the name is removed | |
| rename | the name moves; a namespace moves with its objects | |
| CATALOG_CREATE, _ALTER | | the definition in the action |
| CATALOG_EXPORT, _EXPIRE_* | | updated from the payload |
| CATALOG_ROLLBACK | the caller continues from `rollback_target` | that version's, with the current protection |
| CATALOG_REPAIR | unknown: see `tells_all` | unknown |
| all others | unchanged | unchanged |

The definition in a log is the result of the action. An action that is staged on a newer version is first merged with
that version's definition: see `staging.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from olympia_cli.catalog.properties import EXPIRE_OLDEST, EXPIRE_PURGED, EXPORT_PREFIX
from olympia_cli.catalog.retained import (
    QuarantineMark,
    keep_protection,
    kept_aside_before,
    purged_before,
    read_quarantine,
    write_purging,
    write_quarantine,
)
from olympia_cli.catalog.snapshot import expired_before, marked_oldest
from olympia_cli.errors import InvalidOption, Unsupported, VersionNotFound
from olympia_cli.format.actions import ALTERS, CREATES, DROPS, EXPIRES, RENAMES, RESTORES, Action, renamed
from olympia_cli.format.definitions import bare
from olympia_cli.format.pb.actions_pb2 import (
    ActionType,
    AlterDef,
    ExpireDef,
    ExportDef,
    NamespaceSetPropertiesDef,
    NamespaceUnsetPropertiesDef,
    RollbackDef,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef, NamespaceDef, TableDef, ViewDef
from olympia_cli.names import NamespaceName, ObjectName, as_found

T = ActionType
# cached: lookups in a protobuf enumeration are slow, and every version of a log is compared with it
_ROLLBACK = T.CATALOG_ROLLBACK
D = TypeVar("D", CatalogDef, NamespaceDef, TableDef, ViewDef)

PUTS = CREATES | RESTORES | ALTERS
"""Action types that set the definition at a name."""


# Objects


class ObjectState(Protocol):
    """Objects by name, or those that the caller is interested in."""

    def put(self, name: ObjectName, definition: bytes) -> None:
        """Set the definition of the name. It is empty if the action has none."""

    def drop(self, name: ObjectName) -> None: ...

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        """Rename as `moved` does. `definition` is that of the object itself."""


def replay(action: Action, objects: ObjectState) -> bool:
    """Apply an action to objects. Return False if its type does not change the object that it names."""
    if action.name is None:
        return False
    if action.type in PUTS:
        objects.put(action.name, action.definition)
    elif action.type in DROPS:
        objects.drop(action.name)
    elif action.type in RENAMES:
        objects.move(action.name, renamed(action), action.definition)
    else:
        return False
    return True


def moved(name: ObjectName, old: ObjectName, new: ObjectName) -> ObjectName:
    """Return the name after `old` is renamed to `new`. A namespace moves with its objects."""
    if name == old:
        return new
    if isinstance(old, NamespaceName) and not isinstance(name, NamespaceName) and name.namespace == old.namespace:
        return as_found(name.kind, new.namespace, name.name)
    return name


def touched(action: Action) -> set[ObjectName]:
    """Return the objects that an action names: two for a rename."""
    if action.name is None:
        return set()
    return {action.name, renamed(action)} if action.type in RENAMES else {action.name}


def rollback_target(actions: Sequence[Action]) -> int | None:
    """Return the version that a commit rolled back to, or None."""
    for action in actions:
        if action.type == _ROLLBACK:
            return action.parse_payload(RollbackDef).to_version
    return None


def tells_all(actions: Sequence[Action]) -> bool:
    """Return True if the actions describe all changes. Those of repairs and of other programs do not."""
    return bool(actions) and not any(action.type == T.CATALOG_REPAIR for action in actions)


# The parts of a definition that an alter changes


def alter_of(action: Action) -> AlterDef:
    """Return the properties and fields that an alter changes. An empty result means that it may change anything."""
    if action.type == T.NAMESPACE_ALTER_SET_PROPERTIES:
        return AlterDef(set_properties=action.parse_payload(NamespaceSetPropertiesDef).keys)
    if action.type == T.NAMESPACE_ALTER_UNSET_PROPERTIES:
        return AlterDef(unset_properties=action.parse_payload(NamespaceUnsetPropertiesDef).keys)
    return action.parse_payload(AlterDef)


def merge(now: D, wanted: D, action: Action) -> D:
    """Return the current definition with the parts that the action changes taken from the action's definition.

    `now` must be the caller's own copy, and is modified.
    """
    change = alter_of(action)
    if not (change.set_properties or change.unset_properties or change.fields):
        return wanted
    for key in change.set_properties:
        now.properties[key] = wanted.properties[key]
    for key in change.unset_properties:
        now.properties.pop(key, None)
    for name in change.fields:
        if name in now.DESCRIPTOR.fields_by_name:
            _copy_field(name, wanted, now)
    return now


def _copy_field(name: str, source: Message, target: Message) -> None:
    """Copy one field and leave all others unchanged, including unknown ones."""
    field = source.DESCRIPTOR.fields_by_name[name]
    target.ClearField(name)
    value = getattr(source, name)
    if field.is_repeated:
        getattr(target, name).MergeFrom(value)
    elif field.message_type is None:
        setattr(target, name, value)
    elif source.HasField(name):
        getattr(target, name).CopyFrom(value)


# The catalog's own definition


def catalog_after(
    definition: CatalogDef | None,
    action: Action,
    version: int,
    older: Callable[[int], CatalogDef | None] = lambda version: None,
) -> CatalogDef:
    """Return the catalog's definition after an action of `version`. A changed definition has no `integrity` field.

    `definition` is the one before. `older` returns the definition of a rollback's target. Raise InvalidOption or
    VersionNotFound if the action does not fit the previous state, Unsupported if the result is not known.
    """
    after: CatalogDef | None
    if action.type in (T.CATALOG_CREATE, T.CATALOG_ALTER):
        carried = action.parse_definition()
        after = carried if isinstance(carried, CatalogDef) and carried.id else None
    elif definition is None or action.type == T.CATALOG_REPAIR:
        after = None
    elif action.type == T.CATALOG_ROLLBACK:
        target = older(action.parse_payload(RollbackDef).to_version)
        # exports and expires stay recorded
        after = None if target is None else keep_protection(target, definition)
    elif action.type in EXPIRES:
        after = _expired(bare(definition), action, version)
    elif action.type == T.CATALOG_EXPORT:
        after = _exported(bare(definition), action.parse_payload(ExportDef))
    else:
        return definition
    if after is None:
        raise Unsupported(f"the action {action.type_name} has no definition of the catalog")
    after.ClearField("integrity")
    return after


def _expired(catalog: CatalogDef, action: Action, version: int) -> CatalogDef:
    """Apply an expire to the catalog's definition. Files are expire's own responsibility.

    The conditions are checked against the version that is committed on, because another expire may have come first.
    """
    change = action.parse_payload(ExpireDef)
    oldest = oldest_before(catalog, change)
    purged = purged_before(catalog)
    marks = read_quarantine(catalog)
    if action.type == T.CATALOG_EXPIRE_PURGE:
        resting = {mark.manifest for mark in marks}
        if change.purged > oldest or not resting.issuperset(change.manifests):
            raise InvalidOption(
                "the versions to purge are no longer in quarantine",
                hint="read the log",
                command=("log", "--oneline"),
            )
        catalog.properties[EXPIRE_PURGED] = str(max(change.purged, purged))
        marks = [mark for mark in marks if mark.manifest not in change.manifests]
        write_purging(catalog, [*change.manifests, *change.unfinished])
    elif action.type == T.CATALOG_EXPIRE_MARK:
        if change.former_oldest != oldest or not oldest <= change.oldest <= version:
            raise InvalidOption(
                f"the oldest version is {oldest} by now", hint="read the log", command=("log", "--oneline")
            )
        if oldest < change.oldest < kept_aside_before(catalog):
            raise InvalidOption(
                f"a copy took the catalog's place, and all versions below {kept_aside_before(catalog)} are kept aside",
                hint="expire all of them",
                command=("promote", "--forget"),
            )
        catalog.properties[EXPIRE_OLDEST] = str(change.oldest)
        if change.manifest:
            marks = [*marks, QuarantineMark(version, change.oldest, oldest, change.manifest)]
    else:
        if change.oldest < purged:
            raise InvalidOption(
                f"versions below {purged} are purged already", hint="read the log", command=("log", "--oneline")
            )
        catalog.properties[EXPIRE_OLDEST] = str(change.oldest)
        marks = [_narrowed(mark, change) for mark in marks if mark.former_oldest < change.oldest]
    write_quarantine(catalog, marks)
    return catalog


def _narrowed(mark: QuarantineMark, change: ExpireDef) -> QuarantineMark:
    """A mark after an undo that brings back some of its versions: it keeps out those before them."""
    if mark.oldest <= change.oldest:
        return mark
    return replace(mark, oldest=change.oldest, manifest=change.manifest or mark.manifest)


def oldest_before(catalog: CatalogDef, change: ExpireDef) -> int:
    """Return the oldest version before an expire."""
    # before the first expire, only the plan knows the first version: the catalog may be an export of a later one
    marked = marked_oldest(catalog)
    return change.former_oldest if marked is None else marked


def _exported(catalog: CatalogDef, change: ExportDef) -> CatalogDef:
    key = EXPORT_PREFIX + change.name
    if change.dropped:
        catalog.exported_snapshots.pop(change.name, None)
        catalog.properties.pop(key, None)
        return catalog
    check_kept(change.version, catalog)
    record: dict[str, object] = {
        "version": change.version,
        "mode": change.mode,
        "expires_at": change.expires_at_millis or None,
    }
    if change.pin:
        record["pin"] = change.pin
    catalog.exported_snapshots[change.name] = change.location
    catalog.properties[key] = json.dumps(record, separators=(",", ":"))
    return catalog


def check_kept(version: int, catalog: CatalogDef) -> None:
    """Raise VersionNotFound for a version that an expire removed: its files may be deleted at any moment."""
    oldest = expired_before(catalog)
    if version < oldest:
        raise VersionNotFound(f"version {version} does not exist any more: the oldest is {oldest}", hint="")
