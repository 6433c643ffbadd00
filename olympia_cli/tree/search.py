"""Finding one key: one node a level."""

from __future__ import annotations

from olympia_cli.format.node import Node
from olympia_cli.tree.load import NodeReader, bounds, check_depth, check_range


def search(reader: NodeReader, root: Node, key: str) -> str | None:
    """The value of the key, or None."""
    node, low, high, depth = root, None, None, 0
    while True:
        at, found = node.find(key)
        if found:
            return node.values[at]
        if node.is_leaf:
            return None
        child = node.children[at]
        low, high = bounds(node, at, low, high)
        depth += 1
        check_depth(depth, child)
        node = reader.node(child)
        check_range(node, child, low, high)


def depth(reader: NodeReader, root: Node) -> int:
    """How many levels the tree has, the root's included."""
    node, levels = root, 1
    while not node.is_leaf:
        check_depth(levels, node.children[0])
        node = reader.node(node.children[0])
        levels += 1
    return levels
