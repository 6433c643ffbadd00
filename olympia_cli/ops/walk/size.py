"""How large a version is, about, from a read a level."""

from __future__ import annotations

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.tree.load import check_depth


def estimated_objects(snapshot: Snapshot) -> int:
    """How many objects a version has, if every node is like its neighbour half-way along its level. What is damaged on
    that way is raised."""
    node, alike, objects, depth = snapshot.root.node, 1, len(snapshot.root.node.keys), 1
    while not node.is_leaf:
        alike *= len(node.children)
        child = node.children[len(node.children) // 2]
        check_depth(depth, child)
        node = snapshot.reader.node(child)
        objects += alike * len(node.keys)
        depth += 1
    return objects
