"""Changes of a tree: edits by copy-on-write, and bulk loading.

An edit returns new nodes, shares unchanged ones, and writes nothing. Bulk loading writes each node once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import groupby, islice, pairwise
from operator import lt
from typing import TypeVar

from olympia_cli.errors import Damaged, InvalidOption
from olympia_cli.format.node import EMPTY, Child, Node
from olympia_cli.tree.load import NodeReader, bounds, check_depth, check_level, check_range

T = TypeVar("T")


def max_keys(order: int) -> int:
    return order - 1


def min_keys(order: int) -> int:
    """Return the fewest keys of a node that is not the root. The format requires this of inner nodes only."""
    return (order + 1) // 2 - 1


def edit(reader: NodeReader, root: Node, changes: Mapping[str, str | None], order: int) -> Node:
    """Return the tree with the keys set to their new values. A value of None removes the key."""
    editor = _Editor(_load_paths(reader, root, changes), reader, order)
    for is_removal, keys in groupby(sorted(changes), lambda key: changes[key] is None):
        if is_removal:
            for key in keys:
                root = editor.remove(root, key)
        else:
            root = editor.put(root, list(keys), changes)
    return root


def _load_paths(reader: NodeReader, root: Node, changes: Mapping[str, str | None]) -> dict[str, Node]:
    """Read every node on the way to a changed key, one level per round trip."""
    loaded: dict[str, Node] = {}
    level: list[tuple[Node, list[str], str | None, str | None]] = [(root, sorted(changes), None, None)]
    depth = 0
    while level:
        wanted: dict[tuple[int, int], tuple[Node, int, list[str], str | None, str | None]] = {}
        for node, keys, low, high in level:
            if not node.children:
                continue
            for at, found, some in _by_child(node, keys):
                if not found or changes[some[0]] is None:
                    # a removed key of an inner node is replaced by its predecessor, from the child to its left
                    wanted.setdefault((id(node), at), (node, at, [], low, high))[2].extend(some)
        if not wanted:
            break
        ways = list(wanted.values())
        children = [node.children[at] for node, at, *_ in ways]
        level = []
        depth += 1
        for (node, at, keys, low, high), child, found_node in zip(ways, children, reader.nodes(children), strict=True):
            check_depth(depth, child)
            child_low, child_high = bounds(node, at, low, high)
            check_range(found_node, child, child_low, child_high)
            if isinstance(child, str):
                loaded[child] = found_node
            level.append((found_node, keys, child_low, child_high))
    return loaded


def _by_child(node: Node, keys: Sequence[str]) -> Iterator[tuple[int, bool, Sequence[str]]]:
    """Group sorted keys by child. Yield index and match as `Node.find` returns them, with the keys of that child."""
    start = 0
    while start < len(keys):
        at, found = node.find(keys[start])
        end = start + 1
        if not found:
            end = bisect_left(keys, node.keys[at], end) if at < len(node.keys) else len(keys)
        yield at, found, keys[start:end]
        start = end


class _OpenNode:
    """A mutable node for insertions. It is copied once for any number of keys."""

    __slots__ = ("children", "found", "is_changed", "keys", "values")

    def __init__(self, found: Child | None, node: Node) -> None:
        """Open a node. `found` is the pointer to it, or None if it is new."""
        self.found = found
        self.is_changed = found is None
        self.keys = list(node.keys)
        self.values = list(node.values)
        self.children: list[Child | _OpenNode] = list(node.children)

    def close(self) -> Child:
        """Return the pointer to the node: the old one if the node is unchanged."""
        if not self.is_changed and self.found is not None:
            return self.found
        children = [child.close() if isinstance(child, _OpenNode) else child for child in self.children]
        return Node(tuple(self.keys), tuple(self.values), tuple(children))


_Split = tuple[str, str | None, _OpenNode]
"""The parts split from a node that was too large: the middle key, its value, and the upper half."""


class _Editor:
    def __init__(self, loaded: dict[str, Node], reader: NodeReader, order: int) -> None:
        self._loaded = loaded
        self._reader = reader
        self._max = max_keys(order)
        self._min = min_keys(order)

    def put(self, root: Node, keys: Sequence[str], values: Mapping[str, str | None]) -> Node:
        """Return the tree with the sorted keys set to their values."""
        top, done = _OpenNode(root, root), 0
        while done < len(keys):
            done, split = self._put(top, keys, done, None, values)
            if split is not None:
                key, value, right = split
                left, top = top, _OpenNode(None, Node((key,), (value,)))
                top.children = [left, right]
        closed = top.close()
        assert isinstance(closed, Node), "a root is found as a node"
        return closed

    def remove(self, root: Node, key: str) -> Node:
        root = self._remove(root, key)
        # an inner root without keys has one child, which becomes the root
        while not root.keys and root.children:
            root = self._node(root.children[0])
        return root if root.keys else EMPTY

    def _node(self, child: Child) -> Node:
        if isinstance(child, Node):
            return child
        node = self._loaded.get(child)
        if node is None:
            node = self._loaded[child] = self._reader.node(child)
        return node

    def _put(
        self, node: _OpenNode, keys: Sequence[str], done: int, high: str | None, new: Mapping[str, str | None]
    ) -> tuple[int, _Split | None]:
        """Insert the keys below `high`, from index `done`, and stop early if the node must be split.

        Return the index of the next key, and the split. The split precedes the next insertion, so that the tree is the
        same as after single insertions.
        """
        while done < len(keys) and (high is None or keys[done] < high):
            key = keys[done]
            at = bisect_left(node.keys, key)
            if at < len(node.keys) and node.keys[at] == key:
                node.is_changed |= node.values[at] != new[key]
                node.values[at] = new[key]
                done += 1
                continue
            if not node.children:
                node.keys.insert(at, key)
                node.values.insert(at, new[key])
                node.is_changed = True
                done += 1
            else:
                child = node.children[at]
                if not isinstance(child, _OpenNode):
                    child = node.children[at] = _OpenNode(child, self._node(child))
                end = node.keys[at] if at < len(node.keys) else high
                done, split = self._put(child, keys, done, end, new)
                node.is_changed |= child.is_changed
                if split is not None:
                    key, value, right = split
                    node.keys.insert(at, key)
                    node.values.insert(at, value)
                    node.children.insert(at + 1, right)
            if len(node.keys) > self._max:
                return done, _split(node)
        return done, None

    def _remove(self, node: Node, key: str) -> Node:
        """Return the node without the key. It may have one key too few, which the caller repairs."""
        at, found = node.find(key)
        if node.is_leaf:
            return Node(_without(node.keys, at), _without(node.values, at)) if found else node
        child = self._node(node.children[at])
        if found:
            child, last_key, last_value = self._pop_last(child)
            node = Node(
                _replace(node.keys, at, last_key),
                _replace(node.values, at, last_value),
                _replace(node.children, at, child),
            )
        else:
            smaller = self._remove(child, key)
            if smaller is child:
                return node
            node = Node(node.keys, node.values, _replace(node.children, at, smaller))
        return self._mend(node, at)

    def _pop_last(self, node: Node) -> tuple[Node, str, str | None]:
        """Return the node without its last key, and that key with its value."""
        if node.is_leaf:
            if not node.keys:
                raise Damaged("F211", "a leaf of the tree", "it has no keys")
            return Node(node.keys[:-1], node.values[:-1]), node.keys[-1], node.values[-1]
        last = len(node.children) - 1
        child, key, value = self._pop_last(self._node(node.children[last]))
        return (
            self._mend(Node(node.keys, node.values, _replace(node.children, last, child)), last),
            key,
            value,
        )

    def _mend(self, node: Node, at: int) -> Node:
        """Restore the minimum size of child `at`: move a key from a sibling, or merge with a sibling."""
        child = self._node(node.children[at])
        if len(child.keys) >= self._min or not node.keys:
            return node
        left = self._node(node.children[at - 1]) if at else None
        if left is not None:
            check_level(left, node.children[at - 1], child)
        if left is not None and len(left.keys) > self._min:
            return self._rotate_right(node, at - 1, left, child)
        right = self._node(node.children[at + 1]) if at < len(node.keys) else None
        if right is not None:
            check_level(right, node.children[at + 1], child)
        if right is not None and len(right.keys) > self._min:
            return self._rotate_left(node, at, child, right)
        if left is not None:
            return self._merge(node, at - 1, left, child)
        assert right is not None, "an inner node with a key has two children"
        return self._merge(node, at, child, right)

    def _rotate_right(self, node: Node, at: int, left: Node, right: Node) -> Node:
        """Move the last key of the left child up, and the key between the children down into the right child."""
        right = Node(
            (node.keys[at], *right.keys),
            (node.values[at], *right.values),
            (*left.children[-1:], *right.children),
        )
        key, value = left.keys[-1], left.values[-1]
        left = Node(left.keys[:-1], left.values[:-1], left.children[:-1])
        return self._with_pair(node, at, left, key, value, right)

    def _rotate_left(self, node: Node, at: int, left: Node, right: Node) -> Node:
        """Move the first key of the right child up, and the key between the children down into the left child."""
        left = Node(
            (*left.keys, node.keys[at]),
            (*left.values, node.values[at]),
            (*left.children, *right.children[:1]),
        )
        key, value = right.keys[0], right.values[0]
        right = Node(right.keys[1:], right.values[1:], right.children[1:])
        return self._with_pair(node, at, left, key, value, right)

    def _with_pair(self, node: Node, at: int, left: Node, key: str, value: str | None, right: Node) -> Node:
        children = (*node.children[:at], left, right, *node.children[at + 2 :])
        return Node(_replace(node.keys, at, key), _replace(node.values, at, value), children)

    def _merge(self, node: Node, at: int, left: Node, right: Node) -> Node:
        """Merge two children and the key between them."""
        merged = Node(
            (*left.keys, node.keys[at], *right.keys),
            (*left.values, node.values[at], *right.values),
            left.children + right.children,
        )
        children = (*node.children[:at], merged, *node.children[at + 2 :])
        return Node(_without(node.keys, at), _without(node.values, at), children)


def _split(node: _OpenNode) -> _Split:
    """Split a node: keep the lower half, return the middle key, its value, and the upper half."""
    at = len(node.keys) // 2
    right = _OpenNode(None, Node(tuple(node.keys[at + 1 :]), tuple(node.values[at + 1 :])))
    right.children = node.children[at + 1 :]
    key, value = node.keys[at], node.values[at]
    del node.keys[at:], node.values[at:], node.children[at + 1 :]
    return key, value, right


def _replace(items: tuple[T, ...], at: int, item: T) -> tuple[T, ...]:
    return (*items[:at], item, *items[at + 1 :])


def _without(items: tuple[T, ...], at: int) -> tuple[T, ...]:
    return items[:at] + items[at + 1 :]


# Build a tree bottom-up from sorted keys. One path of the tree is in memory.

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
