"""Find a key. A search reads one node per level."""

from __future__ import annotations

from collections.abc import Iterable

from olympia_cli.format.node import Node
from olympia_cli.tree.load import MAX_DEPTH, NodeReader, bounds, check_depth, check_range


def search(reader: NodeReader, root: Node, key: str) -> str | None:
    """Return the value of the key, or None."""
    node, low, high, depth = root, None, None, 0
    while True:
        at, found = node.find(key)
        if reader.java and not node.is_leaf and (found or isinstance(node.children[at], Node)):
            _check_beside(reader, node, at, low, high)
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


def _check_beside(reader: NodeReader, node: Node, at: int, low: str | None, high: str | None) -> None:
    """Raise Damaged if a child next to a key, or next to a missing pointer, has keys outside its range.

    The Java SDK may move a key up but also leave it below, with its successors. A scan detects that, so a search must
    detect it, too. Otherwise it would return one of two values, or nothing where a listing fails.
    """
    there = [index for index, child in enumerate(node.children) if isinstance(child, str)]
    beside = [index for index in there if index <= at][-1:] + [index for index in there if index > at][:1]
    for index, child in zip(beside, reader.nodes([node.children[index] for index in beside]), strict=True):
        check_range(child, node.children[index], *bounds(node, index, low, high))


def search_ahead(reader: NodeReader, searches: Iterable[tuple[Node, str]]) -> list[str]:
    """Read the nodes on the way to a key in each of several trees, one level per round trip. Return the values found.

    A search that fails is skipped; a later `search` raises its error.
    """
    level, values = list(searches), []
    for _ in range(MAX_DEPTH):
        ways = []
        for node, key in level:
            at, found = node.find(key)
            if found:
                values.append(node.values[at])
            elif not node.is_leaf and isinstance(child := node.children[at], str):
                ways.append((child, key))
        nodes = reader.ahead(child for child, _ in ways) if ways else {}
        level = [(nodes[child], key) for child, key in ways if child in nodes]
    return [value for value in dict.fromkeys(values) if value is not None]


def depth(reader: NodeReader, root: Node) -> int:
    """Return the number of levels of the tree, including the root."""
    node, levels = root, 1
    while not node.is_leaf:
        check_depth(levels, node.children[0])
        node = reader.node(node.children[0])
        levels += 1
    return levels
