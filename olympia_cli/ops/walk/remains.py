"""What can still be read of a node that is damaged."""

from __future__ import annotations

from dataclasses import dataclass, field

from olympia_cli.errors import Damaged
from olympia_cli.format.keys import CATALOG_DEF, KeyCodec
from olympia_cli.format.node_file import N_KEYS
from olympia_cli.format.paths import FileKind, check_pointer, file_kind
from olympia_cli.format.salvage import salvage


@dataclass(slots=True)
class Remains:
    """What can still be read of a damaged node: its keys and values, and its children."""

    entries: list[tuple[str, str | None]] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    complete: bool = False
    """Whether those are all the keys that the node says it has."""


def remains_of_node(data: bytes, keys: KeyCodec | None) -> Remains:
    """What there is left of a node that could not be decoded. Only what makes sense is taken."""
    remains = Remains()
    try:
        rows = salvage(data).rows
    except Exception:
        # the salvage promises not to raise; a promise is no reason to crash where damage is expected
        return remains
    expected: int | None = None
    pivot = False
    root = False
    for key, value, child in rows:
        if key is None:
            pivot = True
        elif not pivot and isinstance(key, str) and isinstance(value, str):
            root = root or key == CATALOG_DEF
            if key == N_KEYS and value.isascii() and value.isdigit() and len(value) < 10:
                expected = int(value)
        if isinstance(child, str) and _inside(child):
            remains.children.append(child)
        if isinstance(key, str) and _possible(key, keys):
            path = value if isinstance(value, str) and _inside(value) else None
            if root and (path is None or file_kind(path) is not FileKind.DEFINITION):
                continue  # most likely an action row
            remains.entries.append((key, path))
    remains.complete = expected is not None and len({key for key, _ in remains.entries}) >= expected
    return remains


def _inside(pointer: str) -> bool:
    try:
        check_pointer(pointer, "")
    except Damaged:
        return False
    return True


def _possible(key: str, keys: KeyCodec | None) -> bool:
    if keys is None:
        return False
    try:
        keys.decode(key, "")
    except Damaged:
        return False
    return True
