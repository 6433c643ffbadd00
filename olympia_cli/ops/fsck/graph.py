"""The nodes of all versions as one graph. Each node is stored once, even if trees share it."""

from __future__ import annotations

from array import array
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from olympia_cli.errors import OlympiaError
from olympia_cli.format.codec import decode_node
from olympia_cli.format.node import Node
from olympia_cli.ops.walk import Files, Flaw

# Numbers for digests, in a tenth of the memory of a dictionary.
#
# A dictionary holds two objects per entry. Here digests are stored in one array, and their numbers in a hash table with
# linear probing.

_FIRST_SLOTS = 1024


class Numbering:
    """Consecutive numbers from 0 for digests of one width."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._digests = bytearray()
        self._slots = array("I", bytes(4 * _FIRST_SLOTS))
        """The number plus 1 in each used slot, 0 in a free one. At least half of the slots are free."""
        self._mask = _FIRST_SLOTS - 1
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def __contains__(self, digest: bytes) -> bool:
        return bool(self._slots[self._slot(digest)])

    def get(self, digest: bytes) -> int | None:
        entry = self._slots[self._slot(digest)]
        return entry - 1 if entry else None

    def add(self, digest: bytes) -> int:
        """Return the number of a digest. A new digest gets the next number."""
        slot = self._slot(digest)
        if entry := self._slots[slot]:
            return entry - 1
        self._digests += digest
        self._count += 1
        self._slots[slot] = self._count
        if 2 * self._count > self._mask:
            self._grow()
        return self._count - 1

    def add_all(self, digests: Sequence[bytes]) -> array[int]:
        """Like `add`, for many digests."""
        while 2 * (self._count + len(digests)) > self._mask:
            self._grow()
        slots, own_digests, width, mask, count = self._slots, self._digests, self._width, self._mask, self._count
        numbers = array("I")
        for digest in digests:
            slot = hash(digest) & mask
            while entry := slots[slot]:
                if own_digests.startswith(digest, (entry - 1) * width):
                    break
                slot = (slot + 1) & mask
            else:
                own_digests += digest
                slots[slot] = entry = count = count + 1
            numbers.append(entry - 1)
        self._count = count
        return numbers

    def _slot(self, digest: bytes) -> int:
        slots, digests, width, mask = self._slots, self._digests, self._width, self._mask
        slot = hash(digest) & mask
        while entry := slots[slot]:
            if digests.startswith(digest, (entry - 1) * width):
                break
            slot = (slot + 1) & mask
        return slot

    def _grow(self) -> None:
        digests, width = self._digests, self._width
        self._mask = mask = 2 * self._mask + 1
        self._slots = slots = array("I", bytes(4 * (mask + 1)))
        for number in range(self._count):
            slot = hash(bytes(digests[number * width : (number + 1) * width])) & mask
            while slots[slot]:
                slot = (slot + 1) & mask
            slots[slot] = number + 1


# The nodes of all versions as one graph. Each node is stored once, even if trees share it.
#
# A node is stored as a number, with the numbers of its children, namespaces and definitions.

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
