"""The nodes of the tree and roots as values, without bytes and I/O."""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Node:
    """A node: sorted keys, their values, and the children between them.

    A leaf has no children. Any other node has one child more than keys. A child is the path of a node file, or a node
    that is not written yet. A value is the path of a definition. None is a tombstone, which other programs write for a
    deleted key.
    """

    keys: tuple[str, ...]
    values: tuple[str | None, ...]
    children: tuple[Child, ...] = ()

    @property
    def is_leaf(self) -> bool:
        return not self.children

    def find(self, key: str) -> tuple[int, bool]:
        """Return the index of the key and True, or the index of the child that may hold it and False."""
        at = bisect_left(self.keys, key)
        return at, at < len(self.keys) and self.keys[at] == key


Child = str | Node
EMPTY = Node((), ())


@dataclass(frozen=True, slots=True)
class Sizes:
    """The settings that fix the layout of a catalog's keys and tree. They never change."""

    order: int
    namespace: int
    table: int
    view: int


@dataclass(frozen=True, slots=True)
class Root:
    """A version: the top node of its tree, and the version's attributes.

    `sizes` is None in roots of other programs. Then only the catalog definition has them.
    """

    node: Node
    catalog_def: str
    created_at_millis: int
    previous_root: str | None = None
    rollback_from_root: str | None = None
    sizes: Sizes | None = None
