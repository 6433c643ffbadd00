"""The definitions of an fsck that are too many for the driver: tasks read them.

The driver learns sums, which definitions are damaged, and which might share an id. For these alone it learns which
nodes name them.
"""

from __future__ import annotations

import pickle
from array import array
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyspark.sql import functions

from olympia_cli.names import Kind
from olympia_cli.ops.fsck import (
    MAX_UNVERIFIED,
    MOST_FINDINGS,
    BadDefinition,
    Definitions,
    Listing,
    Quarantine,
    Sorting,
    Tally,
    Trees,
    is_damage,
    resting_files,
)
from olympia_cli.ops.walk import Files, Flaw, Place, path_digest
from olympia_cli.spark.failures import told
from olympia_cli.spark.pins import arrow_schema, batches, ddl, text
from olympia_cli.spark.pipelines.place import CatalogPlace, apart, as_planned, keep, known, rows_of, together, values_of
from olympia_cli.spark.pipelines.walk import (
    DEFINITIONS_A_TASK,
    ROWS_A_TASK,
    SparkWalk,
    frame_of,
    grouped,
    in_fewer_parts,
    key_code,
    named_by,
    paths_frame,
    settle_missing,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

    from olympia_cli.spark.engine import SparkEngine

DefinitionFile = tuple[str, int]
"""The path of a definition, and the kind of object that it is read as."""

_NAMED = {"path": "string", "kind": "int"}


class DistributedDefinitions:
    """The definitions that tasks read in one run, and how they fill the driver's `Definitions`."""

    def __init__(self, walk: SparkWalk) -> None:
        self._walk = walk
        self._noted = self._levels = self._named = 0
        """Numbers of the driver's notes, of the tasks' levels, and of the names in these that have been read."""
        self._codes: set[str] = set()
        """Codes of the faults that were found."""
        self.read_frames: list[DataFrame] = []
        """Rows of the definitions that were read, one per definition."""
        self.number = 0
        """Number of definitions that were read."""

    def read(self, trees: Trees) -> None:
        """Read all definitions that are named and not read yet. Afterwards the driver's `Definitions` has what a
        verdict needs, as if the driver had read them."""
        walk, definitions = self._walk, trees.definitions
        assert definitions is not None
        assert definitions.noted is not None
        definitions.leave()
        noted, levels = definitions.noted[self._noted :], walk.levels[self._levels :]
        if not noted and not levels:
            return
        trees.files.progress.phase("reading definitions")
        number = len(noted) + walk.named - self._named
        self._noted, self._levels, self._named = len(definitions.noted), len(walk.levels), walk.named
        frame = walk.read_definitions(self._names(definitions, noted, levels), number, self.read_frames)
        with walk.engine.job(f"{walk.what}: definitions"):
            sums = frame.groupBy("level", "code", "verified").agg(*_sums()).collect()
        self.number += sum(row.number for row in sums)
        walk.engine.run.read(sum(row.there for row in sums), sum(row.bytes or 0 for row in sums))
        for row in sums:
            definitions.read_count += row.number
            definitions.without_digest += row.number if row.verified is False else 0
            trees.files.tally(Place("", row.level), row.there, row.bytes or 0, is_node=False, names=row.names)
            trees.files.progress.advance(row.number)
        self.read_frames.append(in_fewer_parts(walk.engine, frame, sum(row.number for row in sums)))
        self._codes.update(row.code for row in sums if row.code is not None)
        definition_rows = self._told(definitions)
        with walk.engine.job(f"{walk.what}: damaged definitions and shared ids"):
            bad = self._bad(trees, definition_rows) if self._codes else []
            unverified = (
                _first(definition_rows.where("not verified"), MAX_UNVERIFIED) if definitions.without_digest else []
            )
            ids = self._of_shared_ids(trees, definition_rows)
            numbers = self._know(trees, [*bad, *unverified, *ids])
        # a definition that the action log disproved stays bad
        disproved = {number: former for number, former in definitions.bad.items() if number in definitions.unverified}
        flaws = {numbers[row.path, row.kind]: (row.path, Flaw(row.code, row.reason, hint=row.hint)) for row in bad}
        definitions.bad = {number: BadDefinition(*flaw) for number, flaw in flaws.items()} | disproved
        definitions.doubtful.difference_update(definitions.bad)
        for row in ids:
            definitions.set_id(numbers[row.path, row.kind], row.id.to_bytes(8, "big", signed=True))
        self._take_keys(trees, {(row.path, row.kind): numbers[row.path, row.kind] for row in unverified})

    def take_tables(self, trees: Trees, locations: Collection[str]) -> None:
        """Record which tables and views have metadata at these locations, which lead to a wrong file."""
        definitions = trees.definitions
        if definitions is None or not locations or not self.read_frames:
            return
        frame = frame_of(self._walk.engine, [(location,) for location in sorted(locations)], {"location": "string"})
        rows = together(self.read_frames).select("path", "kind", "level", "location").join(frame, "location").collect()
        numbers = self._know(trees, rows)
        definitions.by_location.clear()
        for row in rows:
            definitions.note_metadata(numbers[row.path, row.kind], row.location)

    def _names(self, definitions: Definitions, noted: Sequence[Any], levels: Sequence[DataFrame]) -> DataFrame:
        names = (
            (place, number not in definitions.doubtful, (place.path, kind, key)) for place, number, kind, key in noted
        )
        return self._walk.names(names, levels)

    def _told(self, definitions: Definitions) -> DataFrame:
        """Return the definitions read so far with all their names: nodes that are read later may name earlier
        definitions, too."""
        [first, *more] = self.read_frames
        if not more:
            return first
        assert definitions.noted is not None
        names = self._names(definitions, definitions.noted, self._walk.levels)
        groups = grouped(names, self._walk.engine.parts(self.number, DEFINITIONS_A_TASK), self._walk.texts)
        rows = together(self.read_frames).drop("level", "low", "high", "sure", "keys")
        return keep(rows.join(apart(groups), ["path", "kind"]), self._walk.stack)

    def _bad(self, trees: Trees, definition_rows: DataFrame) -> list[Row]:
        """Return the damaged definitions. If they are too many, return the first by path of each code, and record how
        many more there are."""
        assert trees.definitions is not None
        more_bad = trees.definitions.more_bad
        more_bad.clear()
        # there are few codes, so the driver applies the rule to each, instead of the tasks
        kinds = [(code, sure) for code in sorted(self._codes) for sure in (True, False)]
        damage = [f"code = '{code}' and sure = {sure}" for code, sure in kinds if is_damage(code, doubtful=not sure)]
        bad = definition_rows.where(" or ".join(damage))
        rows = _first(bad, MOST_FINDINGS + 1)
        if len(rows) > MOST_FINDINGS:
            rows = []
            for code in sorted(self._codes):
                of_code = bad.where(f"code = '{code}'")
                first = _first(of_code, MOST_FINDINGS)
                number = of_code.count()
                if number > len(first):
                    more_bad[code] = (number - len(first), self._naming(trees, of_code, first[-1].path))
                rows += first
        settle_missing(trees.files, {row.path: row.host for row in rows if row.host is not None})
        return rows

    def _naming(self, trees: Trees, of_code: DataFrame, last: str) -> set[int]:
        """Return the nodes that name definitions of `of_code` whose paths come after `last`."""
        definitions, graph = trees.definitions, trees.graph
        assert definitions is not None
        more = of_code.where(functions.col("path") > last).select("path", "kind")
        nodes: set[int] = set()
        if self._walk.levels:
            holders = together(map(named_by, self._walk.levels)).join(apart(more), ["path", "kind"])
            nodes = {graph.numbers[row.holder] for row in holders.select("holder").distinct().collect()}
        assert definitions.noted is not None
        ours = frame_of(self._walk.engine, ((place.path, int(kind)) for place, _, kind, _ in definitions.noted), _NAMED)
        rows = ours.distinct().join(apart(more), ["path", "kind"]).collect()
        numbers = {definitions.known(row.path, Kind(row.kind), 0) for row in rows}
        return nodes.union(node for node, names in enumerate(graph.names) if not numbers.isdisjoint(names))

    def _take_keys(self, trees: Trees, numbers: dict[DefinitionFile, int]) -> None:
        """Record one key of each definition without a digest."""
        definitions, graph, files = trees.definitions, trees.graph, trees.files
        assert definitions is not None
        for place, number, kind, key in definitions.noted or ():
            if (place.path, int(kind)) in numbers:
                definitions.unverified.setdefault(number, (place.path, kind, key))
        # the keys of the others are in the nodes that name them; the bytes of these nodes are already counted
        others = set(numbers.values()) - definitions.unverified.keys()
        holders = [path for path, names in zip(graph.paths, graph.names, strict=True) if not others.isdisjoint(names)]
        counted = files.bytes
        for holder, data in files.read_many(holders):
            for path, kind, key in trees.rules.look(holder, data).names:
                if (path, int(kind)) in numbers:
                    definitions.unverified.setdefault(numbers[path, int(kind)], (path, kind, key))
        files.bytes = counted

    def _of_shared_ids(self, trees: Trees, definition_rows: DataFrame) -> list[Row]:
        """Return the definitions whose id two objects of one version, or an object and the catalog, might share.

        A version has each key once. So an id can occur twice in it only if several keys name definitions with that id.
        """
        engine, reference = self._walk.engine, trees.chain.reference
        with_ids = definition_rows.where("id is not null")
        ids = with_ids.groupBy("id").agg(functions.min("low").alias("low"), functions.max("high").alias("high"))
        catalog = key_code(reference.id if reference is not None else "")
        with as_planned(engine.spark, engine.parts(self.number, ROWS_A_TASK)):
            shared = [(row.id,) for row in ids.where(f"low != high or id = {catalog}").select("id").collect()]
        if not shared:
            return []
        id_frame = frame_of(engine, shared, {"id": "long"})
        return with_ids.select("id", "path", "kind", "level").join(id_frame, "id").collect()

    def _know(self, trees: Trees, rows: Iterable[Row]) -> dict[DefinitionFile, int]:
        """Return the numbers of definitions, and record the numbers in the graph wherever a node names them."""
        definitions, graph = trees.definitions, trees.graph
        assert definitions is not None
        numbers = {(row.path, row.kind): definitions.known(row.path, Kind(row.kind), row.level) for row in rows}
        for node, names in self._held_by_tasks(numbers).items():
            number, now = graph.numbers[node], set(names)
            # replaces earlier entries of the same definitions
            graph.names[number] = array("I", [*(name for name in graph.names[number] if name not in now), *names])
        return numbers

    def _held_by_tasks(self, numbers: Mapping[DefinitionFile, int]) -> dict[str, list[int]]:
        """Return, per node that tasks read, the numbers of these definitions that it names, once for each time it names
        them."""
        holders: dict[str, list[int]] = {}
        if numbers and self._walk.levels:
            definition_frame = frame_of(self._walk.engine, list(numbers), _NAMED)
            names = together(map(named_by, self._walk.levels)).join(definition_frame, ["path", "kind"])
            for row in names.select("holder", "path", "kind").collect():
                holders.setdefault(row.holder, []).append(numbers[row.path, row.kind])
        return holders


def _first(definitions: DataFrame, most: int) -> list[Row]:
    """Return the first definitions by path."""
    return definitions.orderBy("path", "kind").limit(most).collect()


def _sums() -> list[Any]:
    """Return the aggregates: the number of files, how many exist, their bytes, and the XOR of their name numbers."""
    words = {"number": "count(*)", "there": "count(bytes)", "bytes": "sum(bytes)", "names": "bit_xor(name)"}
    return [functions.expr(word).alias(name) for name, word in words.items()]


# A listing compared with the files that versions reach.
#
# A file that is listed, reached or in quarantine becomes one row, and each task asks the driver's `Listing` rules about
# its rows. No rule is decided here.

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
    parts = engine.parts(2 * number, FILES_A_TASK)
    facts = [known(engine.catalog.list_files(engine.spark, parts), _NOTHING, bytes="bytes")]
    facts += [known(frame, _NOTHING, reached="true") for frame in reached]
    if quarantine.manifests:
        manifests = paths_frame(engine, quarantine.manifests).repartition(engine.parts(len(quarantine.manifests), 1))
        facts.append(manifests.mapInArrow(partial(_read_manifests, engine.catalog), ddl(_KNOWN)))
    columns = [functions.max(name).alias(name) for name in ("reached", "rests", "problem")]
    rows = together(facts).repartition(parts, "path").groupBy("path")
    counted = rows.agg(functions.collect_list("bytes").alias("sizes"), functions.sum("read").alias("read"), *columns)
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
        files = Files(catalog.store)
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
