"""Trees on a store, for tests: writing what an edit returns, and the invariants of every tree."""

from __future__ import annotations

from olympia_cli.format.codec import encode_node
from olympia_cli.format.node import Node
from olympia_cli.format.paths import new_node_path
from olympia_cli.tree.edit import max_keys, min_keys


def write_tree(store, node: Node) -> Node:
    """Write all new nodes below the root; the root with paths in their place."""
    return Node(node.keys, node.values, tuple(_write(store, child) for child in node.children))


def write_node(store, node: Node) -> str:
    """Write one node whose children are written; for bulk loading."""
    path = new_node_path()
    store.create(path, encode_node(node, 0))
    return path


def _write(store, child):
    return child if isinstance(child, str) else write_node(store, write_tree(store, child))


def check_tree(reader, root: Node, order: int) -> int:
    """Assert every invariant of the format; the number of levels."""
    return _check(reader, root, order, None, None, top=True)


def _check(reader, node: Node, order: int, low: str | None, high: str | None, top: bool) -> int:
    assert list(node.keys) == sorted(set(node.keys)), "keys are in order"
    assert len(node.keys) == len(node.values)
    assert len(node.keys) <= max_keys(order), "a node has at most N-1 keys"
    assert all(low is None or key > low for key in node.keys), "keys lie above the parent's key to the left"
    assert all(high is None or key < high for key in node.keys), "keys lie below the parent's key to the right"
    if not top:
        assert len(node.keys) >= max(1, min_keys(order)), "only the root may be less than half full"
    if not node.children:
        return 1
    assert len(node.children) == len(node.keys) + 1, "one more child than keys"
    assert len(node.keys) >= 1, "an inner node, the root too, has two children"
    edges = [low, *node.keys, high]
    levels = {
        _check(reader, reader.node(child), order, edges[at], edges[at + 1], top=False)
        for at, child in enumerate(node.children)
    }
    assert len(levels) == 1, "all leaves are on one level"
    return levels.pop() + 1
