"""From DataFrames to the graph: of all nodes only those that something is wrong with, and what leads to them. So this
process holds as much as damage hits, and nothing of what is sound.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from olympia_cli.names import Kind
from olympia_cli.ops.fsck.data import DataFinding
from olympia_cli.ops.fsck.definitions import MAX_UNVERIFIED, BadDefinition
from olympia_cli.ops.fsck.examined import Examined
from olympia_cli.ops.fsck.holders import Holder
from olympia_cli.ops.fsck.verdict import MOST_FINDINGS
from olympia_cli.ops.walk.flaws import Flaw

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine

Named = tuple[str, int]
"""A definition: its path, and the kind of object that it is read as."""


@dataclass(slots=True)
class Pruned:
    """What is wrong, by the paths of nodes and definitions, and which nodes name those definitions."""

    engine: SparkEngine
    nodes: DataFrame
    marks: list[tuple[str, str, Flaw]] = field(default_factory=list)
    levels: dict[str, int] = field(default_factory=dict)
    unreadable: set[str] = field(default_factory=set)
    bad: dict[Named, Flaw] = field(default_factory=dict)
    more_bad: dict[str, tuple[int, set[str]]] = field(default_factory=dict)
    unverified: dict[Named, str] = field(default_factory=dict)
    """Definitions without a digest, each with a node that names it."""
    ids: dict[Named, int] = field(default_factory=dict)
    tables: dict[Named, str] = field(default_factory=dict)
    """The metadata locations of tables whose data is not whole."""
    names: Counter[tuple[str, Named]] = field(default_factory=Counter)
    """Which node names which of these definitions, and how often."""
    has: list[tuple[str, str]] = field(default_factory=list)
    needs: list[tuple[str, str]] = field(default_factory=list)

    def take_nodes(self) -> None:
        """The nodes that are not as they should be in themselves."""
        rows = self.nodes.where("path is not null and (not readable or size(marks) > 0)")
        for row in rows.select("path", "level", "readable", "marks").collect():
            self.levels[row.path] = row.level
            if not row.readable:
                self.unreadable.add(row.path)
            self.marks += [(row.path, mark.path, Flaw(mark.code, mark.reason)) for mark in row.marks]

    def take_bad_definitions(self, found: DataFrame, named: DataFrame, disproved: Mapping[Named, Flaw]) -> None:
        """Of each code the first by name, and how many more there are; and those that the log disproved."""
        # what only damaged nodes name need not be there: its name may be what is damaged
        bad = found.where("code is not null and (code != 'F301' or sure)")
        bad = bad.select("path", "kind", "level", "code", "reason")
        for code, number in sorted(tuple(row) for row in bad.groupBy("code").count().collect()):
            of_code = bad.where(f"code = '{code}'")
            rows = of_code.orderBy("path", "kind").limit(MOST_FINDINGS).collect()
            self.bad |= {(row.path, row.kind): Flaw(code, row.reason) for row in rows}
            self.levels |= {row.path: row.level for row in rows}
            if number > MOST_FINDINGS:
                from pyspark.sql.functions import col

                more = of_code.where(col("path") > rows[-1].path).select("path", "kind").hint("merge")
                holders = named.join(more, ["path", "kind"]).select("holder").distinct().collect()
                self.more_bad[code] = (number - MOST_FINDINGS, {row.holder for row in holders})
        self.bad |= disproved
        self._take_names(named, self.bad)

    def take_unverified(self, found: DataFrame, named: DataFrame) -> None:
        rows = (
            found.where("not verified")
            .orderBy("path", "kind")
            .limit(MAX_UNVERIFIED)
            .select("path", "kind", "level")
            .collect()
        )
        self.levels |= {row.path: row.level for row in rows}
        wanted = {(row.path, row.kind) for row in rows}
        for holder, name in self._take_names(named, wanted):
            self.unverified[name] = min(holder, self.unverified.get(name, holder))

    def take_ids(self, found: DataFrame, named: DataFrame, ids: Sequence[int]) -> None:
        """All definitions of objects that share an id with another in some version."""
        if not ids:
            return
        frame = self.engine.spark.createDataFrame([(id,) for id in ids], "id long")
        rows = found.select("id", "path", "kind", "level").join(frame, "id").collect()
        self.levels |= {row.path: row.level for row in rows}
        self.ids = {(row.path, row.kind): row.id for row in rows}
        self._take_names(named, self.ids)

    def take_namespaces(self, namespaces: Sequence[str]) -> None:
        """All nodes that have something to do with namespaces that are missing in some version."""
        if not namespaces:
            return
        frame = self.engine.spark.createDataFrame([(one,) for one in namespaces], "namespace string")
        for column, taken in (("has", self.has), ("needs", self.needs)):
            words = self.nodes.selectExpr("path", "level", f"explode({column}) as namespace")
            for row in words.join(frame, "namespace").collect():
                self.levels[row.path] = row.level
                taken.append((row.path, row.namespace))

    def take_tables(self, found: DataFrame, named: DataFrame, findings: Iterable[DataFinding]) -> None:
        """The definitions of tables whose metadata leads to something that is wrong."""
        locations = sorted({location for one in findings for location in one.locations})
        if not locations:
            return
        frame = self.engine.spark.createDataFrame([(one,) for one in locations], "location string")
        rows = found.select("path", "kind", "location").join(frame, "location").collect()
        self.tables = {(row.path, row.kind): row.location for row in rows}
        self._take_names(named, self.tables)

    def _take_names(self, named: DataFrame, wanted: Collection[Named]) -> Iterable[tuple[str, Named]]:
        """Which nodes name definitions."""
        if not wanted:
            return ()
        frame = self.engine.spark.createDataFrame(sorted(wanted), "path string, kind int")
        rows = named.select("holder", "path", "kind").join(frame, ["path", "kind"]).collect()
        found = Counter((row.holder, (row.path, row.kind)) for row in rows)
        # a definition may be taken for several reasons
        self.names |= found
        return found

    def wanted(self) -> set[str]:
        """The nodes that matter."""
        found = {node for node, _, _ in self.marks} | self.unreadable
        found.update(holder for holder, _ in (*self.names, *self.has, *self.needs))
        return found.union(*(holders for _, holders in self.more_bad.values()))

    def edges_above(self, wanted: set[str]) -> list[Any]:
        """All pointers that lead to these nodes, and to the nodes that hold them, up to the roots."""
        edges = self.nodes.selectExpr("path as parent", "readable", "explode(children) as path")
        seen, front = set(wanted), set(wanted)
        found: list[Any] = []
        while front:
            frame = self.engine.spark.createDataFrame([(path,) for path in sorted(front)], "path string")
            rows = edges.join(frame, "path").select("parent", "readable", "path").collect()
            found += rows
            front = {row.parent for row in rows} - seen
            seen |= front
        return found


def fill(into: Examined, pruned: Pruned, versions: Sequence[int], holders: Sequence[Holder]) -> None:
    """Put what was found into the graph and the definitions."""
    graph, definitions = into.graph, into.definitions
    wanted = pruned.wanted()
    edges = pruned.edges_above(wanted)
    children: dict[str, list[str]] = {}
    sure: set[str] = set()
    for parent, readable, path in edges:
        children.setdefault(parent, []).append(path)
        if readable:
            sure.add(path)
    for path in sorted(wanted.union(children)):
        number = graph.number(path, pruned.levels.get(path, 0))[0]
        if path in pruned.unreadable:
            graph.unreadable.add(number)
    for parent, paths in children.items():
        graph.children[graph.numbers[parent]] = array("I", (graph.numbers[path] for path in paths))
    tops = {into.chain.path(version) for version in versions} | {holder.path for holder in holders}
    graph.doubtful.update(graph.numbers[path] for path in pruned.unreadable if path not in sure | tops)
    for node, path, flaw in pruned.marks:
        graph.mark(graph.numbers[node], path, flaw.code, flaw.reason)
    for column, taken in ((graph.has, pruned.has), (graph.needs, pruned.needs)):
        for node, namespace in taken:
            number = graph.namespaces.setdefault(namespace, len(graph.namespaces))
            column[graph.numbers[node]] = array("I", [*column[graph.numbers[node]], number])
    if definitions is not None:
        _fill_definitions(into, pruned)
    into.roots |= {version: graph.numbers.get(into.chain.path(version)) for version in versions}
    for holder in holders:
        into.holders.setdefault(graph.number(holder.path)[0], []).append(holder)


def _fill_definitions(into: Examined, pruned: Pruned) -> None:
    graph, definitions = into.graph, into.definitions
    assert definitions is not None
    numbers = {
        name: definitions.known(name[0], Kind(name[1]), pruned.levels.get(name[0], 0)) for _, name in pruned.names
    }
    held: dict[str, list[int]] = {}
    for (holder, name), times in pruned.names.items():
        held.setdefault(holder, []).extend([numbers[name]] * times)
    for holder, some in held.items():
        graph.names[graph.numbers[holder]] = array("I", some)
    definitions.bad |= {numbers[name]: BadDefinition(name[0], flaw) for name, flaw in pruned.bad.items()}
    for code, (count, nodes) in pruned.more_bad.items():
        definitions.more_bad[code] = (count, {graph.numbers[node] for node in nodes})
    for name, id in pruned.ids.items():
        definitions.set_id(numbers[name], id.to_bytes(8, "big", signed=True))
    for name, location in pruned.tables.items():
        definitions.note_table(numbers[name], location)
    _fill_unverified(into, pruned, numbers)


def _fill_unverified(into: Examined, pruned: Pruned, numbers: dict[Named, int]) -> None:
    """The keys of definitions without a digest are in the nodes that name them."""
    assert into.definitions is not None
    for holder, data in into.files.read_many(sorted(set(pruned.unverified.values()))):
        for path, kind, key in into.rules.look(holder, data).names:
            if pruned.unverified.get((path, int(kind))) == holder:
                into.definitions.unverified[numbers[path, int(kind)]] = (path, kind, key)
