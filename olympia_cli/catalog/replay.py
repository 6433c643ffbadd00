"""What an action does, told once: to objects, which states hold by name, and to the catalog's own definition.

| action | `replay`: objects | `catalog_after`: the catalog's definition |
| --- | --- | --- |
| create, restore, alter | the name holds the definition that the action carries | |
| drop | the name is gone | |
| rename | the name moves; a namespace takes along all that is in it | |
| CATALOG_CREATE, _ALTER | | it is the one that the action carries |
| CATALOG_EXPORT, _EXPIRE_* | | it records what the payload says |
| CATALOG_ROLLBACK | whoever replays goes on from `rollback_target` | that version's, with today's protection |
| CATALOG_REPAIR | it does not tell: see `tells_all` | it does not tell |
| all others | nothing | nothing |

A definition in a log is the one that the action left. One that is staged on a newer version is merged with what is
there first, and then it is what the action leaves: see `staging.py`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from google.protobuf.message import Message

from olympia_cli.catalog.protection import keep_protection, kept_aside_before
from olympia_cli.catalog.quarantine import (
    QuarantineMark,
    purged_before,
    read_quarantine,
    write_purging,
    write_quarantine,
)
from olympia_cli.catalog.snapshot import EXPIRE_OLDEST, EXPIRE_PURGED, EXPORT_PREFIX, expired_before
from olympia_cli.errors import InvalidOption, Unsupported, VersionNotFound
from olympia_cli.format.action_types import ALTERS, CREATES, DROPS, EXPIRES, RENAMES, RESTORES, renamed
from olympia_cli.format.actions import Action
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
# looked up once: a log asks every version for it, and an enumeration of protobuf's answers slowly
_ROLLBACK = T.CATALOG_ROLLBACK
D = TypeVar("D", CatalogDef, NamespaceDef, TableDef, ViewDef)

PUTS = CREATES | RESTORES | ALTERS
"""What leaves a definition at the name that it names."""


# Objects


class ObjectState(Protocol):
    """Objects by name, or as much of them as somebody wants to know."""

    def put(self, name: ObjectName, definition: bytes) -> None:
        """The name holds the definition, which is empty when the action carries none."""

    def drop(self, name: ObjectName) -> None: ...

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        """As `moved`; the definition is that of the object itself, for who does not have it."""


def replay(action: Action, objects: ObjectState) -> bool:
    """Do to objects what an action did to them. False when it is none that changes the object it names."""
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
    """What a name becomes when `old` becomes `new`: a namespace takes along all that is in it."""
    if name == old:
        return new
    if isinstance(old, NamespaceName) and not isinstance(name, NamespaceName) and name.namespace == old.namespace:
        return as_found(name.kind, new.namespace, name.name)
    return name


def touched(action: Action) -> set[ObjectName]:
    """The objects that an action names: a rename names two."""
    if action.name is None:
        return set()
    return {action.name, renamed(action)} if action.type in RENAMES else {action.name}


def rollback_target(actions: Sequence[Action]) -> int | None:
    """The version that a commit went back to; None when it is no rollback."""
    for action in actions:
        if action.type == _ROLLBACK:
            return action.parse_payload(RollbackDef).to_version
    return None


def tells_all(actions: Sequence[Action]) -> bool:
    """Whether a version's actions say all that it changed: those of other programs and repairs do not."""
    return bool(actions) and not any(action.type == T.CATALOG_REPAIR for action in actions)


# What an alter changes of a definition


def alter_of(action: Action) -> AlterDef:
    """The properties and fields that an alter changes; none when it may change anything."""
    if action.type == T.NAMESPACE_ALTER_SET_PROPERTIES:
        return AlterDef(set_properties=action.parse_payload(NamespaceSetPropertiesDef).keys)
    if action.type == T.NAMESPACE_ALTER_UNSET_PROPERTIES:
        return AlterDef(unset_properties=action.parse_payload(NamespaceUnsetPropertiesDef).keys)
    return action.parse_payload(AlterDef)


def merge(now: D, wanted: D, action: Action) -> D:
    """The definition as it is now, with what the action changes taken from the one that it carries.

    `now` is the caller's own copy, and changed.
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
    """Make one field equal, and leave all others alone, those included that this program does not know."""
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
    """The catalog's definition after an action of `version`. One that changed is tied to no file.

    `definition` is the one before; `older` has those of the versions that a rollback may go back to. InvalidOption or
    VersionNotFound says that the action does not fit what was before, Unsupported that the definition is not known.
    """
    after: CatalogDef | None
    if action.type in (T.CATALOG_CREATE, T.CATALOG_ALTER):
        carried = action.parse_definition()
        after = carried if isinstance(carried, CatalogDef) and carried.id else None
    elif definition is None or action.type == T.CATALOG_REPAIR:
        after = None
    elif action.type == T.CATALOG_ROLLBACK:
        target = older(action.parse_payload(RollbackDef).to_version)
        # exports stay recorded and what expire decided stays decided
        after = None if target is None else keep_protection(target, definition)
    elif action.type in EXPIRES:
        after = _expired(bare(definition), action, version)
    elif action.type == T.CATALOG_EXPORT:
        after = _exported(bare(definition), action.parse_payload(ExportDef))
    else:
        return definition
    if after is None:
        raise Unsupported(f"the action {action.type_name} does not tell the catalog's definition")
    after.ClearField("integrity")
    return after


def _expired(catalog: CatalogDef, action: Action, version: int) -> CatalogDef:
    """What counts as the oldest version is a property of the catalog; the files are expire's own business.

    The conditions are those of the version that is committed on: another expire may have been there first.
    """
    change = action.parse_payload(ExpireDef)
    oldest = oldest_before(catalog, change)
    purged = purged_before(catalog)
    marks = read_quarantine(catalog)
    if action.type == T.CATALOG_EXPIRE_PURGE:
        resting = {mark.manifest for mark in marks}
        if change.purged > oldest or not resting.issuperset(change.manifests):
            raise InvalidOption(
                "what was to be purged is no longer in quarantine",
                hint="see what was done",
                command=("log", "--oneline"),
            )
        catalog.properties[EXPIRE_PURGED] = str(max(change.purged, purged))
        marks = [mark for mark in marks if mark.manifest not in change.manifests]
        write_purging(catalog, [*change.manifests, *change.unfinished])
    elif action.type == T.CATALOG_EXPIRE_MARK:
        if change.former_oldest != oldest or not oldest <= change.oldest <= version:
            raise InvalidOption(
                f"the oldest version is {oldest} by now", hint="see what was done", command=("log", "--oneline")
            )
        if oldest < change.oldest < kept_aside_before(catalog):
            raise InvalidOption(
                f"a copy took the catalog's place, and all versions below {kept_aside_before(catalog)} are kept aside",
                hint="let all of them go",
                command=("promote", "--forget"),
            )
        catalog.properties[EXPIRE_OLDEST] = str(change.oldest)
        if change.manifest:
            marks = [*marks, QuarantineMark(version, change.oldest, oldest, change.manifest)]
    else:
        if change.oldest < purged:
            raise InvalidOption(
                f"versions below {purged} are purged already", hint="see what was done", command=("log", "--oneline")
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
    """The oldest version before an expire."""
    # before the first expire only the plan knows where the catalog begins: it may be an export of a later version
    return expired_before(catalog) if EXPIRE_OLDEST in catalog.properties else change.former_oldest


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
    """Refuse to revive what an expire has taken out of history: its files may be gone at any moment."""
    oldest = expired_before(catalog)
    if version < oldest:
        raise VersionNotFound(f"version {version} does not exist any more: the oldest is {oldest}", hint="")
