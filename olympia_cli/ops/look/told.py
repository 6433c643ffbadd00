"""Reconstruct a version's actions by comparing it with its predecessor, for versions without an action log."""

from __future__ import annotations

from collections.abc import Iterator

from olympia_cli.catalog.changes import TYPES
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import read_root
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.paths import parse_root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, AlterDef, RenameDef
from olympia_cli.ops.look.diff import ObjectChange, changed_fields, diff

T = ActionType
_PROPERTY = "properties."


def told_actions(new: Snapshot) -> tuple[Action, ...]:
    """Return the actions from the previous version to this one, sorted by name."""
    previous = None if new.root.previous_root is None else parse_root_path(new.root.previous_root)
    if previous is None:
        return (Action(T.CATALOG_CREATE, None, definitions.body(new.definition)),)
    old = Snapshot(new.store, read_root(new.store, previous, new.file.width), new)
    return tuple(told_changes(old, new))


def told_changes(old: Snapshot, new: Snapshot) -> Iterator[Action]:
    """Yield the differences between two versions, as actions with the new definitions."""
    if old.root.catalog_def != new.root.catalog_def and (fields := changed_fields(old.definition, new.definition)):
        yield Action(T.CATALOG_ALTER, None, definitions.body(new.definition), alter_payload(fields))
    for change in diff(old, new):
        yield from _actions(change)


def _actions(change: ObjectChange) -> Iterator[Action]:
    created, altered, dropped, renamed = TYPES[change.name.kind]
    present = change.new if change.new is not None else change.old
    assert present is not None
    content = definitions.body(present.definition)
    fields = change.fields()
    if change.change == "renamed":
        to = RenameDef(new_namespace_name=change.name.namespace, new_name=change.name.name)
        yield Action(renamed, change.old_name, content, to.SerializeToString())
    elif change.change != "altered":
        yield Action(created if change.new is not None else dropped, change.name, content)
    if fields:
        yield Action(altered, change.name, content, alter_payload(fields))


def alter_payload(fields: dict[str, tuple[object, object]]) -> bytes:
    """Return the payload of an alter: the set properties, the unset properties, and the other fields by name."""
    properties = {name.removeprefix(_PROPERTY): new for name, (_, new) in fields.items() if name.startswith(_PROPERTY)}
    return AlterDef(
        set_properties=[name for name, new in properties.items() if new is not None],
        unset_properties=[name for name, new in properties.items() if new is None],
        fields=[name for name in fields if not name.startswith(_PROPERTY)],
    ).SerializeToString()
