"""Where nodes stand: the versions that reach each of them, and whether each is in the range and on the level that its
place gives it. No file is read here: what the versions lead to is followed through the rows of the nodes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from olympia_cli.ops.fsck.versions import merge
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.spark.pipelines.frames import apart, cut, together
from olympia_cli.spark.pipelines.place import rows_of
from olympia_cli.tree.load import MAX_DEPTH

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine

_SCHEMA = "row string, path string, low string, high string, first long, last long, sure boolean"
_ARROW = pa.schema(
    [
        pa.field("row", pa.string()),
        pa.field("path", pa.string()),
        pa.field("low", pa.string()),
        pa.field("high", pa.string()),
        pa.field("first", pa.int64()),
        pa.field("last", pa.int64()),
        pa.field("sure", pa.bool_()),
    ]
)
_ROWS = 4096
CHILD, SPAN, LEAF, ODD = "child", "span", "leaf", "odd"

Row = tuple[str, str | None, str | None, str | None, int | None, int | None, bool]


@dataclass(frozen=True, slots=True)
class NodeSpans:
    """The versions that reach each node through nodes that can be read: path, first, last. `odd` says that some node
    is not where it should be."""

    frame: DataFrame
    odd: bool


def find_spans(engine: SparkEngine, tops: DataFrame, nodes: DataFrame, progress: Progress = SILENT) -> NodeSpans:
    """Follow versions from their roots down. `tops` are the rows of roots, a run of versions in each partition; `nodes`
    are the rows of all nodes."""
    progress.phase("following versions")
    columns = ("path", "readable", "leaf", "keys", "children")
    shape = cut(nodes.select(*columns).repartition(engine.partitions, "path"))
    found = cut(tops.where("path is not null").select("version", *columns).mapInArrow(_expand_tops, _SCHEMA))
    levels = [found]
    for _ in range(MAX_DEPTH - 1):
        places = found.where(f"row = '{CHILD}'").selectExpr("path", "struct(low, high, first, last, sure) as place")
        places = places.repartition(engine.partitions, "path").groupBy("path").agg({"place": "collect_list"})
        places = places.withColumnRenamed("collect_list(place)", "places")
        found = cut(shape.join(apart(places), "path").mapInArrow(_expand, _SCHEMA))
        levels.append(found)
        if found.where(f"row = '{CHILD}'").isEmpty():
            break
    else:
        return NodeSpans(levels[0], True)
    every = together(levels)
    told = together(level.selectExpr(f"{at} as level", "row", "first", "last") for at, level in enumerate(levels))
    # workers merge what they see of leaves, so that these are few
    rows = told.where(f"row in ('{ODD}', '{LEAF}')").distinct().collect()
    odd = any(row.row == ODD for row in rows) or _on_two_levels(rows)
    return NodeSpans(every.where(f"row = '{SPAN}' and sure").select("path", "first", "last"), odd)


def _on_two_levels(rows: Iterable[Any]) -> bool:
    """Whether some version has leaves on two levels."""
    levels: dict[int, list[tuple[int, int]]] = {}
    for row in rows:
        levels.setdefault(row.level, []).append((row["first"], row["last"]))
    spans = sorted(span for found in levels.values() for span in merge(found))
    return any(one[1] >= other[0] for one, other in pairwise(spans))


# On the workers


def _expand_tops(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The places that roots give to their children. Neighbouring versions give nearly the same."""
    return _as_batches(_of_tops(rows_of(batches)))


def _of_tops(rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    held: dict[tuple[str, str | None, str | None, bool], tuple[int, int]] = {}
    leaves: list[tuple[int, int]] = []
    before: int | None = None
    for row in rows:
        version = row["version"]
        yield SPAN, row["path"], None, None, version, version, bool(row["readable"])
        if row["leaf"]:
            leaves.append((version, version))
        for place in _children(row, None, None, True):
            first, last = held.get(place, (version, version))
            if last not in (before, version):
                yield _child(place, first, last)
                first = version
            held[place] = (first, version)
        before = version
    for place, (first, last) in held.items():
        yield _child(place, first, last)
    for first, last in merge(leaves):
        yield LEAF, None, None, None, first, last, True


def _expand(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    return _as_batches(_of_nodes(rows_of(batches)))


def _of_nodes(rows: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    leaves: set[tuple[int, int]] = set()
    for row in rows:
        places: dict[tuple[str | None, str | None, bool], list[tuple[int, int]]] = {}
        for one in row["places"]:
            places.setdefault((one["low"], one["high"], one["sure"]), []).append((one["first"], one["last"]))
        sure = merge(span for (_, _, known), spans in places.items() if known for span in spans)
        for first, last in sure:
            yield SPAN, row["path"], None, None, first, last, True
        if row["leaf"]:
            # also below damaged nodes: what can be read there is on one level too
            leaves.update(merge(span for spans in places.values() for span in spans))
        for (low, high, known), spans in places.items():
            if row["readable"] and not _fits(row["keys"], low, high):
                yield ODD, row["path"], low, high, None, None, known
            ranges = merge(spans)
            for place in _children(row, low, high, known):
                for first, last in ranges:
                    yield _child(place, first, last)
    for first, last in merge(leaves):
        yield LEAF, None, None, None, first, last, True


def _fits(keys: list[str], low: str | None, high: str | None) -> bool:
    # without keys nothing tells whether a node stands in two places
    return bool(keys) and (low is None or keys[0] > low) and (high is None or keys[-1] < high)


def _children(
    row: Mapping[str, Any], low: str | None, high: str | None, sure: bool
) -> Iterator[tuple[str, str | None, str | None, bool]]:
    keys = row["keys"]
    for at, child in enumerate(row["children"]):
        if child is None:
            continue
        if not row["readable"]:
            yield child, None, None, False
            continue
        yield child, keys[at - 1] if at else low, keys[at] if at < len(keys) else high, sure


def _child(place: tuple[str, str | None, str | None, bool], first: int, last: int) -> Row:
    path, low, high, sure = place
    return CHILD, path, low, high, first, last, sure


def _as_batches(rows: Iterator[Row]) -> Iterator[pa.RecordBatch]:
    while batch := list(islice(rows, _ROWS)):
        columns = zip(*batch, strict=True)
        arrays = [pa.array(column, field.type) for column, field in zip(columns, _ARROW, strict=True)]
        yield pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
