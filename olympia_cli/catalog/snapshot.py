"""A read-only view of one version. It never changes, whatever is committed later."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Generic, TypeVar, cast

from olympia_cli.catalog.properties import EXPIRE_OLDEST, REQUIRED_FEATURES
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
from olympia_cli.format.codec import decode_action_rows, decode_root
from olympia_cli.format.definitions import CLASSES, decode, sizes_of
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Root, Sizes
from olympia_cli.format.paths import JAVA_WIDTH, LAST_FSCK, check_pointer, parse_root_path, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef, NamespaceDef, TableDef, ViewDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName, as_found
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.load import NodeReader
from olympia_cli.tree.search import scan_nodes, search

if TYPE_CHECKING:
    from olympia_cli.format.actions import Action

# Read definition files, with a cache.


class DefinitionReader:
    """The bytes of files by path, with a cache of small files. Files never change."""

    KEEP = 20_000
    SMALL = 4096

    def __init__(self, store: Store) -> None:
        self._store = store
        self._kept: dict[str, bytes] = {}
        self._lock = threading.Lock()

    def read_one(self, path: str) -> bytes | StoreError:
        """Return one file, or the error of reading it."""
        data: bytes | StoreError | None = self._kept.get(path)
        if data is None:
            [(_, data)] = self._store.read_many([path])
            if isinstance(data, bytes):
                self.remember(path, data)
        return data

    def read(self, paths: Sequence[str]) -> Iterator[bytes | StoreError]:
        """Yield the files in order. Files that are not cached are read in parallel."""
        found = {path: self._kept.get(path) for path in paths}
        missing = [path for path, data in found.items() if data is None]
        read = iter(self._store.read_many(missing) if missing else ())
        results: dict[str, bytes | StoreError] = {path: data for path, data in found.items() if data is not None}
        for path in paths:
            while path not in results:
                arrived, data = next(read)
                results[arrived] = data
                if isinstance(data, bytes):
                    self.remember(arrived, data)
            yield results[path]

    def remember(self, path: str, data: bytes) -> None:
        """Cache a file that was just read or written, if it is small."""
        if len(data) <= self.SMALL:
            self.keep(path, data)

    def knows(self, path: str) -> bool:
        """Return True if the file is cached."""
        return path in self._kept

    def forget(self, path: str) -> None:
        """Remove a damaged file from the cache, because it may be repaired."""
        with self._lock:
            self._kept.pop(path, None)

    def keep(self, path: str, data: bytes) -> None:
        """Cache a file that was read elsewhere."""
        with self._lock:
            while len(self._kept) >= self.KEEP:
                self._kept.pop(next(iter(self._kept)))
            self._kept[path] = data


MAJOR_VERSION = 0
"""The newest major version of the format that this program supports."""

KNOWN_FEATURES: frozenset[str] = frozenset()

ObjectDefinition = NamespaceDef | TableDef | ViewDef
D = TypeVar("D", bound=ObjectDefinition, covariant=True)


@dataclass(frozen=True, slots=True)
class CatalogObject(Generic[D]):
    """An object in a version: its name, the path of its definition, and the definition."""

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
    """A read-only view of one version of a catalog."""

    def __init__(self, store: Store, file: RootFile, near: Snapshot | None = None, root: Root | None = None) -> None:
        """Decode the root. `near` is another version of the same catalog, whose caches are shared. `root` is the
        decoded root, if known.
        """
        if file.damage is not None:
            raise file.damage
        self.store = store
        self.version = file.version
        self.java = file.width == JAVA_WIDTH
        if root is None and near is not None and near.file.data == file.data:
            root = near.root
        self.root: Root = decode_root(file.data, file.path, self.java) if root is None else root
        self.created_at_millis = self.root.created_at_millis
        before = root_path(self.version - 1) if self.version else None
        self.in_place = self.java or self.root.previous_root == before
        """True if the root names the version before it, as every committed root does."""
        if near is not None and near.root.sizes != self.root.sizes:
            # another catalog now exists at the same location
            near = None
        self.reader: NodeReader = (
            near.reader if near is not None else NodeReader(store, java=self.java, sizes=self.root.sizes)
        )
        self.definitions: DefinitionReader = near.definitions if near is not None else DefinitionReader(store)
        same = near is not None and near.root.catalog_def == self.root.catalog_def
        self._definition: CatalogDef | None = near._definition if near is not None and same else None
        self._keys: KeyCodec | None = None
        self._namespaces: dict[NamespaceName, str | None] = {}
        self.take(file)

    def take(self, file: RootFile) -> None:
        """Take the file of the same root, and cache the files that were read beside it."""
        self.file = file
        self.hint = file.hints.latest if file.hints is not None else None
        """The version in `vn/latest`, if this version was found by it."""
        for path, data in file.beside.items():
            if isinstance(data, bytes) and path != LAST_FSCK:
                self.keep(path, data)

    def out_of_place(self) -> Damaged:
        """Return the error for a root that is not part of the history."""
        reason = f"the root of version {self.version} does not name the version before it"
        return Damaged(
            "F104", self.file.path, reason, hint="list the damage and repair it", command=("fsck", "--repair")
        )

    @property
    def definition(self) -> CatalogDef:
        """A copy of the catalog's own definition."""
        copy = CatalogDef()
        copy.CopyFrom(self._loaded_definition())
        return copy

    @property
    def sizes(self) -> Sizes:
        """Order and name sizes. They come from the root if it has them, so that a search need not wait for the
        definition.
        """
        return self.root.sizes if self.root.sizes is not None else sizes_of(self._loaded_definition())

    # not cached_property: in Python 3.11 all instances share its lock, also while one of them waits for a store

    @property
    def keys(self) -> KeyCodec:
        if self._keys is None:
            self._keys = KeyCodec.of(self.sizes, java=self.java)
        return self._keys

    def actions(self, rows: Sequence[tuple[str, str]] | None = None) -> tuple[Action, ...]:
        """Return the actions of this version's commit, or nothing for versions of other programs.

        `rows` are the action rows of its file, if already read.
        """
        if self.java:
            return ()
        from olympia_cli.format.actions import decode_action

        path = self.file.path
        if rows is None:
            rows = decode_action_rows(self.file.data, path)
        return tuple([decode_action(key, value, path) for key, value in rows])

    def next_paths(self, names: Sequence[ObjectName]) -> list[str]:
        """Return the files that a reader of these objects needs next: the catalog's definition, and nodes on the
        way.
        """
        paths = []
        if self._definition is None and not self.definitions.knows(self._definition_path):
            paths.append(self._definition_path)
        for name in names if self.root.sizes is not None and self.root.node.children else ():
            child = self._child(self.keys.encode(name))
            if child is not None and child not in paths and not self._knows(child):
                paths.append(child)
        return paths

    def _knows(self, node: str) -> bool:
        """Return True if a node is cached, decoded or as bytes."""
        return self.definitions.knows(node) or self.reader.knows(node)

    # One object

    def find(self, name: ObjectName) -> str | None:
        """Return the path of the object's definition, or None."""
        if not isinstance(name, NamespaceName):
            return self._find(name)
        # cached, because each operation on a table looks up its namespace
        if name not in self._namespaces:
            self._namespaces[name] = self._find(name)
        return self._namespaces[name]

    def _find(self, name: ObjectName) -> str | None:
        try:
            key = self.keys.encode(name)
        except InvalidName:
            # too long according to the root; check first that the definition agrees
            _ = self.definition
            raise
        if self._definition is None:
            child = self._child(key) if self.root.node.children else None
            if child is not None and not self.reader.knows(child):
                node = self.read_beside_definition(child)
                # reading the node raises the error again
                if isinstance(node, bytes):
                    self.reader.keep(child, node)
            self._loaded_definition()
        return search(self.reader, self.root.node, key)

    def namespace(self, name: NamespaceName) -> CatalogObject[NamespaceDef]:
        return cast("CatalogObject[NamespaceDef]", self._existing(name))

    def table(self, name: TableName) -> CatalogObject[TableDef]:
        return cast("CatalogObject[TableDef]", self._existing(name))

    def view(self, name: ViewName) -> CatalogObject[ViewDef]:
        return cast("CatalogObject[ViewDef]", self._existing(name))

    def _existing(self, name: ObjectName) -> CatalogObject[ObjectDefinition]:
        found = self.get(name)
        if found is None:
            raise not_found(name, self.version)
        return found

    def get(self, name: ObjectName) -> CatalogObject[ObjectDefinition] | None:
        """Return the object with its definition, or None."""
        path = self.find(name)
        if path is None:
            return None
        return self._object(name, path, self.definitions.read_one(check_pointer(path, self.file.path)))

    # Many objects

    def namespaces(self) -> Iterator[NamespaceName]:
        return cast("Iterator[NamespaceName]", self._listed(Kind.NAMESPACE))

    def tables(self, namespace: str | None = None) -> Iterator[TableName]:
        return cast("Iterator[TableName]", self._listed(Kind.TABLE, namespace))

    def views(self, namespace: str | None = None) -> Iterator[ViewName]:
        return cast("Iterator[ViewName]", self._listed(Kind.VIEW, namespace))

    def _listed(self, kind: Kind, namespace: str | None = None) -> Iterator[ObjectName]:
        """Like `entries`, for names only. Long lists are decoded one node at a time."""
        if namespace is not None:
            self._check_namespace(namespace)
        return chain.from_iterable(names for names, _ in self._scanned(kind, namespace, None))

    def names_by_namespace(self, kind: Kind, namespace: str | None = None) -> Iterator[tuple[str, Sequence[str]]]:
        """Like `tables` or `views`, but yield each namespace with the names in it as text."""
        if namespace is not None:
            self._check_namespace(namespace)
        found = self._nodes(kind, namespace, None)
        return chain.from_iterable(self.keys.names_by_namespace(keys, self.file.path) for keys, _ in found)

    def entries(
        self, kind: Kind, namespace: str | None = None, after: ObjectName | None = None
    ) -> Iterator[tuple[ObjectName, str]]:
        """Yield names and definition paths of a kind in key order, starting after `after`.

        Raise NamespaceNotFound if the given namespace does not exist.
        """
        if namespace is not None:
            self._check_namespace(namespace)
        return self.scan(kind, namespace, after)

    def scan(
        self, kind: Kind, namespace: str | None = None, after: ObjectName | None = None
    ) -> Iterator[tuple[ObjectName, str]]:
        """Like `entries`, without the check that the namespace exists."""
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
        """Yield keys and values, one node at a time."""
        self._loaded_definition()
        last = "" if after is None else self.keys.encode(after)
        yield from scan_nodes(self.reader, self.root.node, self.keys.prefix(kind, namespace), last)

    def _check_namespace(self, namespace: str) -> None:
        name = as_found(Kind.NAMESPACE, namespace) if self.java else NamespaceName(namespace)
        if self.find(name) is None:
            raise not_found(name, self.version)

    def names(self, kind: Kind, namespace: str) -> list[str]:
        """Return the names of a kind in a namespace, in key order. Raise NamespaceNotFound if it does not exist."""
        self._check_namespace(namespace)
        prefix, path = self.keys.prefix(kind, namespace), self.file.path
        found = scan_nodes(self.reader, self.root.node, prefix)
        return [name for keys, _ in found for name in self.keys.names(keys, prefix, path)]

    def objects(self, kind: Kind, namespace: str | None = None) -> Iterator[CatalogObject[ObjectDefinition]]:
        """Yield the objects of a kind in key order. Definitions are read in parallel."""
        return self.read_objects(self.entries(kind, namespace))

    def read_objects(self, entries: Iterable[tuple[ObjectName, str]]) -> Iterator[CatalogObject[ObjectDefinition]]:
        """Yield the objects with the definitions at these paths, in order."""
        entries = iter(entries)
        while batch := list(islice(entries, 1024)):
            for _, path in batch:
                check_pointer(path, self.file.path)
            for (name, path), data in zip(batch, self.definitions.read([path for _, path in batch]), strict=True):
                yield self._object(name, path, data)

    def _object(self, name: ObjectName, path: str, data: bytes | StoreError) -> CatalogObject[ObjectDefinition]:
        try:
            return read_object(name, path, data)
        except Damaged:
            self.definitions.forget(path)
            raise

    def read_beside_definition(self, path: str) -> bytes | StoreError:
        """Read a file, and the catalog's definition in the same round trip, unless it is known."""
        if self._definition is not None:
            return self.definitions.read_one(path)
        data, beside = self.definitions.read([self._definition_path, path])
        self._definition = self._checked_definition(self._definition_path, data)
        return beside

    def _child(self, key: str) -> str | None:
        """Return the child of the root on the way to a key, if there is one."""
        at, found = self.root.node.find(key)
        child = None if found or not self.root.node.children else self.root.node.children[at]
        return check_pointer(child, self.file.path) if isinstance(child, str) else None

    def keep(self, path: str, data: bytes) -> None:
        """Cache a file that was read elsewhere."""
        if path == self.root.catalog_def:
            self.definitions.keep(path, data)
            return
        if (version := parse_root_path(path)) is not None:
            # do not cache later roots: they are not part of the history yet, and may be replaced
            if version < self.version:
                self.definitions.keep(path, data)
            return
        # reading the node raises the error
        with contextlib.suppress(Damaged):
            self.reader.keep(path, data)

    def _loaded_definition(self) -> CatalogDef:
        if self._definition is None:
            path = self._definition_path
            self._definition = self._checked_definition(path, self.definitions.read_one(path))
        return self._definition

    @property
    def _definition_path(self) -> str:
        return check_pointer(self.root.catalog_def, self.file.path)

    def _checked_definition(self, path: str, data: bytes | StoreError) -> CatalogDef:
        if isinstance(data, PathMissing):
            raise Damaged("F307", path, f"the catalog definition of version {self.version} is missing") from None
        if isinstance(data, Exception):
            raise data
        try:
            definition = decode(CatalogDef, data, path)
            sizes = sizes_of(definition)
            check_supported(definition, path)
        except Damaged:
            self.definitions.forget(path)
            raise
        if self.root.sizes is not None and self.root.sizes != sizes:
            raise Damaged("F105", self.file.path, f"its sizes are not those of the catalog definition {path}")
        return definition


def read_object(name: ObjectName, path: str, data: bytes | StoreError) -> CatalogObject[ObjectDefinition]:
    """Return the object, given the content of its definition file or the error of reading it."""
    if isinstance(data, PathMissing):
        raise Damaged("F301", path, f"the definition of {name.kind.word} {name} is missing")
    if isinstance(data, Exception):
        raise data
    definition = cast(ObjectDefinition, decode(CLASSES[name.kind], data, path))
    return CatalogObject(name, path, definition)


def check_supported(definition: CatalogDef, path: str) -> None:
    """Raise Unsupported for a catalog of a newer program."""
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
        raise Damaged("F307", path, f"its order {definition.order} is out of range")
    if not all(1 <= size <= 2**16 for size in sizes):
        raise Damaged("F307", path, "its name sizes are out of range")


def expired_before(definition: CatalogDef) -> int:
    """Return the oldest version of the history according to the last expire, or 0 if there was none."""
    return marked_oldest(definition) or 0


def marked_oldest(definition: CatalogDef) -> int | None:
    """Return the oldest version of the history according to the last expire, or None if there was none."""
    text = definition.properties.get(EXPIRE_OLDEST)
    if text is None:
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 10 else 0


def stated_oldest(definition: CatalogDef, hint: Callable[[], int | None]) -> int:
    """Return the oldest version according to the catalog's definition or, before the first expire, `vn/oldest`. Only
    then is the hint read.
    """
    marked = marked_oldest(definition)
    return (hint() or 0) if marked is None else marked


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
