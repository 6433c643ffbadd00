"""Find a key, or the keys of a range in order. Only the nodes that may hold the keys are read."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import cast

from olympia_cli.format.keys import after_prefix
from olympia_cli.format.node import Child, Node
from olympia_cli.tree.load import MAX_DEPTH, NodeReader, bounds, check_depth, check_range

# One key. A search reads one node per level.


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


# Many keys in order


def scan(reader: NodeReader, root: Node, prefix: str = "", after: str = "") -> Iterator[tuple[str, str]]:
    """Yield the keys with the prefix and their values in order, starting after the key `after`. Skip tombstones."""
    for keys, values in scan_nodes(reader, root, prefix, after):
        yield from zip(keys, values, strict=True)


def scan_nodes(
    reader: NodeReader, root: Node, prefix: str = "", after: str = ""
) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """Like `scan`, but yield the keys of one node at a time."""
    high = after_prefix(prefix) if prefix else None
    # no key lies between a key and the same key with a NUL appended
    start = max(prefix, after + "\0") if after else prefix
    return _present(_scan(reader, root, start, high, None, None, 1))


def scan_subtree(
    reader: NodeReader, child: Child, start: str, end: str | None, low: str | None, high: str | None, depth: int
) -> Iterator[tuple[str, str]]:
    """Yield the keys from `start` up to `end` below a child pointer, and their values, in order.

    `low` and `high` are the keys around the pointer in its node, which is on level `depth`.
    """
    check_depth(depth, child)
    node = reader.node(child)
    check_range(node, child, low, high)
    for keys, values in _present(_scan(reader, node, start, end, low, high, depth + 1)):
        yield from zip(keys, values, strict=True)


Entries = tuple[Sequence[str], Sequence[str | None]]
"""Consecutive keys and their values, about as many as a node has."""


def _present(found: Iterator[Entries]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    for keys, values in found:
        if None in values:
            keys = [key for key, value in zip(keys, values, strict=True) if value is not None]
            values = [value for value in values if value is not None]
        if values:
            yield keys, cast("Sequence[str]", values)


def _scan(
    reader: NodeReader, node: Node, start: str, end: str | None, low: str | None, high: str | None, depth: int
) -> Iterator[Entries]:
    first, last = _between(node, start, end)
    if node.is_leaf:
        yield node.keys[first:last], node.values[first:last]
        return
    # if `start` is a key of this node, all keys of the child to its left are smaller
    skipped = first < len(node.keys) and node.keys[first] == start
    if skipped:
        yield (start,), (node.values[first],)
    begin = first + skipped
    check_depth(depth, node.children[begin])
    for at, child in enumerate(reader.nodes(node.children[begin : last + 1]), begin):
        child_low, child_high = bounds(node, at, low, high)
        check_range(child, node.children[at], child_low, child_high)
        behind = slice(at, min(at + 1, last))
        if child.is_leaf:
            # together with the next key of this node: most entries of a list come from leaves
            within = slice(*_between(child, start, end))
            yield child.keys[within] + node.keys[behind], child.values[within] + node.values[behind]
        else:
            yield from _scan(reader, child, start, end, child_low, child_high, depth + 1)
            yield node.keys[behind], node.values[behind]


def _between(node: Node, start: str, end: str | None) -> tuple[int, int]:
    """Return the indexes of the first key at or after `start`, and of the first at or after `end`."""
    return bisect_left(node.keys, start), len(node.keys) if end is None else bisect_left(node.keys, end)
