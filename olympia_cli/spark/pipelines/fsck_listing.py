"""A listing compared with the files that versions reach.

A file that is listed, reached or in quarantine becomes one row, and each task asks the driver's `Listing` rules about
its rows. No rule is decided here.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa

from olympia_cli.ops.fsck.listing import Listing, Quarantine, Sorting, Tally, resting_files
from olympia_cli.ops.walk.files import Files
from olympia_cli.ops.walk.reach import path_digest
from olympia_cli.spark.batches import arrow_schema, batches, ddl, text
from olympia_cli.spark.failures import told
from olympia_cli.spark.pipelines.frames import known, together
from olympia_cli.spark.pipelines.place import CatalogPlace, rows_of, values_of
from olympia_cli.spark.pipelines.walk import paths_frame

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine

FILES_A_TASK = 50_000

_KNOWN = {
    "path": "string",
    "bytes": "long",
    "reached": "boolean",
    "rests": "boolean",
    "problem": "string",
    "read": "long",
}
"""A row may also stand for a manifest that cannot be read, with the problem, or for the bytes `read` from manifests."""

_NOTHING = {name: f"cast(null as {word})" for name, word in _KNOWN.items() if name != "path"}
"""Default facts of a file."""


@dataclass(frozen=True, slots=True)
class ListedPart:
    """The counts of one task."""

    tallies: dict[str, Tally]
    resting: tuple[int, int]
    """Number and bytes of the files that rest in quarantine until a purge."""
    problems: list[tuple[str, str]]
    bytes_read: int


def list_unreached(
    engine: SparkEngine,
    files: Files,
    sorting: Sorting,
    quarantine: Quarantine,
    reached: Sequence[DataFrame],
    number: int,
) -> Listing:
    """Check all files of the catalog; about `number` files are reached."""
    from pyspark.sql.functions import collect_list, max, sum

    parts = engine.parts(2 * number, FILES_A_TASK)
    facts = [known(engine.catalog.list_files(engine.spark, parts), _NOTHING, bytes="bytes")]
    facts += [known(frame, _NOTHING, reached="true") for frame in reached]
    if quarantine.manifests:
        manifests = paths_frame(engine, quarantine.manifests).repartition(engine.parts(len(quarantine.manifests), 1))
        facts.append(manifests.mapInArrow(partial(_read_manifests, engine.catalog), ddl(_KNOWN)))
    columns = [max(name).alias(name) for name in ("reached", "rests", "problem")]
    rows = together(facts).repartition(parts, "path").groupBy("path")
    counted = rows.agg(collect_list("bytes").alias("sizes"), sum("read").alias("read"), *columns)
    listing = Listing(sorting, lambda path: False, quarantine)
    problems: list[tuple[str, str]] = []
    for row in counted.mapInArrow(partial(_count, sorting), "part binary").collect():
        part: ListedPart = pickle.loads(row.part)
        for code, tally in part.tallies.items():
            listing.tallies[code].take(tally)
        quarantine.files += part.resting[0]
        quarantine.bytes += part.resting[1]
        problems += part.problems
        files.bytes += part.bytes_read
    for path, reason in sorted(problems):
        quarantine.not_read(path, reason)
    return listing


# On the workers


@told
def _read_manifests(catalog: CatalogPlace, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for row in rows_of(record_batches):
        files = Files(catalog.store, lambda: False)
        named = resting_files(files, row["path"])
        unread = text(named) if isinstance(named, str) else None
        yield from batches([{"path": row["path"], "problem": unread, "read": files.bytes}], _KNOWN)
        if not isinstance(named, str):
            yield from batches(({"path": path, "rests": True} for path in named), _KNOWN)


def _count(sorting: Sorting, record_batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    reached, quarantine = False, Quarantine()
    listing = Listing(sorting, lambda path: reached, quarantine)
    problems, bytes_read = [], 0
    columns = ("path", "reached", "rests", "sizes", "problem", "read")
    rows = (row for batch in record_batches for row in values_of(batch, *columns))
    for path, is_reached, rests, sizes, problem, more in rows:
        reached = bool(is_reached)
        if rests:
            quarantine.paths.add(path_digest(path))
        for size in sizes:
            listing.take(path, size)
        if problem is not None:
            problems.append((path, problem))
        bytes_read += more or 0
    reached = False
    listing.settle()
    part = ListedPart(listing.tallies, (quarantine.files, quarantine.bytes), problems, bytes_read)
    yield pa.RecordBatch.from_pydict({"part": [pickle.dumps(part)]}, schema=arrow_schema({"part": "binary"}))
