"""The catalog as a transaction sees it: a version, and what the transaction has changed on top. Writes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot, read_object
from olympia_cli.errors import Damaged, PathMissing
from olympia_cli.format import definitions
from olympia_cli.format.definitions import CLASSES
from olympia_cli.format.paths import check_pointer
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName

Staged = bytes | str | None
"""A new definition, the path of one that exists already, or nothing: the object is gone."""


class Draft:
    """Changes on top of a snapshot, by name.

    `tree` is the snapshot that the changes apply to. It is the base, unless a rollback put another version's tree
    in its place.
    """

    def __init__(self, base: Snapshot) -> None:
        self.base = base
        self.tree = base
        self.staged: dict[ObjectName, Staged] = {}
        self._catalog: bytes | None = None

    @property
    def catalog(self) -> CatalogDef:
        """A copy of the catalog's definition; `put_catalog` stores it."""
        if self._catalog is not None:
            return CatalogDef.FromString(self._catalog)
        return CatalogDef.FromString(self.base.definition.SerializeToString())

    @property
    def staged_catalog(self) -> bytes | None:
        """The new definition of the catalog, if it changed."""
        return self._catalog

    def put_catalog(self, definition: CatalogDef) -> None:
        content = definitions.body(definition)
        unchanged = self.tree is self.base and content == definitions.body(self.base.definition)
        self._catalog = None if unchanged else content

    def take_tree(self, snapshot: Snapshot) -> None:
        """Go on from another version's tree; what was staged before is gone."""
        self.tree = snapshot
        self.staged = {}

    def find(self, name: ObjectName) -> bool:
        if name in self.staged:
            return self.staged[name] is not None
        return self.tree.find(name) is not None

    def get(self, name: ObjectName) -> ObjectDefinition | None:
        """A copy of the object's definition, or None."""
        found = self.object(name)
        return None if found is None else found.definition

    def object(self, name: ObjectName) -> CatalogObject[ObjectDefinition] | None:
        """The object, or None. The path of one that is not written yet is empty."""
        if name not in self.staged:
            return self.tree.get(name)
        staged = self.staged[name]
        if staged is None:
            return None
        if isinstance(staged, bytes):
            return CatalogObject(name, "", cast(ObjectDefinition, CLASSES[name.kind].FromString(staged)))
        return self._read(name, staged)

    def put(self, name: ObjectName, definition: ObjectDefinition) -> None:
        # a name that is too long is refused here, before anything is staged
        self.tree.keys.encode(name)
        self.staged[name] = definitions.body(definition)

    def delete(self, name: ObjectName) -> None:
        self.staged[name] = None

    def move(self, old: ObjectName, new: ObjectName) -> None:
        """Give what stands at one name to another; the definition stays as it is."""
        self.tree.keys.encode(new)
        found: Staged = self.staged[old] if old in self.staged else self.tree.find(old)
        self.staged[new] = found
        self.staged[old] = None

    def names(self, kind: Kind, namespace: str | None = None) -> Iterator[ObjectName]:
        """Names of a kind, in key order."""
        keys = self.tree.keys
        staged = sorted(
            (keys.encode(name), name, value is not None)
            for name, value in self.staged.items()
            if name.kind is kind and (namespace is None or name.namespace == namespace)
        )
        at = 0
        for name, _ in self.tree.scan(kind, namespace):
            key = keys.encode(name)
            while at < len(staged) and staged[at][0] < key:
                if staged[at][2]:
                    yield staged[at][1]
                at += 1
            if at < len(staged) and staged[at][0] == key:
                continue
            yield name
        for _, name, present in staged[at:]:
            if present:
                yield name

    def objects(self, kind: Kind, namespace: str) -> Iterator[CatalogObject[ObjectDefinition]]:
        """The objects of a kind in a namespace, those of the version read in parallel."""
        for found in self.tree.objects(kind, namespace) if self.tree.find(NamespaceName(namespace)) else ():
            if found.name not in self.staged:
                yield found
        for name, staged in list(self.staged.items()):
            if name.kind is kind and name.namespace == namespace and staged is not None:
                yield cast("CatalogObject[ObjectDefinition]", self.object(name))

    def is_empty(self, namespace: str) -> bool:
        """Whether the namespace holds no table and no view."""
        return not any(True for kind in (Kind.TABLE, Kind.VIEW) for _ in self.names(kind, namespace))

    def move_namespace(self, old: str, new: str) -> None:
        """Move a namespace and all that is in it."""
        tables = [cast(TableName, name) for name in self.names(Kind.TABLE, old)]
        views = [cast(ViewName, name) for name in self.names(Kind.VIEW, old)]
        self.move(NamespaceName(old), NamespaceName(new))
        for table in tables:
            self.move(table, TableName(new, table.name))
        for view in views:
            self.move(view, ViewName(new, view.name))

    def _read(self, name: ObjectName, path: str) -> CatalogObject[ObjectDefinition]:
        check_pointer(path, self.tree.file.path)
        try:
            return read_object(name, path, self.base.store.read(path))
        except PathMissing:
            raise Damaged(path, f"the definition of {name.kind.word} {name} is missing") from None
