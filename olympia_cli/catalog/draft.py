"""The catalog inside a transaction: a version with the transaction's changes on top. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from olympia_cli.catalog.replay import moved
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot
from olympia_cli.format import definitions
from olympia_cli.format.definitions import CLASSES
from olympia_cli.format.node import Node
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, NamespaceName, ObjectName
from olympia_cli.tree.load import same_nodes

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
        self._catalog: bytes | None = None

    @property
    def catalog(self) -> CatalogDef:
        """A copy of the catalog's definition, with staged changes."""
        return self.base.definition if self._catalog is None else CatalogDef.FromString(self._catalog)

    @property
    def staged_catalog(self) -> bytes | None:
        """The new definition of the catalog, or None if it is unchanged."""
        return self._catalog

    def put_catalog(self, definition: bytes) -> None:
        unchanged = self.tree is self.base and definition == definitions.body(self.base.definition)
        self._catalog = None if unchanged else definition

    def copy(self) -> Draft:
        """Return an independent copy."""
        made = Draft(self.base)
        made.tree, made.node, made._catalog = self.tree, self.node, self._catalog
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
        if self.tree is not self.base or self._catalog is not None:
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
