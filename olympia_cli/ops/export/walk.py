"""All files of one version, a level of the tree at a time: each read once, decoded, and held to the tree's rules.

Only the paths of a level and a digest a file are in memory, however large the catalog is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

from olympia_cli.errors import OlympiaError, StoreError
from olympia_cli.format.node import Root
from olympia_cli.ops.export.checks import (
    OTHER_LEVEL,
    FileChecks,
    Place,
    Pointer,
    Problem,
    failure,
    node_pointers,
    root_pointers,
    second_place,
    too_deep,
)
from olympia_cli.ops.export.note import Scope
from olympia_cli.ops.walk.reach import DEFINITIONS_AT_ONCE, path_digest
from olympia_cli.tree.load import MAX_DEPTH

Fetch = Callable[[Iterable[str], bool], Iterable[tuple[str, bytes | StoreError]]]
"""Reads files, in order: those that the export copies, or those that it shares."""


class Order(NamedTuple):
    """What comes first of all that is wrong: level by level, nodes before definitions, by key."""

    level: int
    is_definition: bool = False
    rank: str = ""
    at: int = 0


class Seen(NamedTuple):
    """A file of the version. `data` is empty when it was not read; `key` is that of an object's definition."""

    path: str
    is_node: bool
    copied: bool
    data: bytes
    problem: Problem | None = None
    key: str | None = None
    order: Order = Order(0)


class Walk:
    """The files that a root leads to; the root itself is the caller's.

    `skip` says of which definitions the path is enough. With `copied_only` what the export shares is left out.
    """

    def __init__(
        self,
        path: str,
        root: Root,
        scope: Scope,
        fetch: Fetch,
        *,
        skip: Callable[[str], bool] = lambda path: False,
        copied_only: bool = False,
    ) -> None:
        self._path = path
        self._root = root
        self._scope = scope
        self._fetch = fetch
        self._skip = skip
        self._copied_only = copied_only
        self._found: set[bytes] = set()
        self._waiting: dict[str, str | None] = {}
        self._checks = FileChecks()

    def __contains__(self, path: str) -> bool:
        return path_digest(path) in self._found

    def __iter__(self) -> Iterator[Seen]:
        here = yield from self._take(root_pointers(self._root, self._path), Place(self._path), 1, True)
        yield from self._read_definitions(1)
        level = 2
        while here:
            copied = self._scope.copies_nodes(level)
            if not copied and self._copied_only:
                return
            if level > MAX_DEPTH:
                yield Seen(here[0].path, True, copied, b"", too_deep(), order=Order(level))
                return
            here = yield from self._visit_level(here, level, copied)
            level += 1

    def _visit_level(self, here: list[Place], level: int, copied: bool) -> Generator[Seen, None, list[Place]]:
        below: list[Place] = []
        leaves: bool | None = None
        files = self._fetch((place.path for place in here), copied)
        for place, (path, data) in zip(here, files, strict=True):
            node, problem = self._checks.node(place, data)
            if node is not None:
                leaves = node.is_leaf if leaves is None else leaves
                if node.is_leaf is not leaves:
                    node, problem = None, OTHER_LEVEL
            content = data if isinstance(data, bytes) else b""
            yield Seen(path, True, copied, content, problem, order=Order(level, False, place.rank))
            if node is not None:
                below += yield from self._take(node_pointers(node, place), place, level, copied)
            if len(self._waiting) >= DEFINITIONS_AT_ONCE:
                yield from self._read_definitions(level)
        yield from self._read_definitions(level)
        return below

    def _take(
        self, pointers: Iterable[Pointer | Problem], holder: Place, level: int, copied: bool
    ) -> Generator[Seen, None, list[Place]]:
        """Note what a node points to; its children."""
        below: list[Place] = []
        for at, found in enumerate(pointers, 1):
            if isinstance(found, Problem):
                problem = found
            elif self._is_new(found.path):
                if found.is_node:
                    below.append(found.place)
                else:
                    self._waiting[found.path] = found.key
                continue
            elif found.is_node:
                problem = second_place(found.path)
            else:
                # objects may share a definition
                continue
            yield Seen(holder.path, True, copied, b"", problem, order=Order(level, False, holder.rank, at))
        return below

    def _read_definitions(self, level: int) -> Iterator[Seen]:
        waiting, self._waiting = self._waiting, {}
        copied = self._scope.copies_definitions(level)
        if not copied and self._copied_only:
            return
        wanted = []
        for path, key in waiting.items():
            if self._skip(path):
                yield Seen(path, False, copied, b"", None, key)
            else:
                wanted.append(path)
        for path, data in self._fetch(wanted, copied) if wanted else ():
            key = waiting[path]
            problem = self._checks.definition(path, key, data)
            content = data if isinstance(data, bytes) else b""
            yield Seen(path, False, copied, content, problem, key, Order(level, True, key or ""))

    def _is_new(self, path: str) -> bool:
        digest = path_digest(path)
        if digest in self._found:
            return False
        self._found.add(digest)
        return True


def sound(files: Iterable[Seen], error: Callable[[str, Problem], OlympiaError] = failure) -> Iterator[Seen]:
    """The files, as long as nothing is wrong with them."""
    for seen in files:
        if seen.problem is not None:
            raise error(seen.path, seen.problem)
        yield seen
