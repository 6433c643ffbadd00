"""Read nodes from a store, and check them, so that a damaged tree cannot mislead a reader."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from olympia_cli.errors import Damaged, PathMissing
from olympia_cli.format.codec import decode_node
from olympia_cli.format.node import Child, Node, Sizes
from olympia_cli.format.paths import check_pointer
from olympia_cli.storage.protocol import Store

MAX_DEPTH = 64
"""The largest depth of a tree. A deeper chain of nodes is a cycle."""


class NodeReader:
    """Nodes by path, with a cache: node files never change. Thread-safe."""

    def __init__(self, store: Store, *, keep: int = 256, java: bool = False, sizes: Sizes | None = None) -> None:
        """Create a reader with a cache for `keep` nodes. `sizes` are the catalog's, if known."""
        self._store = store
        self._sizes = sizes
        self.java = java
        self._keep = keep
        self._nodes: dict[str, Node] = {}
        self._lock = threading.Lock()

    def node(self, child: Child) -> Node:
        """Return the node of a child pointer."""
        known = self._nodes.get(child) if isinstance(child, str) else child
        if known is not None:
            return known
        return next(self.nodes([child]))

    def nodes(self, children: Sequence[Child]) -> Iterator[Node]:
        """Yield the nodes of child pointers in order, read in parallel if the store supports it."""
        # look up all of them now: a cached node may be evicted before its turn
        found = ((child, self._nodes.get(child)) for child in children if isinstance(child, str))
        known = {child: node for child, node in found if node is not None}
        missing = [child for child in children if isinstance(child, str) and child not in known]
        for path in missing:
            check_pointer(path, path)
        read = iter(self._store.read_many(missing) if missing else ())
        for child in children:
            if isinstance(child, Node):
                yield child
            elif child in known:
                yield known[child]
            else:
                path, data = next(read)
                if isinstance(data, PathMissing):
                    raise Damaged("F201", path, "a node of the tree is missing") from None
                if isinstance(data, Exception):
                    raise data
                yield self.keep(path, data)

    def ahead(self, paths: Iterable[str]) -> dict[str, Node]:
        """Read the nodes in one round trip. Return the readable ones; `nodes` raises the errors of the others."""
        known = {path: self._nodes.get(path) for path in paths}
        missing = []
        for path in (path for path, node in known.items() if node is None):
            with contextlib.suppress(Damaged):
                missing.append(check_pointer(path, path))
        for path, data in self._store.read_many(missing) if missing else ():
            if isinstance(data, bytes):
                with contextlib.suppress(Damaged):
                    known[path] = self.keep(path, data)
        return {path: node for path, node in known.items() if node is not None}

    def knows(self, path: str) -> bool:
        """Return True if the node is cached."""
        return path in self._nodes

    def keep(self, path: str, data: bytes) -> Node:
        """Decode a node that the caller has read, and cache it."""
        node = decode_node(data, path, self.java, self._sizes).node
        self.remember(path, node)
        return node

    def remember(self, path: str, node: Node) -> None:
        """Cache the node of a path."""
        if self._keep:
            with self._lock:
                while len(self._nodes) >= self._keep:
                    self._nodes.pop(next(iter(self._nodes)))
                self._nodes[path] = node


def same_nodes(reader: NodeReader, one: Node, other: Node) -> bool:
    """Return True if two trees have equal nodes, wherever they are stored."""
    if one is other:
        return True
    if one.keys != other.keys or one.values != other.values or len(one.children) != len(other.children):
        return False
    apart = [pair for pair in zip(one.children, other.children, strict=True) if pair[0] != pair[1]]
    nodes = zip(reader.nodes([a for a, _ in apart]), reader.nodes([b for _, b in apart]), strict=True)
    return all(same_nodes(reader, a, b) for a, b in nodes)


class Keyed(Protocol):
    """A node, or the facts about one."""

    @property
    def keys(self) -> tuple[str, ...]: ...


def check_range(node: Keyed, child: Child, low: str | None, high: str | None) -> None:
    """Raise Damaged unless all keys lie between the keys around the pointer to the node.

    A pointer back to an ancestor always violates this, so no reader follows a cycle.
    """
    if node.keys and ((low is not None and node.keys[0] <= low) or (high is not None and node.keys[-1] >= high)):
        raise Damaged(
            "F209",
            _named(child),
            "its keys lie outside the range that its parent gives it",
        )


def bounds(node: Keyed, at: int, low: str | None, high: str | None) -> tuple[str | None, str | None]:
    """Return the keys that limit the keys of child `at`."""
    return (node.keys[at - 1] if at else low), (node.keys[at] if at < len(node.keys) else high)


def check_depth(depth: int, child: Child) -> None:
    """Raise Damaged if the depth exceeds the limit, because the path has a cycle."""
    if depth > MAX_DEPTH:
        raise Damaged("F210", _named(child), f"the tree is deeper than {MAX_DEPTH} levels")


def check_level(node: Node, child: Child, neighbour: Node) -> None:
    """Raise Damaged if one of two siblings is a leaf and the other is not."""
    if node.is_leaf != neighbour.is_leaf:
        raise Damaged("F210", _named(child), "it is not on the level of its neighbours")


def _named(child: Child) -> str:
    return child if isinstance(child, str) else "a new node"
