"""A read view of one version. It never changes, whatever others commit."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import Generic, TypeVar, cast

from olympia_cli.catalog.definition_reader import DefinitionReader
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import (
    Damaged,
    InvalidName,
    NamespaceNotFound,
    PathMissing,
    StoreError,
    TableNotFound,
    Unsupported,
    ViewNotFound,
)
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.definitions import CLASSES, decode, sizes_of
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Root, Sizes
from olympia_cli.format.node_file import decode_action_rows, decode_root
from olympia_cli.format.paths import LAST_FSCK, check_pointer, parse_root_path, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef, NamespaceDef, TableDef, ViewDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName, as_found
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.load import NodeReader
from olympia_cli.tree.scan import scan_nodes
from olympia_cli.tree.search import search

MAJOR_VERSION = 0
"""The newest major version of the format that this program knows."""

REQUIRED_FEATURES = "olympia.required-features"
EXPIRE_OLDEST = "olympia.expire.oldest"
EXPIRE_PURGED = "olympia.expire.purged"
EXPORT_PREFIX = "olympia.export."
ACKNOWLEDGED = "olympia.fsck.acknowledged"
PROMOTED = "olympia.promoted"
KNOWN_FEATURES: frozenset[str] = frozenset()

ObjectDefinition = NamespaceDef | TableDef | ViewDef
D = TypeVar("D", bound=ObjectDefinition, covariant=True)


@dataclass(frozen=True, slots=True)
class CatalogObject(Generic[D]):
    """An object as a version has it: its name, the path of its definition, and the definition."""

    name: ObjectName
    path: str
    definition: D

    @property
    def id(self) -> str:
        return self.definition.id

    @property
    def properties(self) -> dict[str, str]:
        return dict(self.definition.properties)


class Snapshot:
    """One version of a catalog."""

    def __init__(self, store: Store, file: RootFile, near: Snapshot | None = None, root: Root | None = None) -> None:
        """`near` is another version of the same catalog, whose nodes and definitions need not be read again; `root` is
        what the file was made of, where that is known."""
        if file.damage is not None:
            raise file.damage
        self.store = store
        self.file = file
        if root is None and near is not None and near.file.data == file.data:
            root = near.root
        self.root: Root = decode_root(file.data, file.path, file.java) if root is None else root
        if near is not None and near.root.sizes != self.root.sizes:
            # another catalog at the same place
            near = None
        self.reader: NodeReader = (
            near.reader if near is not None else NodeReader(store, java=file.java, sizes=self.root.sizes)
        )
        self.definitions: DefinitionReader = near.definitions if near is not None else DefinitionReader(store)
        same = near is not None and near.root.catalog_def == self.root.catalog_def
        self._definition: CatalogDef | None = near._definition if near is not None and same else None
        self._keys: KeyCodec | None = None
        self._namespaces: dict[NamespaceName, str | None] = {}
        for path, data in file.beside.items():
            if isinstance(data, bytes) and path != LAST_FSCK:
                self.keep(path, data)

    @property
    def version(self) -> int:
        return self.file.version

    @property
    def created_at_millis(self) -> int:
        return self.root.created_at_millis

    @property
    def in_place(self) -> bool:
        """Whether the root names the version before it, as every root does that was committed where it stands."""
        before = root_path(self.version - 1) if self.version else None
        return self.file.java or self.root.previous_root == before

    def out_of_place(self) -> Damaged:
        """For whoever would go on from a root that is not in its place."""
        reason = f"the root of version {self.version} does not name the version before it"
        return Damaged(
            "F104", self.file.path, reason, hint="see what is wrong, and mend it", command=("fsck", "--repair")
        )

    @property
    def definition(self) -> CatalogDef:
        """A copy of the catalog's own definition."""
        copy = CatalogDef()
        copy.CopyFrom(self._loaded_definition())
        return copy

    @property
    def sizes(self) -> Sizes:
        """Order and name sizes; from the root when it has them, so that a search need not wait for the definition."""
        return self.root.sizes if self.root.sizes is not None else sizes_of(self._loaded_definition())

    @property
    def keys(self) -> KeyCodec:
        if self._keys is None:
            sizes = self.sizes
            self._keys = KeyCodec.of(sizes, java=self.file.java)
        return self._keys

    def actions(self, rows: Sequence[tuple[str, str]] | None = None) -> tuple[Action, ...]:
        """What the commit of this version did; empty for versions of other programs. `rows` are those of its file,
        where they were read already."""
        if self.file.java:
            return ()
        path = self.file.path
        if rows is None:
            rows = decode_action_rows(self.file.data, path)
        return tuple([decode_action(key, value, path) for key, value in rows])

    def next_paths(self, names: Sequence[ObjectName]) -> list[str]:
        """What a reader of these objects asks for next: the catalog definition, and nodes on the way to them."""
        paths = [check_pointer(self.root.catalog_def, self.file.path)] if self._definition is None else []
        for name in names if self.root.sizes is not None else ():
            child = self._child(self.keys.encode(name))
            if child is not None and child not in paths:
                paths.append(child)
        return [path for path in paths if not (self.reader.knows(path) or self.definitions.knows(path))]

    # One object

    def find(self, name: ObjectName) -> str | None:
        """The path of the object's definition, or None."""
        if not isinstance(name, NamespaceName):
            return self._find(name)
        # a statement on a table asks for its namespace, and many of them for the same
        if name not in self._namespaces:
            self._namespaces[name] = self._find(name)
        return self._namespaces[name]

    def _find(self, name: ObjectName) -> str | None:
        try:
            key = self.keys.encode(name)
        except InvalidName:
            # too long for what the root says; the definition must agree before anyone is blamed
            _ = self.definition
            raise
        if self._definition is None:
            child = self._child(key)
            if child is not None and not self.reader.knows(child):
                node = self.read_beside_definition(child)
                # an error here is met again, and explained, by whoever reads the node
                if isinstance(node, bytes):
                    self.reader.keep(child, node)
            self._loaded_definition()
        return search(self.reader, self.root.node, key)

    def namespace(self, name: NamespaceName) -> CatalogObject[NamespaceDef]:
        found = self.get(name)
        if found is None:
            raise not_found(name, self.version)
        return cast("CatalogObject[NamespaceDef]", found)

    def table(self, name: TableName) -> CatalogObject[TableDef]:
        found = self.get(name)
        if found is None:
            raise not_found(name, self.version)
        return cast("CatalogObject[TableDef]", found)

    def view(self, name: ViewName) -> CatalogObject[ViewDef]:
        found = self.get(name)
        if found is None:
            raise not_found(name, self.version)
        return cast("CatalogObject[ViewDef]", found)

    def get(self, name: ObjectName) -> CatalogObject[ObjectDefinition] | None:
        """The object with its definition, or None."""
        path = self.find(name)
        return None if path is None else next(self.read_objects([(name, path)]))

    # Many objects

    def namespaces(self) -> Iterator[NamespaceName]:
        return cast("Iterator[NamespaceName]", self._listed(Kind.NAMESPACE))

    def tables(self, namespace: str | None = None) -> Iterator[TableName]:
        return cast("Iterator[TableName]", self._listed(Kind.TABLE, namespace))

    def views(self, namespace: str | None = None) -> Iterator[ViewName]:
        return cast("Iterator[ViewName]", self._listed(Kind.VIEW, namespace))

    def _listed(self, kind: Kind, namespace: str | None = None) -> Iterator[ObjectName]:
        """As `entries`, the names alone: of lists that are long, a node at a time."""
        if namespace is not None:
            self._check_namespace(namespace)
        return chain.from_iterable(names for names, _ in self._scanned(kind, namespace, None))

    def names_by_namespace(self, kind: Kind, namespace: str | None = None) -> Iterator[tuple[str, Sequence[str]]]:
        """As `tables` or `views`, as text: a namespace, and the names that follow each other in it."""
        if namespace is not None:
            self._check_namespace(namespace)
        found = self._nodes(kind, namespace, None)
        return chain.from_iterable(self.keys.names_by_namespace(keys, self.file.path) for keys, _ in found)

    def entries(
        self, kind: Kind, namespace: str | None = None, after: ObjectName | None = None
    ) -> Iterator[tuple[ObjectName, str]]:
        """Names and definition paths of a kind, in key order, from the one after another on;

        NamespaceNotFound when asked for a namespace that is not there.
        """
        if namespace is not None:
            self._check_namespace(namespace)
        return self.scan(kind, namespace, after)

    def scan(
        self, kind: Kind, namespace: str | None = None, after: ObjectName | None = None
    ) -> Iterator[tuple[ObjectName, str]]:
        """As `entries`, whether or not the namespace exists."""
        for names, paths in self._scanned(kind, namespace, after):
            yield from zip(names, paths, strict=True)

    def _scanned(
        self, kind: Kind, namespace: str | None, after: ObjectName | None
    ) -> Iterator[tuple[Sequence[ObjectName], Sequence[str]]]:
        for keys, values in self._nodes(kind, namespace, after):
            yield self.keys.decode_many(keys, self.file.path), values

    def _nodes(
        self, kind: Kind, namespace: str | None, after: ObjectName | None
    ) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
        """Keys and values, as many at a time as a node has of them."""
        self._loaded_definition()
        last = "" if after is None else self.keys.encode(after)
        yield from scan_nodes(self.reader, self.root.node, self.keys.prefix(kind, namespace), last)

    def _check_namespace(self, namespace: str) -> None:
        name = as_found(Kind.NAMESPACE, namespace) if self.file.java else NamespaceName(namespace)
        if self.find(name) is None:
            raise not_found(name, self.version)

    def names(self, kind: Kind, namespace: str) -> list[str]:
        """The names of a kind in a namespace, in key order; NamespaceNotFound when that is not there."""
        self._check_namespace(namespace)
        prefix, path = self.keys.prefix(kind, namespace), self.file.path
        found = scan_nodes(self.reader, self.root.node, prefix)
        return [name for keys, _ in found for name in self.keys.names(keys, prefix, path)]

    def objects(self, kind: Kind, namespace: str | None = None) -> Iterator[CatalogObject[ObjectDefinition]]:
        """The objects of a kind with their definitions, read in parallel, in key order."""
        return self.read_objects(self.entries(kind, namespace))

    def read_objects(self, entries: Iterable[tuple[ObjectName, str]]) -> Iterator[CatalogObject[ObjectDefinition]]:
        """The objects whose definitions are at these paths, in order."""
        entries = iter(entries)
        while batch := list(islice(entries, 1024)):
            for _, path in batch:
                check_pointer(path, self.file.path)
            for (name, path), data in zip(batch, self.definitions.read([path for _, path in batch]), strict=True):
                try:
                    found = read_object(name, path, data)
                except Damaged:
                    self.definitions.forget(path)
                    raise
                yield found

    def read_beside_definition(self, path: str) -> bytes | StoreError:
        """A file of this catalog, and in the same round trip the catalog definition, unless that is known already."""
        if self._definition is not None:
            return next(self.definitions.read([path]))
        definition = check_pointer(self.root.catalog_def, self.file.path)
        data, beside = self.definitions.read([definition, path])
        self._definition = self._checked_definition(definition, data)
        return beside

    def _child(self, key: str) -> str | None:
        """The node below the root on the way to a key, if there is one."""
        at, found = self.root.node.find(key)
        child = None if found or self.root.node.is_leaf else self.root.node.children[at]
        return check_pointer(child, self.file.path) if isinstance(child, str) else None

    def keep(self, path: str, data: bytes) -> None:
        """Remember a file that was read by other means."""
        version = parse_root_path(path)
        if path == self.root.catalog_def or version is not None:
            # a root after this one is no part of history yet, and another may take its place
            if version is None or version < self.version:
                self.definitions.keep(path, data)
            return
        # what is wrong with a node is told by whoever reads it
        with contextlib.suppress(Damaged):
            self.reader.keep(path, data)

    def _loaded_definition(self) -> CatalogDef:
        if self._definition is None:
            path = check_pointer(self.root.catalog_def, self.file.path)
            self._definition = self._checked_definition(path, next(self.definitions.read([path])))
        return self._definition

    def _checked_definition(self, path: str, data: bytes | StoreError) -> CatalogDef:
        if isinstance(data, PathMissing):
            raise Damaged("F307", path, f"the catalog definition of version {self.version} is missing") from None
        if isinstance(data, Exception):
            raise data
        try:
            definition = decode(CatalogDef, data, path)
            check_supported(definition, path)
        except Damaged:
            self.definitions.forget(path)
            raise
        if self.root.sizes is not None and self.root.sizes != sizes_of(definition):
            raise Damaged("F105", self.file.path, f"its sizes are not those of the catalog definition {path}")
        return definition


def read_object(name: ObjectName, path: str, data: bytes | StoreError) -> CatalogObject[ObjectDefinition]:
    """The object whose definition file holds the bytes, given what was read for it."""
    if isinstance(data, PathMissing):
        raise Damaged("F301", path, f"the definition of {name.kind.word} {name} is missing")
    if isinstance(data, Exception):
        raise data
    definition = cast(ObjectDefinition, decode(CLASSES[name.kind], data, path))
    return CatalogObject(name, path, definition)


def check_supported(definition: CatalogDef, path: str) -> None:
    """Raise Unsupported for a catalog that a newer program made."""
    if definition.major_version > MAJOR_VERSION:
        raise Unsupported(
            f"{path}: the catalog has format version {definition.major_version}; "
            f"this program knows up to {MAJOR_VERSION}"
        )
    features = {name.strip() for name in definition.properties.get(REQUIRED_FEATURES, "").split(",")} - {""}
    if unknown := features - KNOWN_FEATURES:
        names = ", ".join(sorted(unknown))
        raise Unsupported(f"{path}: the catalog needs features that this program does not know: {names!a}")
    sizes = (
        definition.namespace_name_max_size_bytes,
        definition.table_name_max_size_bytes,
        definition.view_name_max_size_bytes,
    )
    if not 3 <= definition.order <= 2**20:
        raise Damaged("F307", path, f"its order is {definition.order}, and no tree has that")
    if not all(1 <= size <= 2**16 for size in sizes):
        raise Damaged("F307", path, "its name sizes are out of range")


def expired_before(definition: CatalogDef) -> int:
    """The oldest version that counts, as the last expire committed it; 0 when there was none."""
    text = definition.properties.get(EXPIRE_OLDEST, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0


NotThere = NamespaceNotFound | TableNotFound | ViewNotFound
_NOT_FOUND: dict[Kind, type[NotThere]] = {
    Kind.NAMESPACE: NamespaceNotFound,
    Kind.TABLE: TableNotFound,
    Kind.VIEW: ViewNotFound,
}


def not_found(name: ObjectName, version: int) -> NotThere:
    word = name.kind.word
    error = _NOT_FOUND[name.kind](
        f"there is no {word} {name} in version {version}", hint=f"list the {word}s to see what there is"
    )
    error.version, error.missing = version, (name.namespace, name.name)
    return error


@contextlib.contextmanager
def namespace_for_new() -> Iterator[None]:
    """Advise to create the namespace if the one for a new table or view is missing."""
    try:
        yield
    except NamespaceNotFound as error:
        error.for_new, error.advice = True, "create it first"
        raise
