"""Reads for a repair: possibly damaged nodes, roots and definitions, each read once.

A missing or damaged file is a fact to report. A failure of the store is raised: a repair must not take a failing
network for damage, and discard objects.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from math import inf
from typing import NamedTuple

from olympia_cli.errors import (
    Damaged,
    FileTooLarge,
    OlympiaError,
    PathMissing,
    PathOutside,
    StorageFailed,
    StoreError,
    Unsupported,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.codec import CREATED_AT_MILLIS, decode_action_rows, decode_node, decode_root
from olympia_cli.format.definitions import CLASSES, Definition, Digest, check_digest
from olympia_cli.format.keys import CATALOG_DEF
from olympia_cli.format.node import Node, Root, Sizes
from olympia_cli.format.paths import check_pointer, parse_root_path, root_path
from olympia_cli.names import Kind
from olympia_cli.ops.fsck import LatestVersion
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk import (
    AT_ONCE,
    Files,
    Flaw,
    Remains,
    descend,
    failures_pass,
    flaw_of,
    look_at_definition,
    number_in,
    remains_of_node,
)
from olympia_cli.storage.protocol import Store

# Nodes and roots, complete or as far as they can be read: functions of their bytes.


@dataclass(frozen=True, slots=True)
class ReadNode:
    """A node file. `node` is None if it is damaged; then `rows` and `children` are the readable parts."""

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
    """A root. `root` is None if it is damaged; then `top` holds the readable parts of its node.

    `actions` is None if the log cannot be read, and empty for a version of another program.
    """

    version: int
    root: Root | None
    top: ReadNode
    catalog_def: str | None = None
    created_at_millis: int = 0
    sizes: Sizes | None = None
    actions: tuple[Action, ...] | None = None

    @property
    def is_of(self) -> int | None:
        """The version of the root, by the predecessor that it names; None if it cannot be read."""
        return None if self.root is None else version_after(self.root.previous_root)


def version_after(previous_root: str | None) -> int | None:
    """Return the version of a root with this predecessor."""
    before = -1 if previous_root is None else parse_root_path(previous_root)
    return None if before is None else before + 1


def read_node(path: str, data: bytes | Flaw) -> ReadNode:
    """Return the node in a file, or its readable parts."""
    if isinstance(data, Flaw):
        return ReadNode(path, None, flaw=data)
    try:
        return ReadNode(path, decode_node(data, path).node)
    except Damaged as error:
        return _left(path, remains_of_node(data), error)


def read_root(version: int, data: bytes | Flaw) -> ReadRoot:
    path = root_path(version)
    if isinstance(data, Flaw):
        return ReadRoot(version, None, ReadNode(path, None, flaw=data))
    actions = _actions(path, data)
    try:
        root = decode_root(data, path)
    except Damaged as error:
        remains = remains_of_node(data)
        top, created = _left(path, remains, error), created_at_millis(remains.system)
        return ReadRoot(version, None, top, remains.system.get(CATALOG_DEF), created, remains.sizes, actions)
    top = ReadNode(path, root.node)
    return ReadRoot(version, root, top, root.catalog_def, root.created_at_millis, root.sizes, actions)


def created_at_millis(system: dict[str, str]) -> int:
    """Return the creation time in a node; 0 if it has none."""
    return number_in(system.get(CREATED_AT_MILLIS, "")) or 0


def _left(path: str, remains: Remains, error: Damaged) -> ReadNode:
    return ReadNode(path, None, tuple(remains.entries), tuple(remains.children), flaw_of(error))


def _actions(path: str, data: bytes) -> tuple[Action, ...] | None:
    """Return the actions of a version. Their rows have a checksum of their own, and are often sound in a
    damaged root.
    """
    try:
        return tuple(decode_action(key, value, path) for key, value in decode_action_rows(data, path))
    except Unsupported:
        raise
    except Damaged:
        pass
    try:
        return tuple(decode_action(key, value, path) for key, value in remains_of_node(data).actions) or None
    except OlympiaError:
        return None


KEEP = 50_000
"""The largest number of nodes to keep in memory. It suffices for more than a million objects at the usual order."""


class RangePlace(NamedTuple):
    """A node, the bounds of its own keys, and the range to search in it, from `start` up to `end`."""

    path: str
    low: str | None
    high: str | None
    start: str
    end: str | None


class RepairFiles:
    """The files of a catalog. Read files are cached: sound nodes up to a limit, damaged files always.

    If `tolerant`, a file that the store repeatedly fails to read counts as damaged.
    """

    def __init__(self, store: Store, *, tolerant: bool = False, progress: Progress = SILENT) -> None:
        self.store = store
        self.tolerant = tolerant
        self.progress = progress
        self.bad: dict[str, Flaw] = {}
        """The damaged files, with their flaws."""
        self.failed: set[RangePlace] = set()
        """Failed searches for ranges of keys."""
        self._nodes: dict[str, ReadNode] = {}
        self._roots: dict[int, ReadRoot] = {}
        self._latest: tuple[list[int], LatestVersion] | None = None
        self._definitions: dict[tuple[Kind, str], str | Flaw] = {}
        """The ids in definitions, or their flaws. Keys of two kinds may name one file."""

    def latest(self, versions: Sequence[int]) -> LatestVersion:
        """Return the verdict on the latest of all versions. Definitions that contradict the log are then treated as
        damaged.
        """
        if self._latest is not None and self._latest[0] == versions:
            return self._latest[1]
        files = Files(self.store, self.progress, patience=inf if self.tolerant else 1)
        with failures_pass():
            latest = LatestVersion(files, versions)
        for kind, path, flaw in latest.disproofs:
            self._definitions[kind, path] = self.bad[path] = flaw
        self._latest = list(versions), latest
        return latest

    def remains(self, kind: Kind, path: str) -> bytes | None:
        """Return the readable rest of a damaged or exchanged definition, or None if there is none."""
        if outside(path):
            return None
        [(_, data)] = self.read_all([path])
        remains = definitions.remains(CLASSES[kind], data, path) if isinstance(data, bytes) else None
        return None if remains is None else definitions.body(remains)

    def exchanged(self, kind: Kind, path: str) -> bytes | None:
        """Return the content of a definition that was exchanged with another file: each holds the other's content."""
        if outside(path):
            return None
        cls = CLASSES[kind]
        [(_, data)] = self.read_all([path])
        name = definitions.written_as(cls, data) if isinstance(data, bytes) else ""
        other = f"{path.rpartition('/')[0]}/{name}"
        if not name or outside(other):
            return None
        [(_, data)] = self.read_all([other])
        if not isinstance(data, bytes) or check_digest(data, path) is not Digest.VERIFIED:
            return None
        facts = look_at_definition(kind, data, path)
        return None if isinstance(facts, Flaw) else definitions.body(facts[0])

    # Bytes

    def read_all(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | Flaw]]:
        """Yield the files in order, each with its bytes or its flaw."""
        for path, data in self.store.read_many(paths):
            self.progress.advance()
            yield path, data if isinstance(data, bytes) else self._bytes_of(path, data)

    def _bytes_of(self, path: str, error: StoreError) -> bytes | Flaw:
        if isinstance(error, StorageFailed) and self.tolerant:
            try:
                return self.store.read(path)
            except StorageFailed as again:
                return Flaw("F205", again.message)
            except (PathMissing, PathOutside, FileTooLarge) as other:
                error = other
        if isinstance(error, PathMissing | PathOutside | FileTooLarge):
            return flaw_of(error)
        raise error

    # Nodes

    def nodes(self, paths: Sequence[str]) -> list[ReadNode]:
        """Return the nodes in order. Nodes that are not cached are read in parallel."""
        nodes: dict[str, ReadNode] = {}
        new_paths: list[str] = []
        for path in dict.fromkeys(paths):
            if path in self._nodes:
                nodes[path] = self._nodes[path]
            elif flaw := outside(path):
                nodes[path] = ReadNode(path, None, flaw=flaw)
            else:
                new_paths.append(path)
        for path, data in self.read_all(new_paths):
            reading = nodes[path] = read_node(path, data)
            if reading.flaw is not None:
                self.bad[path] = reading.flaw
            if reading.flaw is not None or len(self._nodes) < KEEP:
                self._nodes[path] = reading
        return [nodes[path] for path in paths]

    def is_bad_node(self, path: str) -> bool:
        """Return whether a node was read before, and is damaged."""
        return path in self._nodes and self._nodes[path].node is None

    def follow(self, tops: Iterable[str], visit: Callable[[str, ReadNode], Iterable[str]]) -> None:
        """Visit nodes and the nodes that visits return, level by level."""
        for _ in descend(tops, lambda paths: zip(paths, self.nodes(paths), strict=True), visit, at_once=None):
            pass

    # Roots

    def root(self, version: int) -> ReadRoot:
        """Return the root of a version, as far as it can be read, even if it was exchanged with another root."""
        if version not in self._roots:
            [(path, data)] = self.read_all([root_path(version)])
            reading = read_root(version, data)
            if reading.is_of not in (None, version):
                reading = self._exchanged(reading)
            if reading.top.flaw is not None:
                self.bad[path] = reading.top.flaw
            if len(self._roots) >= AT_ONCE:
                self._roots.pop(next(iter(self._roots)))
            self._roots[version] = reading
        return self._roots[version]

    def _exchanged(self, other: ReadRoot) -> ReadRoot:
        """Find the root of a version whose file holds another root: follow the exchanged files.

        If the files were not exchanged, the root is lost.
        """
        version, tried, reading = other.version, {other.version}, other
        while (at := reading.is_of) is not None and at not in tried:
            tried.add(at)
            [(_, data)] = self.read_all([root_path(at)])
            reading = read_root(version, data)
            if reading.is_of == version:
                return reading
        flaw = Flaw("F104", f"it is the root of version {other.is_of}")
        return ReadRoot(version, None, ReadNode(other.top.path, None, flaw=flaw))

    # Definitions

    def definition(self, kind: Kind, path: str) -> Definition | Flaw:
        """Return the definition at a path, or its flaw."""
        id_or_flaw = self._definitions.get((kind, path))
        if isinstance(id_or_flaw, Flaw):
            return id_or_flaw
        if flaw := outside(path):
            return flaw
        [(_, data)] = self.read_all([path])
        return self.parse(kind, path, data)

    def ids(self, paths: Iterable[tuple[Kind, str]]) -> Iterator[tuple[str, str, Flaw | None]]:
        """Yield path, id and flaw of each definition. Either the id is empty or the flaw is None."""
        paths = iter(paths)
        while batch := list(islice(paths, 8 * AT_ONCE)):
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
        """Return the id in a definition that was read before."""
        id = self._definitions.get((kind, path), "")
        return "" if isinstance(id, Flaw) else id

    def parse(self, kind: Kind, path: str, data: bytes | Flaw) -> Definition | Flaw:
        """Return the definition in these bytes, or its flaw."""
        facts = data if isinstance(data, Flaw) else look_at_definition(kind, data, path)
        definition = facts if isinstance(facts, Flaw) else facts[0]
        if isinstance(definition, Flaw):
            self._definitions[kind, path] = self.bad[path] = definition
        else:
            self._definitions[kind, path] = definition.id
        return definition


def outside(path: str) -> Flaw | None:
    """Return the flaw of a pointer that must not be followed, or None."""
    try:
        check_pointer(path, path)
    except Damaged:
        return Flaw("F212", "it lies outside the catalog")
    return None
