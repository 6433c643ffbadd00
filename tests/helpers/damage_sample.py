"""A catalog worth damaging: several versions, a rollback, three levels, transactions, an export that shares files.

Its bytes are the same in every run, so that what a seed does to it can be done again.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from hashlib import sha256
from typing import Any
from unittest import mock

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.codec import decode_action_rows, decode_node, decode_root
from olympia_cli.format.definitions import CLASSES
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node, Root
from olympia_cli.format.paths import parse_root_path, root_path, transaction_save_path
from olympia_cli.format.pb.actions_pb2 import ActionType, AlterDef, ExpireDef, ExportDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef, DistributedTransactionDef, Integrity, NamespaceDef
from olympia_cli.names import ObjectName, new_uuid
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from tests.helpers.check import plain
from tests.helpers.clock import HOUR, START, FakeClock
from tests.helpers.names import location, ns, select, table, view

ORDER = 4
LATEST_VERSION = 12
EXPORTED = 4
FAR = 4_102_444_800_000
"""The year 2100: transactions of the sample live until then, whatever clock looks at them."""

BY = "maker@test"


@dataclass(frozen=True)
class Content:
    """The content of a version: its objects, its definition, its actions and its place in history."""

    catalog: dict[str, Any]
    objects: dict[ObjectName, dict[str, Any]]
    actions: tuple[tuple[int, ObjectName | None, bytes, bytes], ...]
    previous_root: str | None
    rollback_from_root: str | None
    created_at_millis: int


@dataclass
class Tree:
    """A version or a running root as its files hold it: the nodes, and the way to each."""

    path: str
    root: Root
    nodes: dict[str, Node] = field(default_factory=dict)
    parents: dict[str, str] = field(default_factory=dict)
    levels: dict[str, int] = field(default_factory=dict)
    entries: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Key to the path of its definition, and the node that holds it."""

    @property
    def files(self) -> set[str]:
        return {self.path, self.root.catalog_def, *self.nodes, *(value for value, _ in self.entries.values())}

    @property
    def leaves(self) -> list[str]:
        return [path for path, node in self.nodes.items() if node.is_leaf]

    @property
    def inner(self) -> list[str]:
        return [path for path, node in self.nodes.items() if not node.is_leaf]

    def below(self, path: str) -> set[str]:
        """The keys in a node and all that is below it."""

        def inside(holder: str) -> bool:
            while holder != path and holder in self.parents:
                holder = self.parents[holder]
            return holder == path

        return {key for key, (_, holder) in self.entries.items() if inside(holder)}


@dataclass(frozen=True, eq=False)
class Sample:
    """The files of a sound catalog and what is where in it."""

    files: dict[str, bytes]
    open_transaction: str
    pin: str
    manifest: str = ""
    oldest: int = 0
    latest: int = LATEST_VERSION

    def store(self) -> MemoryStore:
        """A copy of its own, in memory."""
        return MemoryStore("sample", {path: (data, START) for path, data in self.files.items()})

    @property
    def keys(self) -> KeyCodec:
        return KeyCodec(16, 16, 16)

    @property
    def versions(self) -> list[int]:
        return list(range(self.oldest, self.latest + 1))

    def tree(self, version: int | str | None = None) -> Tree:
        """The tree of a version (the latest), or of a running root or pin by its path."""
        if version is None:
            version = self.latest
        return _sound_tree(self, root_path(version) if isinstance(version, int) else version)

    def trees(self) -> dict[int, Tree]:
        return {version: self.tree(version) for version in self.versions}

    def hit(self, path: str) -> set[int]:
        """The versions that reach a file."""
        return {version for version, tree in self.trees().items() if path in tree.files}

    def name(self, key: str) -> ObjectName:
        return self.keys.decode(key, "")

    def defined_by(self, path: str) -> set[ObjectName]:
        """The objects whose definition is in the file, in whatever version."""
        return {
            self.name(key)
            for tree in self.trees().values()
            for key, (value, _) in tree.entries.items()
            if value == path
        }

    @property
    def save(self) -> str:
        """The last save of the open transaction."""
        saves = [path for path in self.files if path.startswith(f"dtxn/{self.open_transaction}.")]
        return max(path for path in saves if path.count(".") == 2)

    @property
    def running(self) -> str:
        """The running root of the open transaction."""
        definition = DistributedTransactionDef.FromString(self.files[self.save])
        return definition.running_root_node_file_path


@cache
def _sound_tree(sample: Sample, path: str) -> Tree:
    return read_tree(sample.store(), path)


def read_tree(store: Store, path: str) -> Tree:
    """All nodes below a root, by a walk of its own."""
    root = decode_root(store.read(path), path)
    tree = Tree(path, root)
    waiting: list[tuple[str, Node, int]] = [(path, root.node, 0)]
    for holder, node, level in waiting:
        for key, value in zip(node.keys, node.values, strict=True):
            if value is not None:
                tree.entries[key] = (value, holder)
        for child in node.children:
            assert isinstance(child, str)
            if child in tree.nodes or child == path:
                raise ValueError(f"{child} is reached twice")
            tree.nodes[child] = decode_node(store.read(child), child).node
            tree.parents[child], tree.levels[child] = holder, level + 1
            waiting.append((child, tree.nodes[child], level + 1))
    return tree


def read_content(store: Store, version: int) -> Content:
    """Read the content of a version without comparing checksums. Any exception means that it cannot be read."""
    path = root_path(version)
    tree = read_tree(store, path)
    catalog = CatalogDef.FromString(store.read(tree.root.catalog_def))
    sizes = (
        catalog.namespace_name_max_size_bytes,
        catalog.table_name_max_size_bytes,
        catalog.view_name_max_size_bytes,
    )
    keys = KeyCodec(*sizes)
    objects = {}
    for key, (value, _) in tree.entries.items():
        name = keys.decode(key, path)
        objects[name] = plain(CLASSES[name.kind].FromString(store.read(value)))
    rows = decode_action_rows(store.read(path), path)
    actions = [decode_action(key, value, path) for key, value in rows]
    return Content(
        catalog=plain(catalog),
        objects=objects,
        actions=tuple((int(action.type), action.name, action.definition, action.payload) for action in actions),
        previous_root=tree.root.previous_root,
        rollback_from_root=tree.root.rollback_from_root,
        created_at_millis=tree.root.created_at_millis,
    )


def make_sample(*, expired: bool = False, seed: int = 1, older: int | None = None) -> Sample:
    """Versions 0 to 12. With `expired`, version 13 marks 6 as the oldest, and what only older ones reach is listed.
    With `older`, definitions are those of an older program, named by UUIDs of that version."""
    with seeded_uuids(seed), contextlib.nullcontext() if older is None else older_definitions(older):
        return _make(expired)


def _make(expired: bool) -> Sample:
    clock = FakeClock()
    store = MemoryStore("sample", now_millis=clock.now_millis)
    catalog = Catalog.create(
        store,
        order=ORDER,
        namespace_name_max_bytes=16,
        table_name_max_bytes=16,
        view_name_max_bytes=16,
        author=Author(by=BY, program="test", program_version="0"),
        clock=clock,
    )

    @contextlib.contextmanager
    def commit(message: str) -> Iterator[Any]:
        clock.advance(HOUR)
        transaction = catalog.begin()
        yield transaction
        catalog.commit(transaction, message, by=BY)

    with commit("namespaces") as t:
        for name in "abcde":
            t.create_namespace(ns(name), {"owner": name})
    with commit("tables of a") as t:
        for number in range(12):
            t.create_table(table(f"a.t{number:02}"), location(number))
    with commit("tables of b, views") as t:
        for number in range(8):
            t.create_table(table(f"b.t{number:02}"), location(number), {"tier": "gold"})
        for number in range(4):
            t.create_view(view(f"a.v{number}"), select(f"select {number}"))
    with commit("alter") as t:
        t.alter_table(table("b.t03"), {"tier": "silver"}, (), location(99))
    with commit("drop") as t:
        t.drop_table(table("a.t05"))
        t.drop_namespace(ns("e"))
    with commit("back to 4") as t:
        t.roll_back(4)
    with commit("rename") as t:
        t.rename_table(table("a.t07"), table("c.moved"))
    clock.advance(HOUR)
    finished = distributed.begin(catalog)
    finished.transaction.create_table(table("d.first"), location(1))
    finished.commit("distributed", by=BY)  # version 8
    given_up = distributed.begin(catalog)
    given_up.abort()
    pin = f"node/{new_uuid()}.arrow"
    store.create(pin, store.read(root_path(EXPORTED)))
    with commit("export") as t:
        t.do(_export(pin))
    with commit("catalog") as t:
        t.alter_catalog({"team": "data"})
    with commit("more") as t:
        t.create_table(table("d.second"), location(2))
        t.create_view(view("d.v"), select())
    with commit("properties") as t:
        t.alter_namespace(ns("a"), {"owner": "z"})
    clock.advance(HOUR)
    going = distributed.begin(catalog)
    going.transaction.create_namespace(ns("staged"))
    going.transaction.create_table(table("staged.x"), location(7))
    going.save()
    _prolong(store)
    manifest = ""
    if expired:
        clock.advance(HOUR)
        manifest = _mark(catalog, store, pin, clock)
    return Sample(
        files={file.path: store.read(file.path) for file in store.list()},
        open_transaction=going.id,
        pin=pin,
        manifest=manifest,
        oldest=6 if expired else 0,
        latest=LATEST_VERSION + expired,
    )


def _export(pin: str) -> Action:
    payload = ExportDef(
        name="friday",
        location="file:///exports/friday",
        mode="minimal",
        version=EXPORTED,
        expires_at_millis=FAR,
        pin=pin,
    )
    return Action(ActionType.CATALOG_EXPORT, None, b"", payload.SerializeToString())


def _prolong(store: MemoryStore) -> None:
    """Let every open transaction live for long: its bytes must not depend on today."""
    for file in list(store.list("dtxn/")):
        found = DistributedTransactionDef.FromString(store.read(file.path))
        found.expire_at_millis = FAR
        store.overwrite(file.path, definitions.encode(definitions.body(found), file.path))


def _mark(catalog: Catalog, store: MemoryStore, pin: str, clock: FakeClock) -> str:
    """Commit version 6 as the oldest, with the manifest of what would go."""
    kept: set[str] = read_tree(store, pin).files
    for version in range(6, LATEST_VERSION + 1):
        kept |= read_tree(store, root_path(version)).files
    gone: dict[str, str] = {}
    for version in range(6):
        tree = read_tree(store, root_path(version))
        for path in tree.files - kept:
            kind = "root" if parse_root_path(path) is not None else "node" if path in tree.nodes else "definition"
            gone[path] = kind
    manifest = f"ops/expire/{clock.now_millis()}-{new_uuid()}.json"
    document = {
        "format": 1,
        "catalog": catalog.snapshot().definition.id,
        "oldest": 6,
        "former_oldest": 0,
        "created_at": clock.now_millis(),
        "files": [{"path": path, "bytes": store.stat(path).size, "kind": gone[path]} for path in sorted(gone)],
    }
    store.create(manifest, json.dumps(document).encode())
    transaction = catalog.begin()
    payload = ExpireDef(oldest=6, former_oldest=0, manifest=manifest)
    transaction.do(Action(ActionType.CATALOG_EXPIRE_MARK, None, b"", payload.SerializeToString()))
    definition = transaction.draft.catalog
    record = [{"version": LATEST_VERSION + 1, "oldest": 6, "former_oldest": 0, "manifest": manifest}]
    definition.properties["olympia.expire.quarantine"] = json.dumps(record)
    change = AlterDef(set_properties=["olympia.expire.quarantine"])
    transaction.do(Action(ActionType.CATALOG_ALTER, None, definitions.body(definition), change.SerializeToString()))
    catalog.commit(transaction, "expire", by=BY)
    store.overwrite("vn/oldest", b"6")
    return manifest


def save_path(sample: Sample, number: int) -> str:
    return transaction_save_path(sample.open_transaction, number)


@contextlib.contextmanager
def older_definitions(version: int = 4) -> Iterator[None]:
    """Definitions are written as an older program did: their digest is the last field. Their names are UUIDs of
    version 4, as the oldest had them, or of version 8."""

    def versioned_uuid() -> str:
        id = new_uuid()
        return f"{id[:14]}{version}{id[15:]}"

    with (
        mock.patch("olympia_cli.format.definitions.encode", digest_last),
        mock.patch("olympia_cli.format.paths.new_uuid", versioned_uuid),
    ):
        yield


def digest_last(content: bytes, path: str) -> bytes:
    """The file of an older program for a definition's body."""
    integrity = Integrity(file=path.rpartition("/")[2], sha256=sha256(content).digest())
    return content + NamespaceDef(integrity=integrity).SerializeToString()


@contextlib.contextmanager
def seeded_uuids(seed: int) -> Iterator[None]:
    """The same random names in every run."""
    with mock.patch("olympia_cli.names.urandom", random.Random(seed).randbytes):
        yield
