"""Which files versions reach. Every file is read once, however many versions share it."""

from __future__ import annotations

from collections.abc import Iterable

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.format.node import Node


def reachable(snapshots: Iterable[Snapshot]) -> set[str]:
    """The paths of the roots, nodes and definitions that the versions need."""
    found: set[str] = set()
    for snapshot in snapshots:
        found.update((snapshot.file.path, snapshot.root.catalog_def))
        level = [snapshot.root.node]
        while level:
            new = _below(level, found)
            level = list(snapshot.reader.nodes(new))
    return found


def _below(level: list[Node], found: set[str]) -> list[str]:
    """Note what the nodes point to; the children that were not known before."""
    new = []
    for node in level:
        found.update(value for value in node.values if value is not None)
        for child in node.children:
            if isinstance(child, str) and child not in found:
                found.add(child)
                new.append(child)
    return new
