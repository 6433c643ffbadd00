"""Build a tree bottom-up from sorted keys. Each node is written once, and one path of the tree is in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice, pairwise
from operator import lt

from olympia_cli.errors import InvalidOption
from olympia_cli.format.node import Child, Node
from olympia_cli.tree.edit import max_keys, min_keys

WriteNode = Callable[[Node], Child]
"""Writes a node and returns its path, or returns the node itself, to be written later."""


def bulk_load(items: Iterable[tuple[str, str]], order: int, write: WriteNode, fill: float = 1.0) -> Node:
    """Build a tree and return its root. Every other node is passed to `write`, children before parents.

    `fill` is the fill factor of nodes, as a share of the most keys that the order allows.
    """
    if not 0 < fill <= 1:
        raise InvalidOption(f"the fill factor {fill} is out of range", hint="choose one above 0 and up to 1")
    target = max(min_keys(order), min(max_keys(order), round(fill * max_keys(order))), 1)
    leaves = _Level(order, target, write)
    items, last = iter(items), None
    # one leaf at a time, with the key after it: trees have millions of keys
    while some := list(islice(items, target + 1)):
        keys, values = zip(*some, strict=True)
        _check_order(keys if last is None else (last, *keys))
        last = keys[-1]
        leaves.add_leaf(keys, values)
    return leaves.finish()


def _check_order(keys: Sequence[str]) -> None:
    if not all(map(lt, keys, keys[1:])):
        wrong = next(key for before, key in pairwise(keys) if key <= before)
        raise InvalidOption(f"bulk loading needs keys in order, and {wrong[:60]!a} is not above its predecessor")


class _Level:
    """A level under construction. The last complete node is held back, because it may have to share keys with the
    end.
    """

    def __init__(self, order: int, target: int, write: WriteNode) -> None:
        self._order = order
        self._target = target
        self._write = write
        self._keys: list[str] = []
        self._values: list[str | None] = []
        self._children: list[Child] = []
        self._held: tuple[Node, str, str | None] | None = None
        self._parent: _Level | None = None

    def add_leaf(self, keys: Sequence[str], values: Sequence[str | None]) -> None:
        """Add the keys of one node and the key after them. The last call may have fewer."""
        self._keys += keys[: self._target]
        self._values += values[: self._target]
        for key, value in zip(keys[self._target :], values[self._target :], strict=True):
            self.add_key(key, value)

    def add_child(self, child: Child) -> None:
        self._children.append(child)

    def add_key(self, key: str, value: str | None) -> None:
        if len(self._keys) < self._target:
            self._keys.append(key)
            self._values.append(value)
            return
        self._hand_up()
        self._held = (self._take(), key, value)

    def finish(self) -> Node:
        """Complete this level and those above it. Return the root."""
        node = self._take()
        if self._held is not None:
            node = self._balance_end(*self._held, node)
        if self._parent is None:
            return node
        self._parent.add_child(self._write(node))
        return self._parent.finish()

    def _balance_end(self, left: Node, key: str, value: str | None, right: Node) -> Node:
        """Balance the held node and the last node, so that neither has too few keys. Return the last one."""
        if len(right.keys) >= min_keys(self._order):
            self._hand_up()
            return right
        keys = (*left.keys, key, *right.keys)
        values = (*left.values, value, *right.values)
        children = left.children + right.children
        if len(keys) <= max_keys(self._order):
            return Node(keys, values, children)
        at = len(keys) // 2
        self._held = (Node(keys[:at], values[:at], children[: at + 1]), keys[at], values[at])
        self._hand_up()
        return Node(keys[at + 1 :], values[at + 1 :], children[at + 1 :])

    def _hand_up(self) -> None:
        """Write the held node, and pass its path and the key after it to the level above."""
        if self._held is None:
            return
        node, key, value = self._held
        self._held = None
        if self._parent is None:
            self._parent = _Level(self._order, self._target, self._write)
        self._parent.add_child(self._write(node))
        self._parent.add_key(key, value)

    def _take(self) -> Node:
        node = Node(tuple(self._keys), tuple(self._values), tuple(self._children))
        self._keys, self._values, self._children = [], [], []
        return node
