"""Copy a version for the Java SDK, as an independent catalog.

The SDK needs a version 0 to open a catalog, and roots with 64 digits. Its node files have no compression and no action
rows, and names are padded by UTF-16 units. So version 0 of the copy is empty, version 1 holds the objects, and the tree
is rebuilt. Definitions are copied unchanged. The copy shares no files with the catalog, and the catalog has no record
of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.retained import root_uri, without_protection
from olympia_cli.catalog.snapshot import Snapshot, read_object
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import Damaged, LocationNotEmpty, OutcomeUnknown, PathTaken, StorageFailed
from olympia_cli.format import definitions
from olympia_cli.format.codec import encode_java
from olympia_cli.format.definitions import sizes_of
from olympia_cli.format.keys import KeyCodec, from_utf16_units
from olympia_cli.format.node import EMPTY, Node, Root
from olympia_cli.format.paths import JAVA_WIDTH, LATEST, check_pointer, new_definition_path, new_node_path, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, Reference
from olympia_cli.ops.export.export import read_whole
from olympia_cli.ops.export.files import FileCount
from olympia_cli.ops.export.records import check_apart
from olympia_cli.ops.fsck import LocalEngine
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk import Files
from olympia_cli.storage.probe import check_exclusive_create
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.edit import bulk_load

AT_ONCE = 256
_KINDS = (Kind.NAMESPACE, Kind.TABLE, Kind.VIEW)
COPY_VERSION = 1
"""The version with the objects. Version 0 is empty, and exists because the SDK looks for it."""


@dataclass(frozen=True, slots=True)
class JavaCopy:
    """A complete copy: its source version and its size."""

    name: str
    at_version: int
    location: str
    count: FileCount
    version: int

    def describe(self) -> dict[str, Any]:
        """Return the output of `export create --for java-sdk`."""
        return {
            "name": self.name,
            "mode": "full",
            "for": "java-sdk",
            "at_version": self.at_version,
            "location": self.location,
            "root": root_uri(self.location, COPY_VERSION, JAVA_WIDTH),
            "files": self.count.files,
            "bytes": self.count.bytes,
            "expires_at": None,
            "version": self.version,
        }


def create_java_copy(
    catalog: Catalog, dest: Store, name: str, *, at: Reference | None = None, progress: Progress = SILENT
) -> JavaCopy:
    """Copy a sound version. An interrupted copy never opens as a catalog, by this order:

    1. Check the version with fsck, before the first write.
    2. Write the definitions.
    3. Write the nodes.
    4. Write root 1, and read everything back.
    5. Write the hint.
    6. Write root 0: the SDK can open the catalog.
    """
    catalog = catalog.anew()
    latest = catalog.snapshot()
    snapshot = latest if at is None else catalog.snapshot(at)
    check_apart(catalog.store.uri, dest.uri)
    for file in dest.list():
        raise LocationNotEmpty(f"{dest.uri} is not empty: it holds {file.path!a}")
    check_exclusive_create(dest)
    # a failing network is not damage
    files = Files(catalog.store, progress, patience=1)
    read_whole(catalog, latest, snapshot, files, LocalEngine())
    progress.phase("copying")
    writing = _CopyWriter(snapshot, dest, progress)
    try:
        writing.write()
    except (PathTaken, OutcomeUnknown) as error:
        raise StorageFailed(
            f"{error.message}; the copy is unfinished", hint="copy to another empty location"
        ) from error
    return JavaCopy(name, snapshot.version, dest.uri, writing.count, latest.version)


@dataclass(slots=True)
class _CopyWriter:
    snapshot: Snapshot
    dest: Store
    progress: Progress
    count: FileCount = field(default_factory=FileCount)

    def write(self) -> None:
        snapshot, now = self.snapshot, self.snapshot.created_at_millis
        definition = without_protection(snapshot.definition)
        catalog_def = new_definition_path(Kind.CATALOG, None)
        self._create({catalog_def: definitions.encode(definitions.body(definition), catalog_def)})
        keys = self._copy_definitions(definition)
        nodes: dict[str, bytes] = {}

        def keep(node: Node) -> str:
            path = new_node_path()
            nodes[path] = encode_java(_written(node), now)
            if len(nodes) == AT_ONCE:
                self._create(nodes)
                nodes.clear()
            return path

        # sorted by UTF-16 units, like the SDK's trees in memory
        top = bulk_load(((key, keys[key]) for key in sorted(keys)), definition.order, keep)
        self._create(nodes)
        first, second = (root_path(version, JAVA_WIDTH) for version in (0, COPY_VERSION))
        root = encode_java(_written(top), now, Root(EMPTY, catalog_def, now, previous_root=first))
        self._create({second: root})
        self._read_back(keys, root)
        self.dest.overwrite(LATEST, str(COPY_VERSION).encode())
        self._create({first: encode_java(EMPTY, now, Root(EMPTY, catalog_def, now))})

    def _copy_definitions(self, definition: CatalogDef) -> dict[str, str]:
        """Copy all definitions. Return the path of each by its key in UTF-16 units."""
        codec = KeyCodec.of(sizes_of(definition), java=True)
        keys: dict[str, str] = {}
        entries = (entry for kind in _KINDS for entry in self.snapshot.scan(kind))
        while batch := list(islice(entries, AT_ONCE)):
            files: dict[str, bytes] = {}
            paths = [check_pointer(path, self.snapshot.file.path) for _, path in batch]
            for (name, path), data in zip(batch, self.snapshot.definitions.read(paths), strict=True):
                read_object(name, path, data)
                keys[codec.encode(name)] = path
                assert isinstance(data, bytes)
                files[path] = data
            self._create(files)
            self.progress.advance(len(files))
        return keys

    def _create(self, files: dict[str, bytes]) -> None:
        self.dest.create_many(files)
        self.count += FileCount(len(files), sum(map(len, files.values())))

    def _read_back(self, keys: dict[str, str], root: bytes) -> None:
        """Read the copy as a catalog of the SDK. Raise Damaged unless it is complete."""
        self.progress.phase("reading it back")
        copy = Snapshot(self.dest, RootFile.of(COPY_VERSION, JAVA_WIDTH, root))
        copied_keys = {copy.keys.encode(name): path for kind in _KINDS for name, path in copy.scan(kind)}
        if copied_keys != keys:
            raise Damaged("F209", copy.file.path, "the copy read back differs from what was written", hint="copy again")
        for kind in _KINDS:
            for _ in copy.objects(kind):
                pass


def _written(node: Node) -> Node:
    """Return the node with its keys as text."""
    return Node(tuple(map(from_utf16_units, node.keys)), node.values, node.children)
