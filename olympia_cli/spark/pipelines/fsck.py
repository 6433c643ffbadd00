"""fsck on Spark: what the local engine finds, finding for finding.

Workers read all files, each once, and judge each by itself; whether nodes, definitions and namespaces fit together in
every version is found by joins. Nothing but what is wrong comes here, with whatever leads to it: the part of the graph
that a verdict is about. A tree in which nodes are not where they should be is looked at once more, by the local engine.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from olympia_cli.errors import Unsupported
from olympia_cli.ops.export.files import NAME_DIGITS
from olympia_cli.ops.fsck.chain import list_versions
from olympia_cli.ops.fsck.examined import DATA, FULL, STRUCTURE, Examined, FindHolders, OutOfPlace, Wanted, new_examined
from olympia_cli.ops.fsck.fsck import FsckRequest, Report, check
from olympia_cli.ops.fsck.holders import Holder
from olympia_cli.ops.fsck.listing import Listing, Sorting, find_quarantine
from olympia_cli.ops.fsck.roots import RootNotes
from olympia_cli.ops.walk.files import Place
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.spark.pipelines.frames import cut, with_losses
from olympia_cli.spark.pipelines.fsck_listing import paths_frame, resting, sort_files, tally, unreached
from olympia_cli.spark.pipelines.fsck_named import homeless, shared_ids
from olympia_cli.spark.pipelines.fsck_pruned import Pruned, fill
from olympia_cli.spark.pipelines.fsck_roots import (
    ChainBrief,
    ChainNotes,
    brief_for,
    collect_chain,
    look_at_holders,
    look_at_roots,
)
from olympia_cli.spark.pipelines.fsck_spans import find_spans
from olympia_cli.spark.pipelines.walk import FilesPlace, all_nodes, named_by, read_definitions

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from olympia_cli.spark.engine import SparkEngine


def spark_fsck(engine: SparkEngine, request: FsckRequest, say: Callable[[str], None] = lambda text: None) -> Report:
    """Check a catalog, as ops/fsck does; it says where it has to go on with the local engine."""
    store = engine.catalog.store
    try:
        return with_losses(lambda: check(store, request, SparkFsck(engine)))
    except OutOfPlace:
        say("nodes of the tree are out of place: looking again with the local engine, in this process")
    return check(store, request)


class SparkFsck:
    """The engine of a run whose many files are read by Spark's executors."""

    def __init__(self, engine: SparkEngine, place: FilesPlace | None = None) -> None:
        """`place` is where tasks read, if that is not the catalog."""
        self._engine = engine
        self._place = place if place is not None else engine.catalog
        self._reached_files: list[DataFrame] = []
        self._data_looked_at = False
        self._chain_notes = RootNotes()
        """What was noted of the chain, before any version was followed."""

    def examine(
        self, into: Examined, versions: Sequence[int], wanted: Wanted | None, holders: FindHolders
    ) -> list[int]:
        if into.chain.java:
            raise Unsupported("a catalog of the Java SDK is not checked on Spark", hint="use --engine local")
        follow_all = wanted is None and into.depth >= STRUCTURE
        into.files.progress.phase("reading roots", len(versions))
        brief = self._brief(into, versions)
        tops = cut(look_at_roots(self._engine, brief, follow=follow_all, note=True, wanted=wanted))
        chained = collect_chain(tops)
        _take_chain(into, chained)
        self._chain_notes = copy.deepcopy(into.notes)
        chosen = list(versions) if wanted is None else [chained.wanted] if chained.wanted is not None else []
        if into.depth >= STRUCTURE and chosen:
            self._follow(into, chosen, holders(), tops if follow_all else None)
        return chosen

    def examine_more(self, examined: Examined, versions: Sequence[int]) -> Examined:
        """All versions are looked at again; what was found of the chain, and what the log disproved, stays found."""
        again = new_examined(examined.files, examined.chain, examined.depth)
        again.findings, again.data_findings = examined.findings, examined.data_findings
        again.data_files, again.notes = examined.data_files, copy.deepcopy(self._chain_notes)
        self._follow(again, sorted([*examined.roots, *versions]), (), None, _disproved(examined))
        return again

    def _brief(self, into: Examined, versions: Sequence[int]) -> ChainBrief:
        return brief_for(
            self._place,
            into.rules,
            into.chain,
            versions,
            actions=into.depth >= FULL,
            texts=into.depth >= DATA,
        )

    def _follow(
        self,
        into: Examined,
        versions: Sequence[int],
        holders: Sequence[Holder],
        tops: DataFrame | None,
        disproved: dict[tuple[str, int], Flaw] | None = None,
    ) -> None:
        """Read all that versions and holders reach, and take here what is wrong with it."""
        engine, progress = self._engine, into.files.progress
        brief = self._brief(into, versions)
        if tops is None:
            tops = cut(look_at_roots(engine, brief, follow=True, note=False))
            _take_chain(into, collect_chain(tops))
        # a version may be one too, and is there once
        beside = {holder.path: holder.data for holder in holders}
        for version in versions:
            beside.pop(into.chain.path(version), None)
        if beside:
            tops = cut(tops.union(look_at_holders(engine, brief, beside)))
        nodes = all_nodes(engine, brief, tops, progress)
        spans = find_spans(engine, tops, nodes, progress)
        if spans.odd:
            raise OutOfPlace
        in_versions = spans.frame.where("first >= 0")
        pruned = Pruned(engine, nodes)
        pruned.take_nodes()
        for row in nodes.where("version is null").groupBy("level").agg(*_sums("readable and not verified")).collect():
            into.graph.read_count += row.number
            into.graph.without_digest += row.unverified
            into.files.tally(Place("", row.level), row.there, row.bytes, is_node=True, names=row.names)
        if into.definitions is not None:
            self._read_definitions(into, nodes, in_versions, pruned, disproved or {})
        progress.phase("looking for missing namespaces")
        pruned.take_namespaces(homeless(engine, nodes, in_versions))
        fill(into, pruned, versions, holders)
        self._reached_files.append(nodes.select("path"))

    def _read_definitions(
        self,
        into: Examined,
        nodes: DataFrame,
        spans: DataFrame,
        pruned: Pruned,
        disproved: dict[tuple[str, int], Flaw],
    ) -> None:
        engine, definitions, progress = self._engine, into.definitions, into.files.progress
        assert definitions is not None
        progress.phase("reading definitions")
        found = read_definitions(engine, self._place, nodes)
        for row in found.groupBy("level").agg(*_sums("not verified")).collect():
            definitions.read_count += row.number
            definitions.without_digest += row.unverified
            into.files.tally(Place("", row.level), row.there, row.bytes, is_node=False, names=row.names)
        named = named_by(nodes)
        pruned.take_bad_definitions(found, named, disproved)
        if definitions.without_digest:
            pruned.take_unverified(found, named)
        catalog_id = into.chain.reference.id if into.chain.reference is not None else ""
        progress.phase("looking for ids that are there twice")
        pruned.take_ids(found, named, shared_ids(engine, found, nodes, spans, catalog_id))
        if into.depth >= DATA:
            self._look_at_data(into, found, named, pruned)
        self._reached_files.append(found.select("path"))

    def _look_at_data(self, into: Examined, found: DataFrame, named: DataFrame, pruned: Pruned) -> None:
        from olympia_cli.spark.pipelines.fsck_data import check_data
        from olympia_cli.spark.pipelines.fsck_tables import tables_of

        if not self._data_looked_at:
            # once: versions that are looked at later are looked at for the trees that they have
            self._data_looked_at = True
            findings, checked = check_data(self._engine, tables_of(found, into.keys), progress=into.files.progress)
            into.data_findings += findings
            into.data_files = checked["data_files"]
        pruned.take_tables(found, named, into.data_findings)

    # The listing

    def list_files(self, examined: Examined, saved: frozenset[str]) -> Listing:
        chain = examined.chain
        examined.files.progress.phase("listing files")
        quarantine = find_quarantine(chain.reference)
        sorting = Sorting(saved, chain.oldest, chain.width)
        listing = Listing(sorting, lambda path: False, quarantine)
        files = sort_files(self._engine, sorting)
        reached = [*self._reached_files, paths_frame(self._engine, chain.catalogs)]
        going = unreached(self._engine, files, reached)
        if not going.where("code = 'F901'").isEmpty():
            late = self._late_files(examined)
            going = going if late is None else unreached(self._engine, going, [late])
        tally(going, listing, resting(self._engine, quarantine))
        return listing

    def _late_files(self, examined: Examined) -> DataFrame | None:
        """Files that nothing led to may belong to versions that were committed meanwhile."""
        existing, _ = list_versions(examined.files.store)
        late = [version for version in existing if version > examined.chain.latest]
        if not late:
            return None
        brief = self._brief(examined, late)
        tops = cut(look_at_roots(self._engine, brief, follow=True, note=False))
        nodes = all_nodes(self._engine, brief, tops)
        catalogs = paths_frame(self._engine, collect_chain(tops).catalogs)
        return nodes.select("path").union(named_by(nodes).select("path")).union(catalogs)


# a file's name and size as `ops/export` makes a number of them
_NAME = f"cast(conv(substring(sha2(concat(path, ' ', bytes), 256), 1, {NAME_DIGITS}), 16, 10) as bigint)"


def _sums(unverified: str) -> list[Column]:
    """Of a level: how many files there are, how many of them were there, their bytes and names, and how many lack a
    digest."""
    from pyspark.sql.functions import expr

    return [
        expr("count(*)").alias("number"),
        expr("count_if(bytes > 0)").alias("there"),
        expr("sum(bytes)").alias("bytes"),
        expr(f"bit_xor({_NAME}) filter (where bytes > 0)").alias("names"),
        expr(f"count_if({unverified})").alias("unverified"),
    ]


def _take_chain(into: Examined, chained: ChainNotes) -> None:
    """Catalog definitions that are known to be bad stay so: it may be the log that disproved them."""
    catalogs, notes = into.chain.catalogs, into.notes
    for path, catalog in chained.catalogs.items():
        if path not in catalogs:
            into.files.tally(Place(path, 1), bool(catalog.size), catalog.size, is_node=False)
        if path not in catalogs or catalogs[path].flaw is None:
            catalogs[path] = catalog
    notes.add(chained.notes)
    notes.bad_catalogs |= {path: versions for path, versions in notes.catalogs.items() if catalogs[path].flaw}
    into.files.bytes += chained.bytes


def _disproved(examined: Examined) -> dict[tuple[str, int], Flaw]:
    """The definitions that the log disproved, by path and kind."""
    definitions, found = examined.definitions, {}
    if definitions is not None:
        for number, bad in definitions.bad.items():
            if number in definitions.unverified:
                path, kind, _ = definitions.unverified[number]
                found[path, int(kind)] = bad.flaw
    return found
