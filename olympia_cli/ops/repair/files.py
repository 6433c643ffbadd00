"""Reading what may be damaged, for a repair: nodes, roots and definitions, whole or as far as they go.

A file that is missing or does not hold what it should is a fact to be reported. A store that fails is not: a repair
that took a failing network for damage would throw away what is there, so the store's own errors pass through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from olympia_cli.errors import Damaged, OlympiaError, PathMissing, PathOutside, StorageFailed, StoreError, Unsupported
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.definitions import CLASSES, Definition, Digest, check_digest, decode
from olympia_cli.format.keys import CATALOG_DEF
from olympia_cli.format.node import Node, Root, Sizes
from olympia_cli.format.node_file import CREATED_AT_MILLIS, PREVIOUS_ROOT, decode_action_rows, decode_node, decode_root
from olympia_cli.format.paths import check_pointer, root_path
from olympia_cli.format.salvage import salvage
from olympia_cli.names import Kind
from olympia_cli.ops.look.dump_node import dump_node
from olympia_cli.ops.look.node_target import NodeBytes
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.storage.protocol import Store

AT_ONCE = 1024
KEEP = 50_000
"""Nodes that are kept in memory; more than a million objects have in a tree of the usual order."""


Place = tuple[str, str | None, str | None, str, str | None]
"""A node, the keys that its own lie between, and the range that is looked for in it, from its start up to its end."""


@dataclass(frozen=True, slots=True)
class ReadNode:
    """A node file. `node` is None when it is not whole; then `rows` and `children` are what can be read of it."""

    path: str
    node: Node | None
    reason: str = ""
    rows: tuple[tuple[str, str | None], ...] = ()
    children: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ReadRoot:
    """A root. `root` is None when it is not whole; then `top` is what can be read of its node.

    `actions` is None when what the version did cannot be read, and empty for a version of another program.
    """

    version: int
    root: Root | None
    top: ReadNode
    catalog_def: str | None = None
    created_at_millis: int = 0
    previous_root: str | None = None
    sizes: Sizes | None = None
    actions: tuple[Action, ...] | None = None

    @property
    def path(self) -> str:
        return root_path(self.version)


class Files:
    """The files of one catalog. What was read once is remembered: sound nodes up to a bound, bad files always.

    `tolerant` takes a file that the store fails to give, time after time, for one that cannot be read.
    """

    def __init__(self, store: Store, *, tolerant: bool = False, progress: Progress = SILENT) -> None:
        self.store = store
        self.tolerant = tolerant
        self.progress = progress
        self.sizes: Sizes | None = None
        self.bad: dict[str, str] = {}
        """Files that are not whole, and why."""
        self.failed: set[Place] = set()
        """Where a range of keys was looked for and could not be read."""
        self.unverified: set[str] = set()
        """Definitions without a digest: another program's, or cut where a field ends."""
        self._nodes: dict[str, ReadNode] = {}
        self._roots: dict[int, ReadRoot] = {}
        self._definitions: dict[str, str] = {}

    # Bytes

    def bytes_of(self, path: str, found: bytes | StoreError) -> bytes | str:
        """The bytes, or why there are none."""
        if isinstance(found, bytes):
            return found
        if isinstance(found, PathMissing):
            return "it is missing"
        if isinstance(found, PathOutside):
            return found.message
        if isinstance(found, StorageFailed) and self.tolerant:
            try:
                return self.store.read(path)
            except PathMissing:
                return "it is missing"
            except (StorageFailed, PathOutside) as error:
                return error.message
        raise found

    def read_all(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | str]]:
        """The files in order, each with its bytes or why there are none."""
        for path, found in self.store.read_many(paths):
            self.progress.advance()
            yield path, self.bytes_of(path, found)

    # Nodes

    def nodes(self, paths: Sequence[str]) -> list[ReadNode]:
        """The nodes in order, read in parallel where they are not remembered."""
        known: dict[str, ReadNode] = {}
        wanted: list[str] = []
        for path in dict.fromkeys(paths):
            if path in self._nodes:
                known[path] = self._nodes[path]
            elif reason := outside(path):
                known[path] = ReadNode(path, None, reason)
            else:
                wanted.append(path)
        for path, data in self.read_all(wanted):
            read = ReadNode(path, None, data) if isinstance(data, str) else self._decode(path, data)
            if read.node is None:
                self.bad[path] = read.reason
            if read.node is None or len(self._nodes) < KEEP:
                self._nodes[path] = read
            known[path] = read
        return [known[path] for path in paths]

    def _decode(self, path: str, data: bytes) -> ReadNode:
        try:
            return ReadNode(path, decode_node(data, path).node)
        except Damaged as error:
            return lenient(path, data, error.reason, self.sizes)

    # Roots

    def root(self, version: int) -> ReadRoot:
        """The root of a version, as far as it can be read."""
        found = self._roots.get(version)
        if found is None:
            [(path, data)] = self.read_all([root_path(version)])
            found = self._decode_root(version, path, data)
            if len(self._roots) >= AT_ONCE:
                self._roots.pop(next(iter(self._roots)))
            self._roots[version] = found
        return found

    def _decode_root(self, version: int, path: str, data: bytes | str) -> ReadRoot:
        if isinstance(data, str):
            self.bad[path] = data
            return ReadRoot(version, None, ReadNode(path, None, data))
        actions = _actions(path, data)
        try:
            root = decode_root(data, path)
        except Damaged as error:
            self.bad[path] = error.reason
            dump = dump_node(NodeBytes(path, data, False), self.sizes)
            created = dump.system.get(CREATED_AT_MILLIS, "")
            return ReadRoot(
                version,
                None,
                lenient(path, data, error.reason, self.sizes),
                catalog_def=dump.system.get(CATALOG_DEF),
                created_at_millis=int(created) if created.isascii() and created.isdigit() and len(created) < 16 else 0,
                previous_root=dump.system.get(PREVIOUS_ROOT),
                sizes=salvage(data).sizes,
                actions=actions,
            )
        return ReadRoot(
            version,
            root,
            ReadNode(path, root.node),
            root.catalog_def,
            root.created_at_millis,
            root.previous_root,
            root.sizes,
            actions,
        )

    # Definitions

    def definition(self, kind: Kind, path: str) -> Definition | str:
        """The definition at a path, or why it cannot be read."""
        if reason := outside(path):
            return reason
        [(_, data)] = self.read_all([path])
        return self.parse(kind, path, data)

    def ids(self, wanted: Iterable[tuple[Kind, str]]) -> Iterator[tuple[str, str, str]]:
        """For each definition: its path, its id, and why it cannot be read; one of the two is empty."""
        wanted = iter(wanted)
        while batch := list(islice(wanted, 8 * AT_ONCE)):
            missing: dict[str, Kind] = {}
            for kind, path in batch:
                if path not in self._definitions and path not in self.bad and path not in missing:
                    if reason := outside(path):
                        self.bad[path] = reason
                    else:
                        missing[path] = kind
            for path, data in self.read_all(missing):
                found = self.parse(missing[path], path, data)
                if not isinstance(found, str):
                    self._definitions[path] = found.id
            for _, path in batch:
                yield path, self._definitions.get(path, ""), self.bad.get(path, "")

    def id_of(self, path: str) -> str:
        """The id in a definition that was read before."""
        return self._definitions.get(path, "")

    def parse(self, kind: Kind, path: str, data: bytes | str) -> Definition | str:
        """A definition that was read by other means, or why it is none."""
        reason = data if isinstance(data, str) else ""
        if isinstance(data, bytes):
            try:
                found = decode(CLASSES[kind], data, path)
                if check_digest(found, data, path) is Digest.ABSENT:
                    self.unverified.add(path)
                return found
            except Damaged as error:
                reason = error.reason
        self.bad[path] = reason
        return reason


def outside(path: str) -> str:
    """Why a pointer must not be followed; nothing when it may."""
    try:
        check_pointer(path, path)
    except Damaged:
        return "it lies outside the catalog"
    return ""


def lenient(path: str, data: bytes, reason: str, sizes: Sizes | None) -> ReadNode:
    """What can be read of a node that is not whole."""
    dump = dump_node(NodeBytes(path, data, False), sizes)
    rows = tuple((row.key, row.value) for row in dump.pivot if row.key is not None)
    return ReadNode(path, None, reason, rows, tuple(row.pnode for row in dump.pivot if row.pnode is not None))


def _actions(path: str, data: bytes) -> tuple[Action, ...] | None:
    """What a version did. Its rows have a digest of their own, so they are often whole where its tree is not."""
    try:
        return tuple(decode_action(key, value, path) for key, value in decode_action_rows(data, path))
    except Unsupported:
        raise
    except Damaged:
        pass
    dump, rows = dump_node(NodeBytes(path, data, False)), salvage(data).rows
    if dump.actions_digest != "verified" or not dump.actions:
        return None
    try:
        return tuple(
            decode_action(key, value, path)
            for key, value, _ in rows[len(rows) - len(dump.actions) :]
            if isinstance(key, str) and isinstance(value, str)
        )
    except OlympiaError:
        return None
