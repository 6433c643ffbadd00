"""Counting the nodes of a tree."""

from __future__ import annotations

from olympia_cli.format.node import Node
from olympia_cli.tree.load import NodeReader


def count_nodes(reader: NodeReader, root: Node) -> int:
    """How many nodes a tree has, the root included. Leaves are counted by the pointers to them, unread."""
    count, level = 1, [root]
    while level and level[0].children:
        children = [child for node in level for child in node.children]
        count += len(children)
        first = reader.node(children[0])
        if first.is_leaf:
            break
        level = list(reader.nodes(children))
    return count
