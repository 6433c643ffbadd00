"""Nodes and roots, whole or as far as they can be read: functions of their bytes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from olympia_cli.errors import Damaged, OlympiaError, Unsupported
from olympia_cli.format.actions import Action, decode_action
from olympia_cli.format.keys import CATALOG_DEF
from olympia_cli.format.node import Node, Root, Sizes
from olympia_cli.format.node_file import CREATED_AT_MILLIS, PREVIOUS_ROOT, decode_action_rows, decode_node, decode_root
from olympia_cli.format.paths import root_path
from olympia_cli.format.salvage import salvage
from olympia_cli.ops.look.dump_node import dump_node
from olympia_cli.ops.look.dump_values import NodeDump
from olympia_cli.ops.look.node_target import NodeBytes
from olympia_cli.ops.walk.flaws import Flaw, flaw_of


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


def read_node(path: str, data: bytes | Flaw, sizes: Sizes | None) -> ReadNode:
    """The node in a file, or what there is of it; `sizes` are those of the catalog where they are known."""
    if isinstance(data, Flaw):
        return ReadNode(path, None, flaw=data)
    try:
        return ReadNode(path, decode_node(data, path).node)
    except Damaged as error:
        return _remains(dump_node(NodeBytes(path, data, False), sizes), flaw_of(error))


def read_root(version: int, data: bytes | Flaw, sizes: Sizes | None) -> ReadRoot:
    path = root_path(version)
    if isinstance(data, Flaw):
        return ReadRoot(version, None, ReadNode(path, None, flaw=data))
    actions = _actions(path, data)
    try:
        root = decode_root(data, path)
    except Damaged as error:
        dump = dump_node(NodeBytes(path, data, False), sizes)
        return ReadRoot(
            version,
            None,
            _remains(dump, flaw_of(error)),
            dump.system.get(CATALOG_DEF),
            created_at_millis(dump),
            dump.system.get(PREVIOUS_ROOT),
            salvage(data).sizes,
            actions,
        )
    top = ReadNode(path, root.node)
    return ReadRoot(
        version, root, top, root.catalog_def, root.created_at_millis, root.previous_root, root.sizes, actions
    )


def created_at_millis(dump: NodeDump) -> int:
    """When a node says that it was written; 0 when it does not."""
    text = dump.system.get(CREATED_AT_MILLIS, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else 0


def _remains(dump: NodeDump, flaw: Flaw) -> ReadNode:
    """What can be read of a node that is not whole."""
    rows = tuple((row.key, row.value) for row in dump.pivot if row.key is not None)
    return ReadNode(dump.path, None, rows, tuple(row.pnode for row in dump.pivot if row.pnode is not None), flaw)


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
