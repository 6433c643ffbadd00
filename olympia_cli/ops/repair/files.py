"""Reading what may be damaged, for a repair: nodes, roots and definitions, whole or as far as they go.

A file that is missing or does not hold what it should is a fact to be reported. A store that fails is not: a repair
that took a failing network for damage would throw away what is there, so the store's own errors pass through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import NamedTuple

from olympia_cli.catalog.snapshot import check_supported
from olympia_cli.errors import Damaged, OlympiaError, PathMissing, PathOutside, StorageFailed, StoreError, Unsupported
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.definitions import Definition
from olympia_cli.format.keys import CATALOG_DEF
from olympia_cli.format.node import Node, Root, Sizes
from olympia_cli.format.node_file import CREATED_AT_MILLIS, PREVIOUS_ROOT, decode_action_rows, decode_node, decode_root
from olympia_cli.format.paths import check_pointer, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.format.salvage import salvage
from olympia_cli.names import Kind
from olympia_cli.ops.fsck.sound import LatestVersion
from olympia_cli.ops.look.dump_node import dump_node
from olympia_cli.ops.look.node_target import NodeBytes
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.descend import AT_ONCE, descend
from olympia_cli.ops.walk.facts import look_at_definition
from olympia_cli.ops.walk.files import Files, failures_pass
from olympia_cli.ops.walk.flaws import Flaw, flaw_of
from olympia_cli.storage.protocol import Store

KEEP = 50_000
"""Nodes that are kept in memory; more than a million objects have in a tree of the usual order."""


class RangePlace(NamedTuple):
    """A node, the keys that its own lie between, and the range that is looked for in it, from `start` up to `end`."""

    path: str
    low: str | None
    high: str | None
    start: str
    end: str | None


@dataclass(frozen=True, slots=True)
class ReadNode:
    """A node file. `node` is None when it is not whole; then `rows` and `children` are what can be read of it."""

    path: str
    node: Node | None
    rows: tuple[tuple[str, str | None], ...] = ()
    children: tuple[str, ...] = ()
    flaw: Flaw | None = None

    @property
    def entries(self) -> Iterable[tuple[str, str | None]]:
        return self.rows if self.node is None else zip(self.node.keys, self.node.values, strict=True)

    @property
    def pointers(self) -> list[str]:
        children = self.children if self.node is None else self.node.children
        return [child for child in children if isinstance(child, str)]


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


class RepairFiles:
    """The files of one catalog. What was read once is remembered: sound nodes up to a bound, bad files always.

    `tolerant` takes a file that the store fails to give, time after time, for one that cannot be read.
    """

    def __init__(self, store: Store, *, tolerant: bool = False, progress: Progress = SILENT) -> None:
        self.store = store
        self.tolerant = tolerant
        self.progress = progress
        self.sizes: Sizes | None = None
        self.bad: dict[str, Flaw] = {}
        """Files that are not whole, and why."""
        self.failed: set[RangePlace] = set()
        """Where a range of keys was looked for and could not be read."""
        self._nodes: dict[str, ReadNode] = {}
        self._roots: dict[int, ReadRoot] = {}
        self._definitions: dict[tuple[Kind, str], str | Flaw] = {}
        """The ids in definitions, or what is wrong with them; keys of two kinds may name one file."""

    def latest(self, versions: Sequence[int]) -> LatestVersion:
        """The verdict on the latest of all versions; what it disproves is bad from then on."""
        files = Files(self.store, lambda: False, self.progress, patience=inf if self.tolerant else 1)
        with failures_pass():
            latest = LatestVersion(files, versions)
        for kind, path, flaw in latest.disproved:
            self._definitions[kind, path] = self.bad[path] = flaw
        return latest

    # Bytes

    def read_all(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | Flaw]]:
        """The files in order, each with its bytes or why there are none."""
        for path, data in self.store.read_many(paths):
            self.progress.advance()
            yield path, data if isinstance(data, bytes) else self._bytes_of(path, data)

    def _bytes_of(self, path: str, error: StoreError) -> bytes | Flaw:
        if isinstance(error, StorageFailed) and self.tolerant:
            try:
                return self.store.read(path)
            except StorageFailed as again:
                return Flaw("F205", again.message)
            except (PathMissing, PathOutside) as other:
                error = other
        if isinstance(error, PathMissing | PathOutside):
            return flaw_of(error)
        raise error

    # Nodes

    def nodes(self, paths: Sequence[str]) -> list[ReadNode]:
        """The nodes in order, read in parallel where they are not remembered."""
        known: dict[str, ReadNode] = {}
        wanted: list[str] = []
        for path in dict.fromkeys(paths):
            if path in self._nodes:
                known[path] = self._nodes[path]
            elif flaw := outside(path):
                known[path] = ReadNode(path, None, flaw=flaw)
            else:
                wanted.append(path)
        for path, data in self.read_all(wanted):
            read = known[path] = self._decode(path, data)
            if read.flaw is not None:
                self.bad[path] = read.flaw
            if read.flaw is not None or len(self._nodes) < KEEP:
                self._nodes[path] = read
        return [known[path] for path in paths]

    def is_bad_node(self, path: str) -> bool:
        """Whether it was read before, and is not whole."""
        return path in self._nodes and self._nodes[path].node is None

    def follow(self, tops: Iterable[str], visit: Callable[[str, ReadNode], Iterable[str]]) -> None:
        """Visit nodes, and those that visits lead to, a level at a time."""
        for _ in descend(tops, lambda paths: zip(paths, self.nodes(paths), strict=True), visit, at_once=None):
            pass

    def _decode(self, path: str, data: bytes | Flaw) -> ReadNode:
        if isinstance(data, Flaw):
            return ReadNode(path, None, flaw=data)
        try:
            return ReadNode(path, decode_node(data, path).node)
        except Damaged as error:
            return lenient(path, data, flaw_of(error), self.sizes)

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

    def _decode_root(self, version: int, path: str, data: bytes | Flaw) -> ReadRoot:
        if isinstance(data, Flaw):
            self.bad[path] = data
            return ReadRoot(version, None, ReadNode(path, None, flaw=data))
        actions = _actions(path, data)
        try:
            root = decode_root(data, path)
        except Damaged as error:
            self.bad[path] = flaw_of(error)
            dump = dump_node(NodeBytes(path, data, False), self.sizes)
            created = dump.system.get(CREATED_AT_MILLIS, "")
            return ReadRoot(
                version,
                None,
                lenient(path, data, self.bad[path], self.sizes),
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

    def definition(self, kind: Kind, path: str) -> Definition | Flaw:
        """The definition at a path, or why it cannot be read."""
        known = self._definitions.get((kind, path))
        if isinstance(known, Flaw):
            return known
        if flaw := outside(path):
            return flaw
        [(_, data)] = self.read_all([path])
        return self.parse(kind, path, data)

    def ids(self, wanted: Iterable[tuple[Kind, str]]) -> Iterator[tuple[str, str, Flaw | None]]:
        """For each definition: its path, its id, and why it cannot be read; one of the two is empty."""
        wanted = iter(wanted)
        while batch := list(islice(wanted, 8 * AT_ONCE)):
            unread = [named for named in dict.fromkeys(batch) if named not in self._definitions]
            inside = []
            for kind, path in unread:
                if flaw := outside(path):
                    self._definitions[kind, path] = self.bad[path] = flaw
                else:
                    inside.append((kind, path))
            for (kind, path), (_, data) in zip(inside, self.read_all(path for _, path in inside), strict=True):
                self.parse(kind, path, data)
            for kind, path in batch:
                id = self._definitions[kind, path]
                yield (path, "", id) if isinstance(id, Flaw) else (path, id, None)

    def id_of(self, kind: Kind, path: str) -> str:
        """The id in a definition that was read before."""
        id = self._definitions.get((kind, path), "")
        return "" if isinstance(id, Flaw) else id

    def parse(self, kind: Kind, path: str, data: bytes | Flaw) -> Definition | Flaw:
        """A definition that was read by other means, or why it is none."""
        found = data if isinstance(data, Flaw) else look_at_definition(kind, data, path)
        if not isinstance(found, Flaw) and isinstance(found[0], CatalogDef):
            found = _supported(found[0], found[1], path)
        if isinstance(found, Flaw):
            self._definitions[kind, path] = self.bad[path] = found
            return found
        self._definitions[kind, path] = found[0].id
        return found[0]


def _supported(definition: CatalogDef, verified: bool, path: str) -> tuple[CatalogDef, bool] | Flaw:
    """A catalog definition, unless no catalog can be like that."""
    try:
        check_supported(definition, path)
    except (Damaged, Unsupported) as error:
        if isinstance(error, Unsupported) and verified:
            raise  # nothing is wrong with it: a newer program wrote it
        return flaw_of(error)
    return definition, verified


def outside(path: str) -> Flaw | None:
    """Why a pointer must not be followed; nothing when it may."""
    try:
        check_pointer(path, path)
    except Damaged:
        return Flaw("F212", "it lies outside the catalog")
    return None


def lenient(path: str, data: bytes, flaw: Flaw, sizes: Sizes | None) -> ReadNode:
    """What can be read of a node that is not whole."""
    dump = dump_node(NodeBytes(path, data, False), sizes)
    rows = tuple((row.key, row.value) for row in dump.pivot if row.key is not None)
    return ReadNode(path, None, rows, tuple(row.pnode for row in dump.pivot if row.pnode is not None), flaw)


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
