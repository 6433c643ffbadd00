"""Apply tombstones to a file: whether they reach it, delete all of it, or which of its rows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from olympia_cli.importers.iox.actions import Comparison, Predicate
from olympia_cli.importers.iox.footers import TIME, Footer


def reaching(footer: Footer, predicates: Iterable[Predicate]) -> list[Predicate]:
    """Return the predicates that may delete rows of a file, by the file's times."""
    times = footer.times
    return [
        one
        for one in dict.fromkeys(predicates)
        if one.start < one.end and (times is None or (one.start <= times[1] and times[0] < one.end))
    ]


def takes_all(footer: Footer, predicates: Iterable[Predicate]) -> bool:
    """Return True if one predicate deletes every row of a file, as far as the file's times alone tell."""
    times = footer.times
    return times is not None and any(
        not one.comparisons and one.start <= times[0] and times[1] < one.end for one in predicates
    )


def deleted_rows(file: pq.ParquetFile, predicates: Sequence[Predicate]) -> list[int]:
    """Return the numbers of the deleted rows. Only the compared columns are read, one row group at a time."""
    names = set(file.schema_arrow.names)
    wanted = [TIME, *{one.column for predicate in predicates for one in predicate.comparisons if one.column in names}]
    found: list[int] = []
    before = 0
    for group in range(file.metadata.num_row_groups):
        rows = file.read_row_group(group, columns=list(dict.fromkeys(wanted)))
        for predicate in predicates:
            mask = _mask(rows, predicate)
            found += [before + at for at, is_deleted in enumerate(mask.to_pylist()) if is_deleted]
        before += rows.num_rows
    return sorted(set(found))


def _mask(rows: pa.Table, predicate: Predicate) -> Any:
    times = rows[TIME].cast(pa.int64())
    mask = pc.and_(pc.greater_equal(times, predicate.start), pc.less(times, predicate.end))
    for comparison in predicate.comparisons:
        mask = pc.and_kleene(mask, _compared(rows, comparison))
    return mask


def _compared(rows: pa.Table, comparison: Comparison) -> Any:
    """Compare a column with a value. A missing column compares as null, for = and for !=."""
    if comparison.column not in rows.column_names:
        return pa.scalar(None, pa.bool_())
    column = rows[comparison.column]
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    value = pa.scalar(comparison.value)
    return pc.equal(column, value) if comparison.operator == "=" else pc.not_equal(column, value)
