"""Nodes and roots, complete or as far as they can be read: functions of their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from olympia_cli.errors import Damaged, OlympiaError, Unsupported
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.keys import CATALOG_DEF
from olympia_cli.format.node import Node, Root, Sizes
from olympia_cli.format.node_file import CREATED_AT_MILLIS, decode_action_rows, decode_node, decode_root
from olympia_cli.format.paths import parse_root_path, root_path
from olympia_cli.ops.walk.flaws import Flaw, flaw_of
from olympia_cli.ops.walk.remains import Remains, number_in, remains_of_node


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
