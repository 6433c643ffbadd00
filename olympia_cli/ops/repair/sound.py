"""The newest version that is whole, for a repair that goes back to it."""

from __future__ import annotations

from collections.abc import Sequence

from olympia_cli.errors import Damaged
from olympia_cli.format.definitions import sizes_of
from olympia_cli.format.keys import KeyCodec, kind_of_key
from olympia_cli.format.node import Node
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, NamespaceName
from olympia_cli.ops.repair.files import Files, ReadRoot
from olympia_cli.ops.repair.tree import read_range
from olympia_cli.tree.edit import max_keys, min_keys
from olympia_cli.tree.load import MAX_DEPTH, bounds


def newest_sound(files: Files, versions: Sequence[int], catalog: CatalogDef) -> int | None:
    """The newest of the versions of which every file is whole; None when there is none."""
    check = _Check(files, catalog)
    return next((version for version in sorted(versions, reverse=True) if check.is_sound(files.root(version))), None)


class _Check:
    """Remembers subtrees, so that a version costs only what it does not share with those looked at before."""

    def __init__(self, files: Files, catalog: CatalogDef) -> None:
        sizes = sizes_of(catalog)
        self._files = files
        self._catalog = catalog
        self._codec = KeyCodec(sizes.namespace, sizes.table, sizes.view)
        self._most, self._fewest = max_keys(sizes.order), min_keys(sizes.order)
        self._heights: dict[tuple[str, str | None, str | None], int] = {}

    def is_sound(self, read: ReadRoot) -> bool:
        root = read.root
        if root is None or read.actions is None:
            return False
        if root.previous_root != (root_path(read.version - 1) if read.version else None):
            return False
        sizes = sizes_of(self._catalog)
        definition = self._files.definition(Kind.CATALOG, root.catalog_def)
        if not isinstance(definition, CatalogDef) or definition.id != self._catalog.id:
            return False
        if sizes_of(definition) != sizes or root.sizes not in (None, sizes):
            return False
        if not self._height(root.node, None, None, 1, is_root=True):
            return False
        entries = read_range(self._files, root.node, "", None)
        return entries is not None and self._has_namespaces(entries)

    def _height(self, node: Node, low: str | None, high: str | None, depth: int, is_root: bool = False) -> int:
        """The levels of a subtree; 0 when anything in it is not as it should be."""
        if depth > MAX_DEPTH or len(node.keys) > self._most or (len(node.keys) < self._fewest and not is_root):
            return 0
        if node.children and not node.keys:
            return 0
        if node.keys and ((low is not None and node.keys[0] <= low) or (high is not None and node.keys[-1] >= high)):
            return 0
        if not self._are_legal(node):
            return 0
        paths = [child for child in node.children if isinstance(child, str)]
        if any(path in self._files.bad for path in paths):
            return 0
        places = [(path, *bounds(node, at, low, high)) for at, path in enumerate(paths)]
        # all that is new of a node's children in one go
        self._files.nodes([place[0] for place in places if place not in self._heights])
        heights = set()
        for place in places:
            if place not in self._heights:
                [read] = self._files.nodes([place[0]])
                self._heights[place] = 0 if read.node is None else self._height(read.node, *place[1:], depth + 1)
            heights.add(self._heights[place])
            if not self._heights[place]:
                return 0
        if len(heights) > 1 or len(set(paths)) != len(paths):
            return 0
        return 1 + (heights.pop() if heights else 0)

    def _are_legal(self, node: Node) -> bool:
        try:
            for key in node.keys:
                self._codec.decode(key, "")
        except Damaged:
            return False
        wanted = [
            (kind_of_key(key, ""), value)
            for key, value in zip(node.keys, node.values, strict=True)
            if value is not None
        ]
        return not any(reason for _, _, reason in self._files.ids(wanted))

    def _has_namespaces(self, entries: dict[str, str]) -> bool:
        names = [self._codec.decode(key, "") for key in entries]
        there = {name.namespace for name in names if isinstance(name, NamespaceName)}
        return all(name.namespace in there for name in names)
