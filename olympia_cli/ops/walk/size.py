"""The size of a tree: count its nodes, and estimate its objects with one read per level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.format.node import Child, Node
from olympia_cli.ops.walk.descend import descend
from olympia_cli.tree.load import NodeReader, check_depth


def count_nodes(reader: NodeReader, root: Node) -> int:
    """Return the number of nodes of a tree, with the root. Leaves are counted by their pointers, and not read."""

    def look(level: Sequence[Child]) -> Iterable[tuple[Child, Node]]:
        leaves = reader.node(level[0]).is_leaf
        return () if leaves else zip(level, reader.nodes(level), strict=True)

    count = 1
    for depth, level in enumerate(descend(root.children, look, lambda _, node: node.children, at_once=None), 1):
        check_depth(depth, level[0])
        count += len(level)
    return count


def estimated_objects(snapshot: Snapshot) -> int:
    """Estimate the objects of a version from one node in the middle of each level. Raise an error if such a node is
    damaged.
    """
    objects, alike = 0, 1
    tops: list[Child] = [snapshot.root.node]

    def visit(_: Child, node: Node) -> Iterator[Child]:
        nonlocal objects, alike
        objects += alike * len(node.keys)
        alike *= len(node.children)
        if node.children:
            yield node.children[len(node.children) // 2]

    def look(level: Sequence[Child]) -> Iterable[tuple[Child, Node]]:
        return zip(level, snapshot.reader.nodes(level), strict=True)

    for depth, level in enumerate(descend(tops, look, visit)):
        check_depth(depth, level[0])
    return objects
