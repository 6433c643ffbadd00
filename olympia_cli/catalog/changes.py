"""Derive the actions between two versions from their trees, for versions without an action log."""

from __future__ import annotations

from collections.abc import Iterator

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.format.actions import Action
from olympia_cli.format.pb.actions_pb2 import ActionType
from olympia_cli.names import Kind
from olympia_cli.tree.diff import diff

T = ActionType
TYPES = {
    Kind.NAMESPACE: (T.NAMESPACE_CREATE, T.NAMESPACE_ALTER, T.NAMESPACE_DROP, T.NAMESPACE_RENAME),
    Kind.TABLE: (T.TABLE_CREATE, T.TABLE_ALTER, T.TABLE_DROP, T.TABLE_RENAME),
    Kind.VIEW: (T.VIEW_CREATE, T.VIEW_REPLACE, T.VIEW_DROP, T.VIEW_RENAME),
}
"""The action types for create, alter, drop and rename of each kind of object."""


def tree_changes(old: Snapshot, new: Snapshot) -> Iterator[Action]:
    """Yield the creates, alters and drops that lead from one version to the other.

    The actions have no definitions. A rename appears as a drop and a create.
    """
    if old.root.catalog_def != new.root.catalog_def:
        yield Action(T.CATALOG_ALTER)
    for change in diff(old.reader, old.root.node, new.reader, new.root.node):
        name = new.keys.decode(change.key, new.file.path)
        created, altered, dropped, _ = TYPES[name.kind]
        if change.old is None:
            yield Action(created, name)
        else:
            yield Action(dropped if change.new is None else altered, name)
