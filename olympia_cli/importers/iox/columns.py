"""The columns of a table of IOx: those of all its files together, and what is known of their values."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa
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

_TYPES: dict[pa.DataType, PrimitiveType] = {
    pa.string(): StringType(),
    pa.large_string(): StringType(),
    pa.int64(): LongType(),
    pa.float64(): DoubleType(),
    pa.bool_(): BooleanType(),
    pa.timestamp("ns"): TimestampNanoType(),
}
"""What IOx writes: tags and text, numbers, truth values, and times."""
_SHOWN = 16


class Conflict(Exception):
    """A file does not go with its table."""


def columns_of(footer: Footer) -> dict[str, PrimitiveType | None]:
    """The columns of a file; None for one that Iceberg has no type for. Conflict for what IOx does not write."""
    found: dict[str, PrimitiveType | None] = {}
    for column in footer.schema:
        type = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
        if column.name in found:
            raise Conflict("two of its columns have one name")
        if b"PARQUET:field_id" in (column.metadata or {}):
            # readers would go by them, and find other columns
            raise Conflict("its columns have ids, which are those of another table")
        if type == pa.uint64():
            found[column.name] = None
        elif type not in _TYPES:
            raise Conflict(f"its column {column.name!a} is of the type {type}, which IOx does not write")
        else:
            found[column.name] = _TYPES[type]
    return found


def united(
    before: Mapping[str, PrimitiveType | None], columns: Mapping[str, PrimitiveType | None]
) -> dict[str, PrimitiveType | None]:
    """The columns of a table and those of one more file together."""
    for name, type in columns.items():
        if name in before and before[name] != type:
            raise Conflict(f"the column {name!a} is {_shown(type)} here, and {_shown(before[name])} in files before it")
    return {**before, **columns}


def _shown(type: PrimitiveType | None) -> str:
    return "uint64" if type is None else str(type)


def statistics(footer: Footer, ids: Mapping[str, tuple[int, PrimitiveType]]) -> dict[str, dict[int, Any]]:
    """What a file says of its columns, as manifests hold it."""
    sizes: dict[int, int] = {}
    values: dict[int, int] = {}
    nulls: dict[int, int] = {}
    lower: dict[int, bytes] = {}
    upper: dict[int, bytes] = {}
    for name in footer.schema.names:
        if name not in ids:
            continue
        id, type = ids[name]
        groups = list(footer.statistics(name))
        sizes[id] = sum(chunk.total_compressed_size for chunk, _ in groups)
        values[id] = sum(chunk.num_values for chunk, _ in groups)
        known = [found for _, found in groups if found is not None]
        if len(known) < len(groups):
            continue
        if all(found.has_null_count for found in known):
            nulls[id] = sum(found.null_count for found in known)
        # a group of nothing but nulls has no bounds, and needs none
        bounded = [found for found in known if found.num_values]
        if bounded and all(found.has_min_max for found in bounded):
            with suppress(UnicodeDecodeError):
                least = min(_value(type, found.min_raw) for found in bounded)
                most = max(_value(type, found.max_raw) for found in bounded)
                _bound(id, type, least, most, lower, upper)
    return {
        "column_sizes": sizes,
        "value_counts": values,
        "null_value_counts": nulls,
        "lower_bounds": lower,
        "upper_bounds": upper,
    }


def _value(type: PrimitiveType, raw: Any) -> Any:
    return raw.decode() if isinstance(type, StringType) and isinstance(raw, bytes) else raw


def _bound(
    id: int, type: PrimitiveType, least: Any, most: Any, lower: dict[int, bytes], upper: dict[int, bytes]
) -> None:
    """Text is cut, as other writers of Iceberg do: the least one downwards, the greatest upwards."""
    if isinstance(type, StringType):
        lower[id] = to_bytes(type, least[:_SHOWN])
        greatest = most if len(most) <= _SHOWN else truncate_upper_bound_text_string(most, _SHOWN)
        if greatest is not None:
            upper[id] = to_bytes(type, greatest)
    elif not (isinstance(type, DoubleType) and (least != least or most != most)):
        lower[id], upper[id] = to_bytes(type, least), to_bytes(type, most)
