"""All files of one version, a level of the tree at a time: each read once, decoded, and held to the tree's rules.

Only the paths of a level and a digest a file are in memory, however large the catalog is.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Iterator
from typing import NamedTuple

from olympia_cli.errors import (
    Damaged,
    OlympiaError,
    PathMissing,
    PathOutside,
    StorageDenied,
    StorageFailed,
    StoreError,
)
from olympia_cli.format.definitions import CLASSES, decode
from olympia_cli.format.keys import kind_of_key
from olympia_cli.format.node import Node, Root
from olympia_cli.format.node_file import decode_node
from olympia_cli.format.paths import check_pointer
from olympia_cli.names import Kind
from olympia_cli.ops.export_note import Scope
from olympia_cli.ops.reach import DEFINITIONS_AT_ONCE, path_digest
from olympia_cli.tree.load import MAX_DEPTH, bounds, check_range

Fetch = Callable[[Iterable[str], bool], Iterable[tuple[str, bytes | StoreError]]]
"""Reads files, in order: those that the export copies, or those that it shares."""

FAILURES_IN_A_ROW = 20
"""So many files that the store cannot read mean that the store is ill, and not the files."""


class Problem(NamedTuple):
    """What is wrong with a file: a code of fsck's, and why."""

    code: str
    reason: str


class Seen(NamedTuple):
    """A file of the version. `data` is empty when it was not read; `key` is that of an object's definition."""

    path: str
    is_node: bool
    copied: bool
    data: bytes
    problem: Problem | None = None
    key: str | None = None


class _Child(NamedTuple):
    path: str
    low: str | None
    high: str | None


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
        self._failures = 0

    def __contains__(self, path: str) -> bool:
        return path_digest(path) in self._found

    def __iter__(self) -> Iterator[Seen]:
        here = yield from self._visit_root()
        level = 2
        while here:
            copied = self._scope.copies_nodes(level)
            if not copied and self._copied_only:
                return
            if level > MAX_DEPTH:
                reason = f"the tree is deeper than {MAX_DEPTH} levels"
                yield Seen(here[0].path, True, copied, b"", Problem("F213", reason))
                return
            here = yield from self._visit_level(here, level, copied)
            level += 1

    def _visit_root(self) -> Generator[Seen, None, list[_Child]]:
        path = self._root.catalog_def
        try:
            self._is_new(check_pointer(path, self._path))
            self._waiting[path] = None
        except Damaged as error:
            yield Seen(self._path, True, True, b"", Problem("F212", error.reason))
        below = yield from self._take(self._root.node, _Child(self._path, None, None), True)
        yield from self._read_definitions(1)
        return below

    def _visit_level(self, here: list[_Child], level: int, copied: bool) -> Generator[Seen, None, list[_Child]]:
        below: list[_Child] = []
        leaves: bool | None = None
        files = self._fetch((child.path for child in here), copied)
        for child, (path, data) in zip(here, files, strict=True):
            node, problem = self._node(child, data)
            if node is not None:
                leaves = node.is_leaf if leaves is None else leaves
                if node.is_leaf is not leaves:
                    node, problem = None, Problem("F210", "it is not on the level of its neighbours")
            yield Seen(path, True, copied, data if isinstance(data, bytes) else b"", problem)
            if node is not None:
                below += yield from self._take(node, child, copied)
            if len(self._waiting) >= DEFINITIONS_AT_ONCE:
                yield from self._read_definitions(level)
        yield from self._read_definitions(level)
        return below

    def _node(self, child: _Child, data: bytes | StoreError) -> tuple[Node | None, Problem | None]:
        if isinstance(data, Exception):
            return None, self._unread(data, "F201", "a node of the tree is missing")
        self._failures = 0
        try:
            node = decode_node(data, child.path).node
        except Damaged as error:
            return None, Problem(_node_code(data, error.reason), error.reason)
        try:
            check_range(node, child.path, child.low, child.high)
        except Damaged as error:
            return None, Problem("F209", error.reason)
        return node, None

    def _take(self, node: Node, holder: _Child, copied: bool) -> Generator[Seen, None, list[_Child]]:
        """Note what a node points to; its children."""

        def bad(code: str, reason: str) -> Seen:
            return Seen(holder.path, True, copied, b"", Problem(code, reason))

        for key, value in zip(node.keys, node.values, strict=True):
            if value is None:
                continue
            try:
                kind_of_key(key, holder.path)
            except Damaged as error:
                yield bad("F215", error.reason)
                continue
            try:
                if self._is_new(check_pointer(value, holder.path)):
                    self._waiting[value] = key
            except Damaged as error:
                yield bad("F212", error.reason)
        below: list[_Child] = []
        for at, child in enumerate(node.children):
            assert isinstance(child, str)
            try:
                if self._is_new(check_pointer(child, holder.path)):
                    below.append(_Child(child, *bounds(node, at, holder.low, holder.high)))
                else:
                    yield bad("F214", f"it points to {child}, which has another place in this version")
            except Damaged as error:
                yield bad("F212", error.reason)
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
            problem = self._definition(path, key, data)
            yield Seen(path, False, copied, data if isinstance(data, bytes) else b"", problem, key)

    def _definition(self, path: str, key: str | None, data: bytes | StoreError) -> Problem | None:
        kind = Kind.CATALOG if key is None else kind_of_key(key, path)
        if isinstance(data, Exception):
            what = "the catalog definition" if kind is Kind.CATALOG else f"the definition of a {kind.word}"
            return self._unread(data, "F307" if kind is Kind.CATALOG else "F301", f"{what} is missing")
        self._failures = 0
        try:
            decode(CLASSES[kind], data, path)
        except Damaged as error:
            return Problem("F307" if kind is Kind.CATALOG else _definition_code(error.reason), error.reason)
        return None

    def _unread(self, error: StoreError, missing: str, reason: str) -> Problem:
        """What a file is that the store does not give; its own failure when it gives nothing at all."""
        if isinstance(error, PathMissing):
            self._failures = 0
            return Problem(missing, reason)
        if isinstance(error, PathOutside):
            return Problem("F212", error.message)
        self._failures += 1
        if isinstance(error, StorageDenied) or self._failures >= FAILURES_IN_A_ROW:
            raise error
        return Problem("F205", error.message)

    def _is_new(self, path: str) -> bool:
        digest = path_digest(path)
        if digest in self._found:
            return False
        self._found.add(digest)
        return True


def _failure(seen: Seen, problem: Problem) -> OlympiaError:
    return StorageFailed(problem.reason) if problem.code == "F205" else Damaged(seen.path, problem.reason)


def sound(files: Iterable[Seen], failure: Callable[[Seen, Problem], OlympiaError] = _failure) -> Iterator[Seen]:
    """The files, as long as nothing is wrong with them."""
    for seen in files:
        if seen.problem is not None:
            raise failure(seen, seen.problem)
        yield seen


def _node_code(data: bytes, reason: str) -> str:
    if not data:
        return "F202"
    if not data.startswith(b"ARROW1"):
        return "F203"
    if not data.endswith(b"ARROW1"):
        return "F204"
    return "F206" if "digest" in reason else "F208" if "in order" in reason else "F207"


def _definition_code(reason: str) -> str:
    return "F304" if "digest" in reason else "F302" if "id" in reason.split() or "empty" in reason else "F303"
