"""Numbers for digests, in a tenth of the memory of a dictionary.

A dictionary holds two objects per entry. Here digests are stored in one array, and their numbers in a hash table with
linear probing.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

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
