"""A node of the tree as a value. No bytes and no I/O here."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """Keys in order, their values, and the children around them.

    A leaf has no children; any other node has one more child than it has keys. A child is the path of a
    node file, or a node that no file holds yet. A value is the path of a definition; None is a
    tombstone, which other programs write for a deleted key.
    """

    keys: tuple[str, ...]
    values: tuple[str | None, ...]
    children: tuple[Child, ...] = ()

    @property
    def is_leaf(self) -> bool:
        return not self.children

    def find(self, key: str) -> tuple[int, bool]:
        """Where the key is, or the index of the child that would hold it."""
        at = bisect_left(self.keys, key)
        return at, at < len(self.keys) and self.keys[at] == key


Child = str | Node
EMPTY = Node((), ())


@dataclass(frozen=True, slots=True)
class Sizes:
    """What fixes the shape of a catalog's keys and tree for its whole life."""

    order: int
    namespace: int
    table: int
    view: int


@dataclass(frozen=True, slots=True)
class Root:
    """A version: the top node of its tree, and what the version says of itself.

    `sizes` is None in roots of other programs; then the catalog definition alone has them.
    """

    node: Node
    catalog_def: str
    created_at_millis: int
    previous_root: str | None = None
    rollback_from_root: str | None = None
    sizes: Sizes | None = None
