"""Whether the footer of a Parquet file can be given to Arrow, which ends the whole program where a group of rows does
not go with the columns. Pure."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from olympia_cli.importers.iox.wire import Garbled
from olympia_cli.importers.thrift import BINARY, INT, LONG, Each, Some, read_struct

_SIZES = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
"""How many bytes a value has, by its physical type; one of a fixed length has what its column says."""
_OPTIONAL, _REPEATED = 1, 2
_COLUMN = {1: INT, 2: INT, 3: INT, 5: INT}
_BOUNDS = {1: BINARY, 2: BINARY, 5: BINARY, 6: BINARY}
_DEPTHS = {2: Some(LONG), 3: Some(LONG)}
_LISTS = {2: Some(INT), 3: Some(BINARY), 8: Each({}), 13: Each({})}
_CHUNK = {3: {1: INT, 12: _BOUNDS, 16: _DEPTHS, **_LISTS}}


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A column that has values: their physical type, the bytes of one, and how deep they may lie."""

    type: int
    size: int
    defined: int
    repeated: int


def check_footer(data: memoryview) -> None:
    """Garbled where Arrow would not read it, or would not survive that."""
    columns: list[dict[int, Any]] = []
    leaves: list[_Leaf] = []

    def check(group: dict[int, Any]) -> None:
        if not leaves:
            leaves.extend(_leaves(columns))
        chunks = group.get(1, [])
        if len(chunks) != len(leaves):
            raise Garbled("a group of its rows has other columns than the file")
        for chunk, leaf in zip(chunks, leaves, strict=True):
            _check(chunk[3], leaf)

    groups = Each({1: Each(_CHUNK), 4: Each({})}, check)
    try:
        read_struct(data, {2: Each(_COLUMN, columns.append), 4: groups, 5: Each({}), 7: Each({})})
    except (KeyError, TypeError, AttributeError, struct.error):
        raise Garbled("it is not that of a Parquet file") from None


def _leaves(elements: Iterable[dict[int, Any]]) -> Iterator[_Leaf]:
    """The columns that have values, in their order; the first element is the whole row."""
    above: list[list[int]] = [[1, 0, 0]]
    for element in elements:
        while above and not above[-1][0]:
            above.pop()
        if not above:
            raise Garbled("it has columns that lie nowhere")
        above[-1][0] -= 1
        _, defined, repeated = above[-1]
        if len(above) > 1:
            defined += element.get(3) in (_OPTIONAL, _REPEATED)
            repeated += element.get(3) == _REPEATED
        if len(above) > 1 and 1 in element and not element.get(5):
            yield _Leaf(element[1], _SIZES.get(element[1], element.get(2, 0)), defined, repeated)
        else:
            above.append([element.get(5, 0), defined, repeated])


def _check(chunk: dict[int, Any], leaf: _Leaf) -> None:
    if chunk[1] != leaf.type:
        raise Garbled("a group of its rows has a column of another type than the file")
    bounds = chunk.get(12, {})
    # the former fields count only where there are no new ones
    for at in (5, 6) if {5, 6} & bounds.keys() else (1, 2):
        if at in bounds and len(bounds[at]) < leaf.size:
            raise Garbled("the least or greatest value of a column is cut short")
    depths = chunk.get(16, {})
    if any(len(depths.get(at, ())) not in (0, most + 1) for at, most in ((2, leaf.repeated), (3, leaf.defined))):
        raise Garbled("a column does not lie as deep as it says")
