"""Stage an action on a draft, for a transaction's own changes and for a rebase on a newer version. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from olympia_cli.catalog.replay import alter_of, catalog_after, check_kept, merge, moved, oldest_before, replay
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot, namespace_for_new, not_found
from olympia_cli.catalog.versions import read_root
from olympia_cli.errors import (
    CommitConflict,
    Damaged,
    InvalidOption,
    NamespaceExists,
    NamespaceNotEmpty,
    NamespaceNotFound,
    OlympiaError,
    TableExists,
    TableNotFound,
    Unsupported,
    VersionNotFound,
    ViewExists,
    ViewNotFound,
    command_words,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import ALTERS, CREATES, DROPS, EXPIRES, READS, RENAMES, RESTORES, Action, renamed
from olympia_cli.format.definitions import CLASSES
from olympia_cli.format.node import Node
from olympia_cli.format.pb.actions_pb2 import ActionType, AlterDef, CompactDef, ExpireDef, RestoreDef, RollbackDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef, TableDef
from olympia_cli.names import Kind, NamespaceName, ObjectName
from olympia_cli.tree.edit import bulk_load
from olympia_cli.tree.load import same_nodes
from olympia_cli.tree.search import scan

# The catalog inside a transaction: a version with the transaction's changes on top. Writes nothing.

Staged = bytes | str | None
"""A new definition, the path of an existing one, or None for a dropped object."""


class Draft:
    """Changes on top of a snapshot, by name.

    `tree` is the snapshot that the changes apply to: the base or, in a rollback, the older version. `node` is the top
    of that tree, or of another tree with equal content.
    """

    def __init__(self, base: Snapshot) -> None:
        self.base = base
        self.tree = base
        self.node: Node = base.root.node
        self.staged: dict[ObjectName, Staged] = {}
        self._inside: dict[tuple[Kind, str], dict[ObjectName, None]] = {}
        self._moves: list[tuple[ObjectName, ObjectName]] = []
        self.staged_catalog: bytes | None = None
        """The new definition of the catalog, or None if it is unchanged."""

    @property
    def catalog(self) -> CatalogDef:
        """A copy of the catalog's definition, with staged changes."""
        return self.base.definition if self.staged_catalog is None else CatalogDef.FromString(self.staged_catalog)

    def put_catalog(self, definition: bytes) -> None:
        unchanged = self.tree is self.base and definition == definitions.body(self.base.definition)
        self.staged_catalog = None if unchanged else definition

    def copy(self) -> Draft:
        """Return an independent copy."""
        made = Draft(self.base)
        made.tree, made.node, made.staged_catalog = self.tree, self.node, self.staged_catalog
        made.staged, made._moves = dict(self.staged), list(self._moves)
        made._inside = {where: dict(names) for where, names in self._inside.items()}
        return made

    def take_tree(self, snapshot: Snapshot) -> None:
        """Replace the tree by another version's, and discard the staged objects."""
        self.tree, self.node = snapshot, snapshot.root.node
        self.staged, self._inside = {}, {}

    def find(self, name: ObjectName) -> bool:
        if name in self.staged:
            return self.staged[name] is not None
        return self.tree.find(name) is not None

    def get(self, name: ObjectName) -> ObjectDefinition | None:
        """Return a copy of the object's definition, or None."""
        found = self.object(name)
        return None if found is None else found.definition

    def object(self, name: ObjectName) -> CatalogObject[ObjectDefinition] | None:
        """Return the object, or None. An object that is not written yet has an empty path."""
        if name not in self.staged:
            return self.tree.get(name)
        staged = self.staged[name]
        if isinstance(staged, bytes):
            return CatalogObject(name, "", cast(ObjectDefinition, CLASSES[name.kind].FromString(staged)))
        return None if staged is None else next(self.tree.read_objects([(name, staged)]))

    def put(self, name: ObjectName, definition: bytes) -> None:
        self._stage(name, definition)

    def drop(self, name: ObjectName) -> None:
        self._stage(name, None)

    def move(self, old: ObjectName, new: ObjectName, definition: bytes) -> None:
        """Move an object to another name. A namespace moves with its objects; definitions are unchanged."""
        found: Staged = self.staged[old] if old in self.staged else self.tree.find(old)
        moving: list[tuple[ObjectName, Staged]] = [(old, found)]
        if isinstance(old, NamespaceName):
            moving += [entry for kind in (Kind.TABLE, Kind.VIEW) for entry in self.entries(kind, old.namespace)]
        for name, staged in moving:
            self._stage(moved(name, old, new), staged)
            self._stage(name, None)
        self._moves.append((old, new))

    def origin(self, name: ObjectName) -> ObjectName:
        """Return the name that the object had on the base, before all moves."""
        for old, new in reversed(self._moves):
            name = moved(name, new, old)
        return name

    def names(self, kind: Kind, namespace: str | None = None) -> Iterator[ObjectName]:
        """Yield the names of a kind in key order."""
        return (name for name, _ in self.entries(kind, namespace))

    def entries(self, kind: Kind, namespace: str | None = None) -> Iterator[tuple[ObjectName, bytes | str]]:
        """Yield names and definitions (or their paths) of a kind in key order."""
        keys = self.tree.keys
        changed = self.staged if namespace is None else self._inside.get((kind, namespace), {})
        staged = sorted((keys.encode(name), name) for name in changed if name.kind is kind)
        at = 0
        for name, path in self.tree.scan(kind, namespace):
            key = keys.encode(name)
            while at < len(staged) and staged[at][0] <= key:
                yield from self._present(staged[at][1])
                at += 1
            if name not in self.staged:
                yield name, path
        for _, name in staged[at:]:
            yield from self._present(name)

    def objects(self, kind: Kind, namespace: str) -> Iterator[CatalogObject[ObjectDefinition]]:
        """Yield the objects of a kind in a namespace. Definitions in files are read in parallel."""
        entries = list(self.entries(kind, namespace))
        yield from self.tree.read_objects((name, path) for name, path in entries if isinstance(path, str))
        for name, staged in entries:
            if isinstance(staged, bytes):
                yield cast("CatalogObject[ObjectDefinition]", self.object(name))

    def is_empty(self, namespace: str) -> bool:
        """Return True if the namespace holds no table and no view."""
        return not any(True for kind in (Kind.TABLE, Kind.VIEW) for _ in self.entries(kind, namespace))

    def is_unchanged(self) -> bool:
        """Return True if the base has the same content and the same nodes."""
        if self.tree is not self.base or self.staged_catalog is not None:
            return False
        same = all(self._stands(name, staged) for name, staged in self.staged.items())
        return same and same_nodes(self.base.reader, self.base.root.node, self.node)

    def _stands(self, name: ObjectName, staged: Staged) -> bool:
        if not isinstance(staged, bytes):
            return staged == self.base.find(name)
        found = self.base.get(name)
        return found is not None and definitions.body(found.definition) == staged

    def _present(self, name: ObjectName) -> Iterator[tuple[ObjectName, bytes | str]]:
        staged = self.staged[name]
        if staged is not None:
            yield name, staged

    def _stage(self, name: ObjectName, staged: Staged) -> None:
        # raises InvalidName for a name that is too long, before anything is staged
        self.tree.keys.encode(name)
        self.staged[name] = staged
        self._inside.setdefault((name.kind, name.namespace), {})[name] = None


# Stage an action on a draft, for a transaction's own changes and for a rebase on a newer version.
#
# An action holds all that is needed to apply it again: the changed properties and fields, and their values in its
# definition. This module merges the action with the draft. `replay.py` defines its effect.

T = ActionType

NO_LONGER_FITS = (
    NamespaceNotFound,
    TableNotFound,
    ViewNotFound,
    NamespaceExists,
    TableExists,
    ViewExists,
    NamespaceNotEmpty,
    InvalidOption,
)
"""The errors of an action that does not fit the current state. Other errors are about files."""

_NO_CHANGE = READS | {T.COMMIT_INFO, T.CATALOG_CREATE}
_CATALOG_CHANGES = EXPIRES | {T.CATALOG_ALTER, T.CATALOG_EXPORT}
# cached, as in `transaction.py`
_COMPACT, _ROLLBACK = T.CATALOG_COMPACT, T.CATALOG_ROLLBACK


def stage(action: Action, draft: Draft, *, is_merged: bool = False) -> Action:
    """Apply the action to the draft. Return the action with the definition that results.

    `is_merged` means that an alter's definition was made from the draft's current one. Raise the usual errors for
    objects that are missing, exist already, or are not empty.
    """
    if action.type in _NO_CHANGE or action.merged:
        return action
    if action.type == _COMPACT:
        return _compact(action, draft)
    if action.type == _ROLLBACK:
        return _roll_back(action, draft)
    if action.type in _CATALOG_CHANGES:
        return _change_catalog(action, draft, is_merged)
    if action.name is not None:
        action = action if is_merged else _fit(action, action.name, draft)
        if replay(action, draft):
            return action
    raise Unsupported(f"an action of type {action.type_name} cannot be applied again")


def _fit(action: Action, name: ObjectName, draft: Draft) -> Action:
    """Check that the action fits the draft. Merge an alter with the current definition."""
    if action.type in ALTERS:
        return _merge(action, name, draft)
    if action.type in CREATES or action.type in RESTORES:
        is_there = _check_create(action, name, draft)
        if action.type in RESTORES:
            payload = action.parse_payload(RestoreDef)
            payload.replaces = is_there
            return replace(action, payload=payload.SerializeToString())
    elif action.type in DROPS:
        _need(name, draft)
        if isinstance(name, NamespaceName) and not draft.is_empty(name.namespace):
            raise not_empty(name)
    elif action.type in RENAMES:
        _check_rename(name, renamed(action), draft)
    return action


def _check_create(action: Action, name: ObjectName, draft: Draft) -> bool:
    """Raise what a person would expect; the result is whether the object is there, which a restore may replace."""
    if not isinstance(name, NamespaceName):
        _need_namespace(name.namespace, draft)
    definition = _carried(action)
    present = draft.get(name)
    if action.type in RESTORES:
        check_kept(action.parse_payload(RestoreDef).from_version, draft.catalog)
    if present is not None and (action.type in CREATES or present.id != definition.id):
        raise exists(name)
    return present is not None


def _check_rename(name: ObjectName, new: ObjectName, draft: Draft) -> None:
    if new == name:
        raise InvalidOption(f"{name} has that name already", hint="choose another name")
    _need(name, draft)
    if not isinstance(new, NamespaceName):
        _need_namespace(new.namespace, draft)
    if draft.find(new):
        raise exists(new)


def _merge(action: Action, name: ObjectName, draft: Draft) -> Action:
    now = draft.get(name)
    if now is None:
        raise not_found(name, draft.base.version)
    wanted = _carried(action)
    check_location(name, now, alter_of(action))
    again = action.reapply
    if again is not None and isinstance(now, TableDef) and isinstance(wanted, TableDef):
        present = now.iceberg_metadata_location
        if present != again.staged_on:
            # repeat a change of data on the table's current metadata
            wanted.iceberg_metadata_location = again.do(present)
            wanted.iceberg_previous_metadata_location = present
            again = replace(again, staged_on=present)
    merged: ObjectDefinition = merge(now, wanted, action)  # type: ignore[type-var]
    return replace(action, definition=definitions.body(merged), reapply=again)


def check_location(name: ObjectName, now: ObjectDefinition, change: AlterDef) -> None:
    """Raise CommitConflict if a table's metadata location is not the expected one."""
    expected = change.expected_metadata_location
    if not isinstance(now, TableDef) or not change.HasField("expected_metadata_location"):
        return
    if now.iceberg_metadata_location != expected:
        raise CommitConflict(f"the metadata of table {name} is at {now.iceberg_metadata_location}, not at {expected}")


def _carried(action: Action) -> ObjectDefinition:
    definition = action.parse_definition()
    if definition is None:
        raise Unsupported(f"the action {action.type_name} of {action.name} carries no definition")
    return cast(ObjectDefinition, definition)


def _change_catalog(action: Action, draft: Draft, is_merged: bool) -> Action:
    version = draft.base.version + 1
    if action.type == T.CATALOG_ALTER:
        if not is_merged:
            merged = merge(draft.catalog, catalog_after(None, action, version), action)
            action = replace(action, definition=definitions.body(merged))
        draft.put_catalog(action.definition)
        return action
    catalog = draft.catalog
    if action.type == T.CATALOG_EXPIRE_UNDO:
        change = action.parse_payload(ExpireDef)
        change.former_oldest = oldest_before(catalog, change)
        action = replace(action, payload=change.SerializeToString())
    draft.put_catalog(definitions.body(catalog_after(catalog, action, version)))
    return action


def _roll_back(action: Action, draft: Draft) -> Action:
    target = action.parse_payload(RollbackDef).to_version
    if target == draft.base.version:
        raise InvalidOption(f"version {target} is the latest already", hint="name an older version")
    if target > draft.base.version:
        raise VersionNotFound(f"version {target} does not exist: the latest is {draft.base.version}", hint="")
    check_kept(target, draft.catalog)
    # without shared caches: a cached file may no longer exist
    snapshot = Snapshot(draft.base.store, read_root(draft.base.store, target))
    _check_revived(draft.base, snapshot)
    catalog = catalog_after(draft.catalog, action, draft.base.version + 1, lambda version: snapshot.definition)
    draft.take_tree(snapshot)
    draft.put_catalog(definitions.body(catalog))
    payload = RollbackDef(from_version=draft.base.version, to_version=target)
    return replace(action, payload=payload.SerializeToString())


def _check_revived(base: Snapshot, target: Snapshot) -> None:
    """Read all definitions that only the older version reaches, to check that none is missing or damaged.

    If the newer version is damaged, which a rollback repairs, read all definitions of the older one.
    """
    # imported here, because only a rollback needs it
    from olympia_cli.tree.diff import diff

    try:
        changes = list(diff(base.reader, base.root.node, target.reader, target.root.node))
        revived = ((change.key, change.new) for change in changes if change.new is not None)
        entries = [(target.keys.decode(key, target.file.path), path) for key, path in revived]
    except Damaged:
        kinds = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
        entries = [entry for kind in kinds for entry in target.scan(kind)]
    for _ in target.read_objects(entries):
        pass


def _compact(action: Action, draft: Draft) -> Action:
    """Rebuild the tree with the same content and the fill factor in the payload."""
    percent = action.parse_payload(CompactDef).fill_percent or 100
    tree = draft.tree
    draft.node = bulk_load(scan(tree.reader, draft.node), tree.sizes.order, lambda node: node, percent / 100)
    return action


def _need(name: ObjectName, draft: Draft) -> None:
    if not draft.find(name):
        raise not_found(name, draft.base.version)


def _need_namespace(namespace: str, draft: Draft) -> None:
    name = NamespaceName(namespace)
    if not draft.find(name):
        with namespace_for_new():
            raise not_found(name, draft.base.version)


def not_empty(name: NamespaceName) -> NamespaceNotEmpty:
    words = command_words("ns", "drop", "--cascade", names=[name.namespace])
    return NamespaceNotEmpty(f"the namespace {name} is not empty", command=words)


def exists(name: ObjectName) -> OlympiaError:
    error = {Kind.NAMESPACE: NamespaceExists, Kind.TABLE: TableExists, Kind.VIEW: ViewExists}[name.kind]
    return error(f"the {name.kind.word} {name} exists already", hint="choose another name, or alter what is there")
