"""The definitions of an fsck that are too many for the driver: tasks read them, and the driver learns sums, which are
bad, and which could have the id of another. Only of those it learns which nodes name them.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from olympia_cli.names import Kind
from olympia_cli.ops.export.files import NAME_DIGITS
from olympia_cli.ops.fsck.definitions import MAX_UNVERIFIED, BadDefinition, Definitions
from olympia_cli.ops.fsck.examined import Examined
from olympia_cli.ops.fsck.verdict import MOST_FINDINGS
from olympia_cli.ops.walk.files import Files, Place
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.spark.pipelines.frames import apart, together
from olympia_cli.spark.pipelines.walk import (
    DEFINITIONS_A_TASK,
    SparkWalk,
    frame_of,
    grouped,
    key_code,
    named_by,
    settle_missing,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Named = tuple[str, int]
"""A definition: its path, and the kind of object that it is read as."""

_NAMED = pa.schema([pa.field("path", pa.string()), pa.field("kind", pa.int32())])


class DistributedDefinitions:
    """What was read on Spark of the definitions of one run, and how the driver's `Definitions` is filled from it."""

    def __init__(self, walk: SparkWalk) -> None:
        self._walk = walk
        self._noted = self._levels = self._named = 0
        """How much of what the driver noted, and of what tasks did, was read."""
        self._codes: set[str] = set()
        """Of what was found to be wrong."""
        self.read_frames: list[DataFrame] = []
        """A row for each definition."""

    @property
    def number(self) -> int:
        """How many definitions there are at most, each as often as nodes name it."""
        return self._noted + self._named

    def read(self, into: Examined) -> None:
        """Read all that is named and was not read; then the driver knows what it would know had it done so itself, as
        far as a verdict asks for it."""
        walk, definitions = self._walk, into.definitions
        assert definitions is not None
        assert definitions.noted is not None
        definitions.leave()
        noted, levels = definitions.noted[self._noted :], walk.levels[self._levels :]
        if not noted and not levels:
            return
        into.files.progress.phase("reading definitions")
        number = len(noted) + walk.named - self._named
        self._noted, self._levels, self._named = len(definitions.noted), len(walk.levels), walk.named
        found = walk.read_definitions(self._names(definitions, noted, levels), number, self.read_frames)
        with walk.engine.job(f"{walk.what}: definitions"):
            sums = found.groupBy("level", "code", "verified").agg(*_sums()).collect()
        for row in sums:
            definitions.read_count += row.number
            definitions.without_digest += row.number if row.verified is False else 0
            into.files.tally(Place("", row.level), row.there, row.bytes or 0, is_node=False, names=row.names)
            into.files.progress.advance(row.number)
        self.read_frames.append(found)
        told = self._told(definitions)
        with walk.engine.job(f"{walk.what}: definitions that are not whole, or have one id"):
            self._codes.update(row.code for row in sums if row.code is not None)
            if self._codes:
                self._take_bad(into, told)
            self._take_unverified(into, told)
            self._take_ids(into, told)

    def take_tables(self, into: Examined) -> None:
        """Learn of the tables whose metadata leads to something that is wrong."""
        definitions = into.definitions
        locations = sorted({location for hit in into.data_findings for location in hit.locations})
        if definitions is None or not locations or not self.read_frames:
            return
        wanted = frame_of(
            self._walk.engine, [(one,) for one in locations], pa.schema([pa.field("location", pa.string())])
        )
        rows = together(self.read_frames).select("path", "kind", "level", "location").join(wanted, "location").collect()
        numbers = self._know(into, {(row.path, row.kind): row.level for row in rows})
        definitions.by_location.clear()
        for row in rows:
            definitions.note_table(numbers[row.path, row.kind], row.location)

    def _names(self, definitions: Definitions, noted: Sequence[Any], levels: Sequence[DataFrame]) -> DataFrame:
        names = (
            (place, number not in definitions.doubtful, (place.path, kind, key)) for place, number, kind, key in noted
        )
        return self._walk.names(names, levels)

    def _told(self, definitions: Definitions) -> DataFrame:
        """What was read, with all that name it: of what was read before, others may have come since."""
        [first, *more] = self.read_frames
        if not more:
            return first
        assert definitions.noted is not None
        names = self._names(definitions, definitions.noted, self._walk.levels)
        groups = grouped(names, self._walk.engine.parts(self.number, DEFINITIONS_A_TASK))
        return (
            together(self.read_frames)
            .drop("level", "low", "high", "sure", "keys")
            .join(apart(groups), ["path", "kind"])
        )

    def _take_bad(self, into: Examined, told: DataFrame) -> None:
        """Of each code the first by name, and how many more there are; and those that the log disproved stay bad."""
        definitions = into.definitions
        assert definitions is not None
        kept = {number: bad for number, bad in definitions.bad.items() if number in definitions.unverified}
        # what only damaged nodes name need not be there: its name may be what is damaged
        bad = told.where("code is not null and (code != 'F301' or sure)")
        counts = {row.code: row["count"] for row in bad.groupBy("code").count().collect()}
        flaws: dict[Named, Flaw] = {}
        levels: dict[Named, int] = {}
        definitions.more_bad.clear()
        for code, number in sorted(counts.items()):
            of_code = bad.where(f"code = '{code}'")
            rows = of_code.orderBy("path", "kind").limit(MOST_FINDINGS).collect()
            settle_missing(into.files, {row.path: row.host for row in rows if row.host is not None})
            flaws |= {(row.path, row.kind): Flaw(code, row.reason, hint=row.hint) for row in rows}
            levels |= {(row.path, row.kind): row.level for row in rows}
            if number > len(rows):
                definitions.more_bad[code] = (number - len(rows), self._naming(into, of_code, rows[-1].path))
        numbers = self._know(into, levels)
        definitions.bad = {numbers[named]: BadDefinition(named[0], flaw) for named, flaw in flaws.items()} | kept
        definitions.doubtful.difference_update(definitions.bad)

    def _naming(self, into: Examined, of_code: DataFrame, last: str) -> set[int]:
        """The nodes that name definitions whose paths come after one."""
        from pyspark.sql.functions import col

        definitions, graph = into.definitions, into.graph
        assert definitions is not None
        more = of_code.where(col("path") > last).select("path", "kind")
        nodes: set[int] = set()
        if self._walk.levels:
            held = together(map(named_by, self._walk.levels)).join(apart(more), ["path", "kind"])
            nodes = {graph.numbers[row.holder] for row in held.select("holder").distinct().collect()}
        assert definitions.noted is not None
        ours = frame_of(self._walk.engine, [(place.path, int(kind)) for place, _, kind, _ in definitions.noted], _NAMED)
        rows = ours.distinct().join(apart(more), ["path", "kind"]).collect()
        numbers = {definitions.known(row.path, Kind(row.kind), 0) for row in rows}
        return nodes.union(node for node, names in enumerate(graph.names) if not numbers.isdisjoint(names))

    def _take_unverified(self, into: Examined, told: DataFrame) -> None:
        definitions = into.definitions
        assert definitions is not None
        if not definitions.without_digest:
            return
        rows = told.where("not verified").orderBy("path", "kind").limit(MAX_UNVERIFIED).collect()
        numbers = self._know(into, {(row.path, row.kind): row.level for row in rows})
        wanted = {number: named for named, number in numbers.items() if number not in definitions.unverified}
        for place, number, kind, key in definitions.noted or ():
            if number in wanted:
                definitions.unverified[number] = (place.path, kind, key)
                del wanted[number]
        # the keys of the others are in the nodes that name them; these were read and counted before
        holders = [
            path
            for path, names in zip(into.graph.paths, into.graph.names, strict=True)
            if not wanted.keys().isdisjoint(names)
        ]
        for holder, data in Files(into.files.store, lambda: False).read_many(holders):
            for path, kind, key in into.rules.look(holder, data).names:
                number = numbers.get((path, int(kind)), -1)
                if number in wanted:
                    definitions.unverified.setdefault(number, (path, kind, key))

    def _take_ids(self, into: Examined, told: DataFrame) -> None:
        """Learn of the definitions whose ids two objects of one version could have, or an object and the catalog.

        In one version a key is there once. So only an id whose definitions go by several keys can be there twice.
        """
        from pyspark.sql.functions import max, min

        definitions, reference = into.definitions, into.chain.reference
        assert definitions is not None
        with_ids = told.where("id is not null")
        ids = with_ids.repartition(self._walk.engine.parts(self.number, 4 * DEFINITIONS_A_TASK), "id")
        ids = ids.groupBy("id").agg(min("low").alias("low"), max("high").alias("high"))
        catalog = key_code(reference.id if reference is not None else "")
        suspicious = [(row.id,) for row in ids.where(f"low != high or id = {catalog}").select("id").collect()]
        if not suspicious:
            return
        wanted = frame_of(self._walk.engine, suspicious, pa.schema([pa.field("id", pa.int64())]))
        rows = with_ids.select("id", "path", "kind", "level").join(wanted, "id").collect()
        numbers = self._know(into, {(row.path, row.kind): row.level for row in rows})
        for row in rows:
            definitions.set_id(numbers[row.path, row.kind], row.id.to_bytes(8, "big", signed=True))

    def _know(self, into: Examined, levels: Mapping[Named, int]) -> dict[Named, int]:
        """The numbers of definitions, which the graph has from now on wherever they are named."""
        definitions, graph = into.definitions, into.graph
        assert definitions is not None
        numbers = {named: definitions.known(named[0], Kind(named[1]), level) for named, level in levels.items()}
        for node, names in self._held_by_tasks(numbers).items():
            number, now = graph.numbers[node], set(names)
            # in place of those of the same definitions that may be there
            graph.names[number] = array("I", [*(name for name in graph.names[number] if name not in now), *names])
        return numbers

    def _held_by_tasks(self, numbers: Mapping[Named, int]) -> dict[str, list[int]]:
        """The nodes that tasks looked at, with those of these definitions that each names, as often as it does."""
        held: dict[str, list[int]] = {}
        if numbers and self._walk.levels:
            wanted = frame_of(self._walk.engine, list(numbers), _NAMED)
            names = together(map(named_by, self._walk.levels)).join(wanted, ["path", "kind"])
            for row in names.select("holder", "path", "kind").collect():
                held.setdefault(row.holder, []).append(numbers[row.path, row.kind])
        return held


# a file's name and size as `ops/export` makes a number of them
_NAME = f"cast(conv(substring(sha2(concat(path, ' ', bytes), 256), 1, {NAME_DIGITS}), 16, 10) as bigint)"


def _sums() -> list[Any]:
    """How many files there are, how many of them were there, their bytes, and their names."""
    from pyspark.sql.functions import expr

    words = {"number": "count(*)", "there": "count(bytes)", "bytes": "sum(bytes)", "names": f"bit_xor({_NAME})"}
    return [expr(word).alias(name) for name, word in words.items()]
