"""Parse the partitioning and sort order of a table: `day(ts)`, `bucket(16, id)`, `ts desc nulls last`."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from pyiceberg.partitioning import PARTITION_FIELD_ID_START, PartitionField, PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import NullOrder, SortDirection, SortField, SortOrder
from pyiceberg.transforms import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    YearTransform,
)

from olympia_cli.errors import InvalidOption

_TIMES: dict[str, Callable[[], Transform]] = {  # type: ignore[type-arg]
    "year": YearTransform,
    "month": MonthTransform,
    "day": DayTransform,
    "hour": HourTransform,
}
_CALL = re.compile(r"\s*(\w+)\s*\(\s*(?:(\d{1,9})\s*,\s*)?(.+?)\s*\)\s*")
_SORT = re.compile(r"(.*?)(?:\s+(asc|desc))?(?:\s+nulls\s+(first|last))?\s*", re.IGNORECASE | re.DOTALL)


def partition_spec(terms: Sequence[str], schema: Schema) -> PartitionSpec:
    """Parse terms such as `COLUMN`, `year(COLUMN)`, `month(…)`, `day(…)`, `hour(…)`, `bucket(N, COLUMN)`, `truncate(N,
    COLUMN)`.
    """
    fields = []
    for number, text in enumerate(terms):
        source, transform, suffix = _term(text, schema)
        if not transform.can_transform(schema.find_type(source)):
            raise InvalidOption(f"{text.strip()!a} does not fit the column's type", hint="choose another transform")
        name = schema.find_column_name(source) or ""
        fields.append(PartitionField(source, PARTITION_FIELD_ID_START + number, transform, f"{name}{suffix}"))
    return PartitionSpec(*fields)


def sort_order(terms: Sequence[str], schema: Schema) -> SortOrder:
    """Parse terms like those of `partition_spec`, followed by `asc` or `desc`, and `nulls first` or `nulls last`."""
    fields = []
    for text in terms:
        found = _SORT.fullmatch(text)
        assert found is not None
        source, transform, _ = _term(found[1], schema)
        falling = (found[2] or "").lower() == "desc"
        # Iceberg's default
        nulls = (found[3] or ("last" if falling else "first")).lower()
        fields.append(
            SortField(
                source,
                transform,
                SortDirection.DESC if falling else SortDirection.ASC,
                NullOrder.NULLS_FIRST if nulls == "first" else NullOrder.NULLS_LAST,
            )
        )
    return SortOrder(*fields) if fields else SortOrder()


def _term(text: str, schema: Schema) -> tuple[int, Transform, str]:  # type: ignore[type-arg]
    """Return the column's id, the transform, and the suffix that it adds to the column's name."""
    found = _CALL.fullmatch(text)
    if not found:
        return _column(text.strip(), schema), IdentityTransform(), ""
    word, number, column = found[1].lower().rstrip("s"), found[2], found[3]
    if word in _TIMES and number is None:
        return _column(column, schema), _TIMES[word](), f"_{word}"
    if word == "bucket" and number:
        return _column(column, schema), BucketTransform(int(number)), "_bucket"
    if word in ("truncate", "trunc") and number:
        return _column(column, schema), TruncateTransform(int(number)), "_trunc"
    raise InvalidOption(
        f"{text.strip()[:60]!a} is not a transform",
        hint="use COLUMN, day(COLUMN), bucket(16, COLUMN) or truncate(4, COLUMN)",
    )


def _column(name: str, schema: Schema) -> int:
    try:
        return schema.find_field(name).field_id
    except ValueError:
        raise InvalidOption(
            f"there is no column {name[:60]!a}", hint=f"there are: {', '.join(schema.column_names)}"
        ) from None
