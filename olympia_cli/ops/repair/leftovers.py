"""Files that nothing readable points to: nodes, and definitions. What they say is doubtful, but may be all there is."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from urllib.parse import unquote

from olympia_cli.catalog.file_writer import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.saves import committed_runs
from olympia_cli.errors import InvalidName, OlympiaError
from olympia_cli.format.keys import CATALOG_DEF, KeyCodec
from olympia_cli.format.node import Sizes
from olympia_cli.format.paths import DEFINITION_FOLDERS, FileKind, file_kind
from olympia_cli.names import Kind, NamespaceName, ObjectName, TableName, ViewName
from olympia_cli.ops.look.dump_node import dump_node
from olympia_cli.ops.look.node_target import NodeBytes
from olympia_cli.ops.repair.files import RepairFiles, outside
from olympia_cli.ops.repair.nodes import ReadNode, created_at_millis
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.ops.walk.reach import path_digest

LOST_AND_FOUND = "lost+found"
_FOLDERS = {folder: kind for kind, folder in DEFINITION_FOLDERS.items()}


class Leftovers:
    """What lies in a store and is reached from none of the versions that can be read."""

    def __init__(self, files: RepairFiles, versions: Sequence[int], sizes: Sizes) -> None:
        self._files = files
        self._sizes = sizes
        self._codec = KeyCodec.of(sizes)
        self._reached: set[bytes] = set()
        for version in versions:
            top = files.root(version).top
            self._reach([top.path])
            files.follow(self._visit(top.path, top), self._visit)

    def from_nodes(
        self, suspect: Sequence[tuple[str, str | None]], since_millis: int
    ) -> Iterator[tuple[ObjectName, str, str]]:
        """Objects, the paths of their definitions, and the newest node that names each; the newest first.

        Only keys of the suspect ranges in nodes not older than that, and only those whose definitions can be read. What
        distributed transactions have staged and not committed is not part of any version.
        """
        named: dict[str, tuple[int, str, str]] = {}
        staged: list[tuple[int, list[str]]] = []
        rows: list[tuple[str, int, list[tuple[str, str]]]] = []
        committed = committed_runs(self._files.store, self._read_saves)
        listed = (file.path for file in self._files.store.list("node/") if file_kind(file.path) is FileKind.NODE)
        for path, data in self._files.read_all(path for path in listed if not self._is_reached(path)):
            if isinstance(data, Flaw):
                self._files.bad[path] = data
                continue
            dump = dump_node(NodeBytes(path, data), self._sizes)
            if dump.problems:
                self._files.bad[path] = Flaw("F205", dump.summary())
            created = created_at_millis(dump.system)
            # what an export pins is a version's own root, and says who committed it
            running = CATALOG_DEF in dump.system and all(row.action["type"] != "COMMIT_INFO" for row in dump.actions)
            if running and path not in committed:
                staged.append((created, [row.pnode for row in dump.pivot if row.pnode is not None]))
            elif created >= since_millis:
                pairs = [(row.key, row.value) for row in dump.pivot if row.key is not None and row.value is not None]
                rows.append((path, created, pairs))
        left_out = {(created, node) for created, top in staged for node in self._below(top)}
        for path, created, pairs in rows:
            # a running root shares nodes with the version that it began at; its own are as old as itself
            if (created, path) in left_out:
                continue
            for key, value in pairs:
                inside = any(key >= start and (end is None or key < end) for start, end in suspect)
                if inside and (key not in named or named[key][0] < created):
                    named[key] = (created, value, path)
        yield from self._readable(named)

    def _read_saves(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | OlympiaError]]:
        for path, data in self._files.read_all(paths):
            yield path, data.error(path) if isinstance(data, Flaw) else data

    def _below(self, tops: list[str]) -> set[str]:
        """These nodes, and all that they lead to."""
        below = set(tops)

        def visit(_: str, reading: ReadNode) -> list[str]:
            new = [child for child in dict.fromkeys(reading.pointers) if child not in below]
            below.update(new)
            return new

        self._files.follow(tops, visit)
        return below

    def _readable(self, newest: Mapping[str, tuple[int, str, str]]) -> Iterator[tuple[ObjectName, str, str]]:
        named = []
        for key, (_, value, node) in sorted(newest.items(), key=lambda entry: -entry[1][0]):
            if (name := self._codec.name(key)) is not None:
                named.append((name, value, node))
        paths = [(name.kind, value) for name, value, _ in named]
        for (name, value, node), (_, _, flaw) in zip(named, self._files.ids(paths), strict=True):
            self._reach([value])
            if flaw is None:
                yield name, value, node

    def from_definitions(
        self, ids: Collection[str], used: Collection[ObjectName], since_millis: int
    ) -> Iterator[tuple[ObjectName, str]]:
        """Definitions that nothing names, of objects that are not there: the newest of each.

        The name in a file's path is for people, and the namespace in it cannot be told from the name: tables and
        views go to a namespace of their own, under as much of a name as there is.
        """
        names, known_ids = set(used), set(ids)
        listed = sorted(self._files.store.list("def/"), key=lambda file: file.modified_at_millis, reverse=True)
        paths = []
        for file in listed:
            kind = _FOLDERS.get(file.path.split("/")[1])
            if kind not in (None, Kind.CATALOG) and file_kind(file.path) is FileKind.DEFINITION:
                assert kind is not None
                # the store's clock and the writers' agree within half an hour
                young = file.modified_at_millis >= since_millis - HALF_AN_HOUR_MILLIS
                if young and not self._is_reached(file.path) and not outside(file.path):
                    paths.append((kind, file.path))
        for (kind, path), (_, id, flaw) in zip(paths, self._files.ids(paths), strict=True):
            if flaw is not None or id in known_ids:
                continue
            known_ids.add(id)
            name = self._name(kind, path, id, names)
            if name is not None:
                names.add(name)
                yield name, path

    def _name(self, kind: Kind, path: str, id: str, used: Collection[ObjectName]) -> ObjectName | None:
        stem = path.rpartition("/")[2].removesuffix(".binpb")
        text = unquote(stem[37:])
        for candidate in (text, f"{text[:20]}-{id[:8]}", id):
            try:
                name = _make(kind, candidate)
                self._codec.encode(name)
            except InvalidName:
                continue
            if name not in used:
                return name
        return None

    # What versions reach

    def _visit(self, _: str, reading: ReadNode) -> list[str]:
        """Note what a node names; the nodes below it that no other led to."""
        self._reach([value for _, value in reading.entries if value is not None])
        new = [child for child in dict.fromkeys(reading.pointers) if not self._is_reached(child)]
        self._reach(new)
        return new

    def _reach(self, paths: Sequence[str]) -> None:
        self._reached.update(map(path_digest, paths))

    def _is_reached(self, path: str) -> bool:
        return path_digest(path) in self._reached


def _make(kind: Kind, text: str) -> ObjectName:
    if kind is Kind.NAMESPACE:
        return NamespaceName(text)
    return TableName(LOST_AND_FOUND, text) if kind is Kind.TABLE else ViewName(LOST_AND_FOUND, text)
