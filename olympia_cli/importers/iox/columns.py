"""The columns of an IOx table: those of all its files together, and the statistics of their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyiceberg.conversions import to_bytes
from pyiceberg.types import (
    BooleanType,
    DoubleType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
)
from pyiceberg.utils.truncate import truncate_upper_bound_text_string

from olympia_cli.importers.iox.footers import Footer

_TYPES: dict[str, PrimitiveType | None] = {
    "string": StringType(),
    "long": LongType(),
    "uint64": None,
    "double": DoubleType(),
    "boolean": BooleanType(),
    "timestamp_ns": TimestampNanoType(),
}
"""The types that IOx writes: tags and text, numbers, booleans, and times. None stands for a type that Iceberg does not
have."""
_SHOWN = 16


class Conflict(Exception):
    """A file does not fit its table."""


def columns_of(footer: Footer) -> dict[str, PrimitiveType | None]:
    """Return the columns of a file; the value is None for a type that Iceberg does not have. Raise Conflict for a type
    that IOx does not write."""
    found: dict[str, PrimitiveType | None] = {}
    for column in footer.columns:
        if column.name in found:
            raise Conflict("two of its columns have one name")
        if column.type not in _TYPES:
            raise Conflict(f"its column {column.name!a} is of a type that IOx does not write: {column.type}")
        found[column.name] = _TYPES[column.type]
    return found


def united(
    before: Mapping[str, PrimitiveType | None], columns: Mapping[str, PrimitiveType | None]
) -> dict[str, PrimitiveType | None]:
    """Return the columns of a table together with those of one more file. Raise Conflict if a column has two types."""
    for name, type in columns.items():
        if name in before and before[name] != type:
            raise Conflict(f"the column {name!a} is {_shown(type)} here, and {_shown(before[name])} in files before it")
    return {**before, **columns}


def _shown(type: PrimitiveType | None) -> str:
    return "uint64" if type is None else str(type)


def statistics(footer: Footer, ids: Mapping[str, tuple[int, PrimitiveType]]) -> dict[str, dict[int, Any]]:
    """Return the column statistics of a file in the form of manifests. Long text is truncated as by other writers of
    Iceberg: the lower bound downwards, the upper bound upwards."""
    found: dict[str, dict[int, Any]] = {
        name: {} for name in ("column_sizes", "value_counts", "null_value_counts", "lower_bounds", "upper_bounds")
    }
    for column in footer.columns:
        if column.name not in ids:
            continue
        id, type = ids[column.name]
        found["column_sizes"][id] = sum(chunk.size for chunk in column.chunks)
        found["value_counts"][id] = sum(chunk.values for chunk in column.chunks)
        nulls = [chunk.nulls for chunk in column.chunks if chunk.nulls is not None]
        if len(nulls) == len(column.chunks):
            found["null_value_counts"][id] = sum(nulls)
        if (bounds := column.bounds) is not None:
            least, most = bounds
            found["lower_bounds"][id] = to_bytes(type, least[:_SHOWN] if isinstance(least, str) else least)
            greatest = _cut_upwards(most) if isinstance(most, str) else most
            if greatest is not None:
                found["upper_bounds"][id] = to_bytes(type, greatest)
    return found


def _cut_upwards(text: str) -> str | None:
    return text if len(text) <= _SHOWN else truncate_upper_bound_text_string(text, _SHOWN)
