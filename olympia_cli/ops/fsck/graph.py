"""The nodes of all versions as one graph. Each node is stored once, even if trees share it.

A node is stored as a number, with the numbers of its children, namespaces and definitions.
"""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from olympia_cli.errors import OlympiaError
from olympia_cli.format.node import Node
from olympia_cli.format.node_file import decode_node
from olympia_cli.ops.walk.files import Files
from olympia_cli.ops.walk.flaws import Flaw

NOWHERE = 0xFFFFFFFF
"""The number of a child that cannot be followed."""

_NONE: array[int] = array("I")


@dataclass(frozen=True, slots=True)
class Mark:
    """A flaw of the file at `path`, which damages every version that reaches the node numbered `node`."""

    node: int
    path: str
    flaw: Flaw


class Graph:
    """Nodes by number, and their flaws. The graph holds all nodes found, or only those on the way to a flaw."""

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self.paths: list[str] = []
        self.children: list[array[int]] = []
        self.namespaces: dict[str, int] = {}
        self.has: list[array[int]] = []
        """The namespaces whose keys are in a node."""
        self.needs: list[array[int]] = []
        """The namespaces of the tables and views whose keys are in a node."""
        self.names: list[array[int]] = []
        """The definitions that a node names."""
        self.level = bytearray()
        """The level at which a node was first found; 0 if unknown."""
        self.unreadable: set[int] = set()
        self.doubtful: set[int] = set()
        """Nodes that only damaged nodes name. A missing one is no finding, as its path may be wrong."""
        self.cut: list[tuple[int, int]] = []
        """Pointers that form cycles, as holder and child. They are not followed, but damage spreads along them."""
        self.marks: list[Mark] = []
        self.read_count = self.without_digest = 0

    def __contains__(self, path: str) -> bool:
        return path in self.numbers

    def number(self, path: str, level: int = 0) -> tuple[int, bool]:
        """Return the number of the node at a path, and whether it is new."""
        number = self.numbers.get(path)
        if number is not None:
            return number, False
        number = self.numbers[path] = len(self.paths)
        self.paths.append(path)
        for column in (self.children, self.has, self.needs, self.names):
            column.append(_NONE)
        self.level.append(min(level, 255))
        return number, True

    def namespace_numbers(self, names: Sequence[str]) -> array[int]:
        numbers = self.namespaces
        return array("I", (numbers.setdefault(name, len(numbers)) for name in names)) if names else _NONE

    def naming(self, definitions: Collection[int]) -> dict[int, list[int]]:
        """Return the nodes that name each of these definitions."""
        numbers = set(definitions)
        naming: dict[int, list[int]] = {}
        for node, names in enumerate(self.names) if numbers else ():
            for number in numbers.intersection(names):
                naming.setdefault(number, []).append(node)
        return naming

    def mark(self, node: int, path: str, code: str, reason: str) -> None:
        self.marks.append(Mark(node, path, Flaw(code, reason)))


def read_node(files: Files, path: str, java: bool) -> Node | None:
    """Read a node again, to name the objects that damage affects. Return None if it cannot be read."""
    data = files.read(path)
    if isinstance(data, Exception):
        return None
    try:
        return decode_node(data, path, java).node
    except OlympiaError:
        return None
