"""The rows of a node file, sound or damaged: where its sections begin, and what a salvage can read."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeGuard

from olympia_cli.format.keys import CATALOG_DEF, KeyCodec
from olympia_cli.format.node import Sizes
from olympia_cli.format.node_file import N_KEYS, Row, digest
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.format.salvage import LOST, Cells, Salvage, salvage

OBJECT_KEY = re.compile("[BCD]===")
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")

DigestState = Literal["verified", "mismatch", "absent"]


@dataclass(frozen=True, slots=True)
class Sections:
    """The sections of a node file: system rows, then the pivot table from `start` to `end`, then action rows.

    `leftmost` is the index of the row without a key that precedes the first key. If there is none, it is the index of
    the row before the first key.
    """

    start: int
    leftmost: int
    end: int

    @classmethod
    def of(cls, rows: Sequence[Cells], java: bool = False) -> Sections:
        """Determine the most probable sections: by `n_keys`, unless the rows contradict it."""
        total = len(rows)
        start = next((at for at, (key, _, _) in enumerate(rows) if not _is_system(key)), total)
        leftmost = start if start == total or rows[start][0] is None else start - 1
        if java:
            return cls(start, leftmost, total)
        first = leftmost + 1
        end = next((at for at in range(first, total) if is_action(rows[at])), total)
        while end > first and rows[end - 1] == (None, None, None):
            end -= 1
        counted = number_in(system_rows(rows[:start]).get(N_KEYS, ""))
        if counted is not None and first + counted < end and not any(map(_is_pivot, rows[first + counted : end])):
            end = first + counted
        return cls(start, leftmost, end)


def system_rows(rows: Sequence[Cells]) -> dict[str, str]:
    """Return the values of the system rows. Of two rows with one name the first counts."""
    return {key: value for key, value, _ in reversed(rows) if isinstance(key, str) and isinstance(value, str)}


def number_in(text: str) -> int | None:
    """Return the number in a system row, or None if it holds none."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= 18 else None


def is_action(row: Cells) -> bool:
    """Return whether a row after the leftmost one is an action row rather than a row of the pivot table."""
    key, value, pnode = row
    if key == CATALOG_DEF:
        return True
    if not isinstance(value, str) or isinstance(pnode, str) or value.startswith("def/"):
        return False
    return len(value) % 4 == 0 and _BASE64.fullmatch(value) is not None


def _is_pivot(row: Cells) -> bool:
    """Return whether a row certainly belongs to the pivot table."""
    _, value, pnode = row
    return isinstance(pnode, str) or (isinstance(value, str) and value.startswith("def/"))


def _is_system(key: object) -> bool:
    return isinstance(key, str) and not OBJECT_KEY.match(key)


def digest_state(rows: Sequence[Cells], expected: str | None) -> DigestState:
    if expected is None:
        return "absent"
    return "verified" if _is_whole(rows) and digest(rows) == expected else "mismatch"


def _is_whole(rows: Sequence[Cells]) -> TypeGuard[Sequence[Row]]:
    return not any(LOST in row for row in rows)


@dataclass(slots=True)
class Remains:
    """The readable part of a damaged node: its system rows, its keys and values, and its children."""

    system: dict[str, str] = field(default_factory=dict)
    entries: list[tuple[str, str | None]] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    complete: bool = False
    """True if `entries` holds as many keys as the node declares."""
    actions: list[tuple[str, str]] = field(default_factory=list)
    """The action rows, if their digest is correct."""
    sizes: Sizes | None = None


def remains_of_node(data: bytes, keys: KeyCodec | None = None, sizes: Sizes | None = None) -> Remains:
    """Return what can be read of a node that cannot be decoded. With `keys`, keep only keys that objects can have."""
    try:
        return _remains(salvage(data, sizes), keys)
    except Exception:
        # `salvage` should never raise; if it does, the rest of the run must not fail
        return Remains()


def _remains(salvaged: Salvage, keys: KeyCodec | None) -> Remains:
    rows, parts = salvaged.rows, Sections.of(salvaged.rows, keys is not None and keys.java)
    system, behind = system_rows(rows[: parts.start]), rows[parts.end :]
    entries = [
        (key, value if isinstance(value, str) else None)
        for key, value, _ in rows[parts.start : parts.end]
        if isinstance(key, str) and (keys is None or keys.name(key) is not None)
    ]
    expected = number_in(system.get(N_KEYS, ""))
    whole = digest_state(behind, salvaged.actions_digest) == "verified"
    return Remains(
        system,
        entries,
        [child for _, _, child in rows if isinstance(child, str) and file_kind(child) is FileKind.NODE],
        expected is not None and len({key for key, _ in entries}) >= expected,
        [(key, value) for key, value, _ in behind if whole and isinstance(key, str) and isinstance(value, str)],
        salvaged.sizes,
    )
