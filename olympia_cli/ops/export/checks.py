"""What each file of an export is held to, a file at a time: whoever read it, and from wherever. No store in here."""

from __future__ import annotations

from collections.abc import Iterator
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
from olympia_cli.tree.load import MAX_DEPTH, bounds, check_range

FAILURES_IN_A_ROW = 20
"""So many files that the store cannot read mean that the store is ill, and not the files."""


class Problem(NamedTuple):
    """What is wrong with a file: a code of fsck's, and why."""

    code: str
    reason: str


class Place(NamedTuple):
    """Where a node is in the tree: all its keys lie between these two."""

    path: str
    low: str | None = None
    high: str | None = None

    @property
    def rank(self) -> str:
        """The nodes of a level in order: no two of them begin at the same key."""
        return "" if self.low is None else "+" + self.low


class Pointer(NamedTuple):
    """What a node points to: a child and its bounds, or a definition and its object's key. The catalog's has none."""

    path: str
    is_node: bool
    key: str | None = None
    low: str | None = None
    high: str | None = None

    @property
    def place(self) -> Place:
        return Place(self.path, self.low, self.high)


class FileChecks:
    """Is this file what the tree says that it is? One for each store that is read, since it counts what fails."""

    def __init__(self) -> None:
        self._failures = 0

    def node(self, place: Place, data: bytes | StoreError) -> tuple[Node | None, Problem | None]:
        """The node that a file holds, or why it holds none."""
        if isinstance(data, Exception):
            return None, self._unread(data, "F201", "a node of the tree is missing")
        self._failures = 0
        try:
            node = decode_node(data, place.path).node
        except Damaged as error:
            return None, Problem(error.code, error.reason)
        try:
            check_range(node, place.path, place.low, place.high)
        except Damaged as error:
            return None, Problem("F209", error.reason)
        return node, None

    def definition(self, path: str, key: str | None, data: bytes | StoreError) -> Problem | None:
        """What is wrong with the definition of the object with this key, or of the catalog."""
        kind = Kind.CATALOG if key is None else kind_of_key(key, path)
        if isinstance(data, Exception):
            what = "the catalog definition" if kind is Kind.CATALOG else f"the definition of a {kind.word}"
            return self._unread(data, "F307" if kind is Kind.CATALOG else "F301", f"{what} is missing")
        self._failures = 0
        try:
            decode(CLASSES[kind], data, path)
        except Damaged as error:
            return Problem(error.code, error.reason)
        return None

    def succeeded(self) -> None:
        """A file was read that needs no look: its content is known already."""
        self._failures = 0

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


def root_pointers(root: Root, path: str) -> Iterator[Pointer | Problem]:
    """What a root points to, the definition of the catalog first."""
    try:
        yield Pointer(check_pointer(root.catalog_def, path), False)
    except Damaged as error:
        yield Problem("F212", error.reason)
    yield from node_pointers(root.node, Place(path))


def node_pointers(node: Node, place: Place) -> Iterator[Pointer | Problem]:
    """What a node points to, and what is wrong with that: definitions, then children, each in order of their keys."""
    for key, value in zip(node.keys, node.values, strict=True):
        if value is None:
            continue
        try:
            kind_of_key(key, place.path)
        except Damaged as error:
            yield Problem("F215", error.reason)
            continue
        try:
            yield Pointer(check_pointer(value, place.path), False, key)
        except Damaged as error:
            yield Problem("F212", error.reason)
    for at, child in enumerate(node.children):
        assert isinstance(child, str)
        low, high = bounds(node, at, place.low, place.high)
        try:
            yield Pointer(check_pointer(child, place.path), True, None, low, high)
        except Damaged as error:
            yield Problem("F212", error.reason)


# What only several files together show

OTHER_LEVEL = Problem("F210", "it is not on the level of its neighbours")


def second_place(path: str) -> Problem:
    """What is wrong with a node whose child is found elsewhere in the tree too."""
    return Problem("F214", f"it points to {path}, which has another place in this version")


def too_deep() -> Problem:
    return Problem("F213", f"the tree is deeper than {MAX_DEPTH} levels")


# As errors


def failure(path: str, problem: Problem) -> OlympiaError:
    """Why a version cannot be exported."""
    return StorageFailed(problem.reason) if problem.code == "F205" else Damaged(problem.code, path, problem.reason)


def copy_failure(dest: str, path: str, problem: Problem) -> Damaged:
    """Why what is at the destination is no export."""
    return Damaged(
        problem.code,
        f"{dest}/{path}",
        f"the copy is not whole: {problem.reason}",
        hint="delete that file at the destination, then resume the export",
    )
