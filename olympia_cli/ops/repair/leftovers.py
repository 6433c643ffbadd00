"""Files without a readable pointer to them: nodes and definitions. Their content is doubtful, but may be all that is
left.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Literal
from urllib.parse import unquote

from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.distributed import UnreadableSave, committed_runs, saved_transactions
from olympia_cli.errors import InvalidName, OlympiaError
from olympia_cli.format import definitions
from olympia_cli.format.codec import PREVIOUS_ROOT
from olympia_cli.format.definitions import Definition, definition_id
from olympia_cli.format.keys import CATALOG_DEF, KeyCodec
from olympia_cli.format.node import Sizes
from olympia_cli.format.paths import DEFINITION_FOLDERS, FileKind, file_kind, name_in, root_path
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName
from olympia_cli.ops.inspect import NodeBytes, NodeDump, dump_node
from olympia_cli.ops.repair.files import ReadNode, RepairFiles, created_at_millis, outside, version_after
from olympia_cli.ops.walk import Flaw, path_digest
from olympia_cli.storage.protocol import FileInfo

LOST_AND_FOUND = "lost+found"
_FOLDERS = {folder: kind for kind, folder in DEFINITION_FOLDERS.items()}


@dataclass(frozen=True, slots=True)
class LeftNode:
    """A node that no version reaches and no open transaction has staged.

    `catalog_def` is set for a copy of a root: an export's pin, or the running root of a committed transaction.
    `version` is the version of such a copy, if known.
    """

    path: str
    created_at_millis: int
    entries: tuple[tuple[str, str], ...]
    children: tuple[str, ...]
    whole: bool
    catalog_def: str | None = None
    version: int | None = None


@dataclass(frozen=True, slots=True)
class Suspect:
    """The place and time of possible losses: ranges of keys, and the time since which objects may be missing.

    `nameless` means that the names of missing objects may be unknown too.
    """

    ranges: tuple[tuple[str, str | None], ...]
    since_millis: int = 0
    nameless: bool = False
    after_version: int | None = None
    """The last known version, if later ones are lost."""


@dataclass(frozen=True, slots=True)
class Leftover:
    """An object known only from a leftover file: the path of its definition, and the reason of the doubt."""

    name: ObjectName
    path: str
    origin: Literal["nodes", "definitions"]
    doubt: str


@dataclass(frozen=True, slots=True)
class _LeftDefinition:
    """A definition that no node names."""

    kind: Kind
    file: FileInfo
    definition: Definition

    @property
    def path(self) -> str:
        return self.file.path


class Leftovers:
    """The files of a store that no readable version reaches."""

    def __init__(self, files: RepairFiles, versions: Sequence[int], sizes: Sizes) -> None:
        self._files = files
        self.sizes = sizes
        self._codec = KeyCodec.of(sizes)
        self._reached: set[bytes] = set()
        self.unsure = ""
        """The reason why leftover nodes cannot be assigned to commits, or empty. Set by `nodes`."""
        for version in versions:
            root = files.root(version)
            self._reach([root.top.path] if root.catalog_def is None else [root.top.path, root.catalog_def])
            files.follow(self._visit(root.top.path, root.top), self._visit)

    # Nodes

    @cached_property
    def nodes(self) -> list[LeftNode]:
        """The nodes that no version reaches, without those of uncommitted distributed transactions."""
        left: list[LeftNode] = []
        staged: list[tuple[LeftNode, set[str]]] = []
        committed = committed_runs(self._files.store, self._read_saves)
        listed = (file.path for file in self._files.store.list("node/") if file_kind(file.path) is FileKind.NODE)
        for path, data in self._files.read_all(path for path in listed if not self.is_reached(path)):
            if isinstance(data, Flaw):
                self._files.bad[path] = data
                self.unsure = f"{path} cannot be read, so its owner is unknown"
                continue
            dump = self._dump(path, data)
            node = _left_node(dump)
            # a pinned root is a version's own root, and records the author of the commit
            is_signed = any(row.action["type"] == "COMMIT_INFO" for row in dump.actions)
            if node.catalog_def is None:
                left.append(node)
            elif is_signed or path in committed:
                follows = version_after(dump.system.get(PREVIOUS_ROOT))
                is_root = is_signed or committed.get(path) == follows
                left.append(replace(node, version=follows if is_root else None))
            else:
                staged.append((node, {row.key for row in dump.actions}))
        self._look_for_runs({run.path for run, _ in staged})
        for run, keys in staged:
            below = self._below(run.children)
            # a running root shares nodes with the version that it began at; its own nodes have its creation time
            own = [node for node in left if node.created_at_millis == run.created_at_millis and node.path in below]
            self._reach([value for node in (run, *own) for key, value in node.entries if key in keys])
            left = [node for node in left if node not in own]
        return left

    def _look_for_runs(self, runs: Collection[str]) -> None:
        """Check that the running root of each open transaction was found."""
        for saved in saved_transactions(self._files.store, self._read_saves):
            if isinstance(saved, UnreadableSave):
                self.unsure = f"{saved.path} cannot be read, so the staged changes of the transaction are unknown"
            elif saved.is_running and saved.definition.running_root_node_file_path not in runs:
                run = saved.definition.running_root_node_file_path
                self.unsure = f"{run} cannot be read, so the staged changes of the transaction {saved.id} are unknown"

    def _dump(self, path: str, data: bytes) -> NodeDump:
        dump = dump_node(NodeBytes(path, data), self.sizes)
        if dump.problems:
            self._files.bad[path] = Flaw("F205", dump.summary())
            self.unsure = f"{path} cannot be read, so its owner is unknown"
        return dump

    def _read_saves(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | OlympiaError]]:
        for path, data in self._files.read_all(paths):
            yield path, data.error(path) if isinstance(data, Flaw) else data

    def _below(self, tops: Iterable[str]) -> set[str]:
        """Return these nodes and all nodes below."""
        below = set(tops)

        def visit(_: str, reading: ReadNode) -> list[str]:
            new = [child for child in dict.fromkeys(reading.pointers) if child not in below]
            below.update(new)
            return new

        self._files.follow(list(below), visit)
        return below

    # Objects

    def objects(
        self, there: Mapping[ObjectName, str | bytes], suspect: Suspect, *, unnamed: bool
    ) -> Iterator[Leftover]:
        """Yield objects from leftovers that are not `there`, and newer definitions of objects that are.

        With `unnamed`, include objects whose names are unknown.
        """
        ids = {self._id(name, value): name for name, value in there.items()}
        names = set(there)
        for name, path, node in self._from_nodes(suspect):
            # a renamed object has two names in nodes of different ages
            id = self._files.id_of(name.kind, path)
            if name not in names and id not in ids:
                ids[id] = name
                names.add(name)
                yield Leftover(name, path, "nodes", f"only {node}, which nothing points to, names it")
        if suspect.nameless:
            left = self._definitions(suspect.since_millis)
            yield from self._altered(there, ids, left, suspect)
            yield from self._new(names, ids, left, unnamed)

    def _id(self, name: ObjectName, value: str | bytes) -> str:
        return self._files.id_of(name.kind, value) if isinstance(value, str) else definition_id(name.kind, value)

    def _from_nodes(self, suspect: Suspect) -> Iterator[tuple[ObjectName, str, str]]:
        """Yield objects, the paths of their definitions, and the newest node that names each; the newest first.

        Consider only keys of the suspect ranges, nodes that are young enough, and readable definitions.
        """
        newest: dict[str, tuple[int, str, str]] = {}
        for node in self.nodes:
            if node.created_at_millis < suspect.since_millis:
                continue
            for key, value in node.entries:
                inside = any(key >= start and (end is None or key < end) for start, end in suspect.ranges)
                if inside and (key not in newest or newest[key][0] < node.created_at_millis):
                    newest[key] = (node.created_at_millis, value, node.path)
        named = []
        for key, (_, value, node_path) in sorted(newest.items(), key=lambda entry: -entry[1][0]):
            if (name := self._codec.name(key)) is not None:
                named.append((name, value, node_path))
        paths = [(name.kind, value) for name, value, _ in named]
        for (name, value, node_path), (_, _, flaw) in zip(named, self._files.ids(paths), strict=True):
            self._reach([value])
            if flaw is None:
                yield name, value, node_path

    # Definitions

    def unnamed_since(self, since_millis: int) -> list[FileInfo]:
        """Return the definitions that were written since, and that no version and no open transaction names.

        The age of a file is by the store's clock, which may differ from the writers' by half an hour.
        """
        _ = self.nodes
        return [
            file
            for file in self._files.store.list("def/")
            if file_kind(file.path) is FileKind.DEFINITION
            and file.modified_at_millis >= since_millis - HALF_AN_HOUR_MILLIS
            and not self.is_reached(file.path)
            and not outside(file.path)
        ]

    def _definitions(self, since_millis: int) -> list[_LeftDefinition]:
        """Return readable definitions of objects: namespaces first, and for each id the newest first."""
        listed = {file.path: file for file in self.unnamed_since(since_millis)}
        left = []
        for path, data in self._files.read_all(listed):
            kind = _FOLDERS.get(path.split("/")[1])
            if kind in (None, Kind.CATALOG):
                continue
            assert kind is not None
            definition = self._files.parse(kind, path, data)
            if not isinstance(definition, Flaw):
                left.append(_LeftDefinition(kind, listed[path], definition))
        left.sort(key=lambda one: (one.kind, -one.file.modified_at_millis))
        return left

    def _altered(
        self,
        there: Mapping[ObjectName, str | bytes],
        ids: Mapping[str, ObjectName],
        left: Sequence[_LeftDefinition],
        suspect: Suspect,
    ) -> Iterator[Leftover]:
        """Yield newer definitions of existing objects, if exactly one definition can follow the present one."""
        if suspect.after_version is None:
            return
        written = self._files.store.stat(root_path(suspect.after_version)).modified_at_millis
        for id, same in groupby(sorted(left, key=lambda one: one.definition.id), lambda one: one.definition.id):
            name = ids.get(id)
            value = None if name is None else there.get(name)
            if name is None or not isinstance(value, str):
                continue
            now = self._files.definition(name.kind, value)
            waiting, newest = [one for one in same if one.kind is name.kind], None
            while not isinstance(now, Flaw):
                following = [one for one in waiting if _follows(one, now, written)]
                if len(following) != 1:
                    break
                [newest] = following
                waiting, now = [one for one in waiting if one is not newest], newest.definition
            if newest is not None:
                yield Leftover(name, newest.path, "definitions", f"only {newest.path}, which nothing names, has it so")

    def _new(
        self, used: set[ObjectName], ids: dict[str, ObjectName], left: Sequence[_LeftDefinition], unnamed: bool
    ) -> Iterator[Leftover]:
        """Yield definitions of missing objects: the newest of each, under the name in its path."""
        namespaces = {name.namespace for name in used}
        for one in left:
            id = one.definition.id
            if id in ids:
                continue
            name = name_in(one.path, one.kind, namespaces)
            if not isinstance(name, str) and (name in used or not self._is_legal(name)):
                name = "it is taken"
            if isinstance(name, str):
                if not unnamed or (found := self._any_name(one.kind, one.path, id, used)) is None:
                    continue
                name = found
            ids[id] = name
            used.add(name)
            namespaces.add(name.namespace)
            doubt = f"only its definition {one.path} is left: where it was is not known for sure"
            yield Leftover(name, one.path, "definitions", doubt)

    def _is_legal(self, name: ObjectName) -> bool:
        try:
            self._codec.encode(_make(name.kind, name.namespace, name.name))
        except InvalidName:
            return False
        return True

    def _any_name(self, kind: Kind, path: str, id: str, used: set[ObjectName]) -> ObjectName | None:
        """Return a name for an object of unknown name: the known part of it, in the namespace `lost+found`."""
        text = unquote(path.rpartition("/")[2].removesuffix(".binpb")[37:])
        for candidate in (text, f"{text[:20]}-{id[:8]}", id):
            try:
                name = _make(kind, candidate if kind is Kind.NAMESPACE else LOST_AND_FOUND, candidate)
                self._codec.encode(name)
            except InvalidName:
                continue
            if name not in used:
                return name
        return None

    # What versions reach

    def _visit(self, _: str, reading: ReadNode) -> list[str]:
        """Note the names in a node. Return the nodes below that are new."""
        self._reach([value for _, value in reading.entries if value is not None])
        new = [child for child in dict.fromkeys(reading.pointers) if not self.is_reached(child)]
        self._reach(new)
        return new

    def _reach(self, paths: Iterable[str]) -> None:
        self._reached.update(map(path_digest, paths))

    def is_reached(self, path: str) -> bool:
        """Return whether a version or an open transaction names the file."""
        return path_digest(path) in self._reached


def _left_node(dump: NodeDump) -> LeftNode:
    return LeftNode(
        dump.path,
        created_at_millis(dump.system),
        tuple((row.key, row.value) for row in dump.pivot if row.key is not None and row.value is not None),
        tuple(row.pnode for row in dump.pivot if row.pnode is not None),
        not dump.problems and not dump.unsupported,
        dump.system.get(CATALOG_DEF),
    )


def _follows(left: _LeftDefinition, now: Definition, written_at_millis: int) -> bool:
    """Return whether a definition can be the next one of an object.

    The metadata of a table names its predecessor. Any other definition must have been written after the last known
    version.
    """
    if definitions.body(left.definition) == definitions.body(now):
        return False
    if isinstance(left.definition, TableDef) and isinstance(now, TableDef):
        before, after = now.iceberg_metadata_location, left.definition.iceberg_metadata_location
        if before != after:
            return left.definition.iceberg_previous_metadata_location == before
    return left.file.modified_at_millis > written_at_millis


def _make(kind: Kind, namespace: str, name: str) -> ObjectName:
    if kind is Kind.NAMESPACE:
        return NamespaceName(namespace)
    return TableName(namespace, name) if kind is Kind.TABLE else ViewName(namespace, name)
