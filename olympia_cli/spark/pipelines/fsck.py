"""fsck on Spark: what the local engine finds, finding for finding.

Workers read all files, each once, and judge each by itself; whether nodes, definitions and namespaces fit together in
every version is found by joins. Nothing but what is wrong comes here: for that, and for whatever leads to it, the
graph that the local engine has of everything is filled, and the local engine's verdict is asked. A tree in which nodes
are not where they should be is looked at once more, by the local engine.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from olympia_cli.catalog.clock import Clock, SystemClock
from olympia_cli.errors import Unsupported
from olympia_cli.names import Reference
from olympia_cli.ops.fsck.chain import ROOTS_AT_ONCE, CatalogFile, list_versions
from olympia_cli.ops.fsck.data import DataChecks
from olympia_cli.ops.fsck.findings import finding
from olympia_cli.ops.fsck.fsck import Level, Report, fsck, report_of
from olympia_cli.ops.fsck.holders import Holder
from olympia_cli.ops.fsck.listing import Listing, Sorting, find_quarantine
from olympia_cli.ops.fsck.run import DATA, FULL, HINTS, LOOK_BACK, STRUCTURE, Run
from olympia_cli.ops.fsck.verdict import Verdict
from olympia_cli.ops.fsck.wanted import wanted_root
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.files import Flaw, StoreFailure
from olympia_cli.spark.failures import explained
from olympia_cli.spark.pipelines.cut import cut, with_losses
from olympia_cli.spark.pipelines.fsck_listing import paths_frame, resting, sort_files, tally, unreached
from olympia_cli.spark.pipelines.fsck_named import homeless, named_by, read_definitions, shared_ids
from olympia_cli.spark.pipelines.fsck_pruned import Pruned, fill
from olympia_cli.spark.pipelines.fsck_spans import find_spans
from olympia_cli.spark.pipelines.fsck_walk import (
    Asked,
    Chained,
    all_nodes,
    asked_of,
    collect_chain,
    look_at_holders,
    look_at_roots,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from olympia_cli.spark.engine import SparkEngine


def spark_fsck(
    engine: SparkEngine,
    *,
    level: Level = Level.STRUCTURE,
    at: Reference | None = None,
    all_versions: bool = False,
    clock: Clock | None = None,
    data: DataChecks | None = None,
    progress: Progress = SILENT,
    say: Callable[[str], None] = lambda text: None,
) -> Report:
    """Check a catalog, as ops/fsck does. `data` is for the local engine, where it has to go on, which it says."""
    clock = clock if clock is not None else SystemClock()
    depth, now = list(Level).index(level), clock.now_millis()

    def check() -> Report:
        run = SparkRun(engine, depth, at=at, all_versions=all_versions, now=now, progress=progress)
        with explained():
            return report_of(level, run.run())

    try:
        return with_losses(check)
    except StoreFailure as failure:
        raise failure.error from None
    except OutOfPlace:
        say("nodes of the tree are out of place: looking again with the local engine, in this process")
    return fsck(
        engine.catalog.store, level=level, at=at, all_versions=all_versions, clock=clock, data=data, progress=progress
    )


class OutOfPlace(Exception):
    """Nodes are in a range, on a level or in as many places as they should not be."""


class SparkRun(Run):
    """The local run, with all that reads many files left to Spark."""

    def __init__(
        self,
        engine: SparkEngine,
        depth: int,
        *,
        at: Reference | None,
        all_versions: bool,
        now: int,
        progress: Progress,
    ) -> None:
        super().__init__(
            engine.catalog.store,
            depth=depth,
            at=at,
            all_versions=all_versions,
            now=now,
            verified=None,
            out_of_time=lambda: False,
            progress=progress,
        )
        self._engine = engine
        self._reached_files: list[DataFrame] = []
        self._disproved: dict[tuple[str, int], Flaw] = {}
        self._bad_catalogs: dict[str, CatalogFile] = {}

    def _prepare(self) -> None:
        super()._prepare()
        if self.chain.java:
            raise Unsupported("a catalog of the Java SDK is not checked on Spark", hint="use --engine local")

    # Roots and trees

    def _read(self) -> list[int]:
        kept = self.chain.kept
        follow_all = self.all and self.depth >= STRUCTURE
        wanted = None if self.all else wanted_root(self.chain, self.at, self.now)
        self.progress.phase("reading roots", len(kept))
        tops = cut(look_at_roots(self._engine, self._asked(kept), follow=follow_all, note=True, wanted=wanted))
        chained = collect_chain(tops)
        self._take_chain(chained)
        self._noted = copy.deepcopy(self.seen)
        versions = list(kept) if self.all else [chained.wanted] if chained.wanted is not None else []
        if not self.all and not versions:
            self._reference_root()
        if self.depth == HINTS:
            self._check_last_catalog()
        if not self.seen.readable:
            self.findings.append(finding("F103", "vn/", "no version can be read", hint="fsck --salvage DEST"))
        if self.depth >= STRUCTURE and versions:
            holders = self._find_holders() if self.all else []
            self._examine(versions, holders, tops if follow_all else None)
        return versions

    def _asked(self, versions: Sequence[int]) -> Asked:
        return asked_of(
            self._engine.catalog,
            self.rules,
            self.chain,
            versions,
            actions=self.depth >= FULL,
            texts=self.depth >= DATA,
        )

    def _take_chain(self, chained: Chained) -> None:
        self.seen.add(chained.seen)
        self.chain.catalogs |= chained.catalogs | self._bad_catalogs
        for path in self._bad_catalogs.keys() & self.seen.catalogs.keys():
            self.seen.bad_catalogs.setdefault(path, self.seen.catalogs[path])
        self.files.bytes += chained.bytes

    def _check_last_catalog(self) -> None:
        """At the level of hints, that of the newest root that can be read."""
        for version in reversed(self.chain.kept):
            [root] = self.reader.roots([version])
            if root.root is not None:
                self.checks.check_catalogs([root])
                return

    def _follow_holders(self) -> None:
        """They are followed together with the versions."""

    def _examine(self, versions: Sequence[int], holders: Sequence[Holder], tops: DataFrame | None) -> None:
        """Read all that versions and holders reach, and take here what is wrong with it."""
        engine = self._engine
        asked = self._asked(versions)
        if tops is None:
            tops = cut(look_at_roots(engine, asked, follow=True, note=False))
            self._take_chain(collect_chain(tops))
        for holder in holders:
            self._check_holder(holder)
        # a version may be one too, and is there once
        beside = {holder.path: holder.data for holder in holders}
        for version in versions:
            beside.pop(self.chain.path(version), None)
        if beside:
            tops = cut(tops.union(look_at_holders(engine, asked, beside)))
        nodes = all_nodes(engine, asked, tops, self.progress)
        spans = find_spans(engine, tops, nodes, self.progress)
        if spans.odd:
            raise OutOfPlace
        in_versions = spans.frame.where("first >= 0")
        pruned = Pruned(engine, nodes)
        pruned.take_nodes()
        read = nodes.where("version is null").selectExpr(
            "count(*) as nodes", "count_if(readable and not verified) as unverified", "sum(bytes) as bytes"
        )
        [row] = read.collect()
        self.graph.read_count, self.graph.without_digest = row.nodes, row.unverified
        self.files.bytes += row.bytes or 0
        if self.definitions is not None:
            self._examine_definitions(nodes, in_versions, pruned)
        self.progress.phase("looking for missing namespaces")
        pruned.take_namespaces(homeless(engine, nodes, in_versions))
        fill(self, pruned, versions, holders)
        self._reached_files.append(nodes.select("path"))

    def _examine_definitions(self, nodes: DataFrame, spans: DataFrame, pruned: Pruned) -> None:
        engine, definitions = self._engine, self.definitions
        assert definitions is not None
        self.progress.phase("reading definitions")
        found = read_definitions(engine, nodes)
        [row] = found.selectExpr(
            "count(*) as number", "count_if(not verified) as unverified", "sum(bytes) as bytes"
        ).collect()
        definitions.read_count, definitions.without_digest = row.number, row.unverified
        self.files.bytes += row.bytes or 0
        named = named_by(nodes)
        pruned.take_bad_definitions(found, named, self._disproved)
        if row.unverified:
            pruned.take_unverified(found, named)
        catalog_id = self.chain.reference.id if self.chain.reference is not None else ""
        self.progress.phase("looking for ids that are there twice")
        pruned.take_ids(found, named, shared_ids(engine, found, nodes, spans, catalog_id))
        if self.depth >= DATA:
            self._examine_data(found, named, pruned)
        self._reached_files.append(found.select("path"))

    def _examine_data(self, found: DataFrame, named: DataFrame, pruned: Pruned) -> None:
        from olympia_cli.spark.pipelines.fsck_data import check_data
        from olympia_cli.spark.pipelines.fsck_tables import tables_of

        if "data_files" not in self.counts:
            # once: versions that are looked at later are looked at for the trees that they have
            findings, checked = check_data(self._engine, tables_of(found, self.keys), progress=self.progress)
            self.extra += findings
            self.counts["data_files"] = checked["data_files"]
        pruned.take_tables(found, named, self.extra, self.keys)

    # The verdict

    def _look_back(self, asked: Sequence[int], verdict: Verdict) -> Verdict:
        """As the local run does; but with each step all the versions are looked at again."""
        if list(asked) != [self.chain.latest]:
            return verdict
        older = [version for version in reversed(self.chain.kept) if version < self.chain.latest][:LOOK_BACK]
        at, step = 0, 8
        while verdict.last_sound(verdict.findings(objects=False)) is None and at < len(older):
            at, step = at + step, ROOTS_AT_ONCE
            versions = sorted([*asked, *older[:at]])
            self._begin_again()
            self._examine(versions, [], None)
            verdict = Verdict(self, versions)
        return verdict

    def _begin_again(self) -> None:
        """Forget the trees; what was found of the chain, and what the log disproved, stays found."""
        if self.definitions is not None:
            for number, bad in self.definitions.bad.items():
                if number in self.definitions.unverified:
                    path, kind, _ = self.definitions.unverified[number]
                    self._disproved[path, int(kind)] = bad.flaw
        self._bad_catalogs |= {path: self.chain.catalogs[path] for path in self.seen.bad_catalogs}
        self.seen = copy.deepcopy(self._noted)
        self.roots = {}
        self._prepare()

    # The listing

    def _list(self) -> Listing:
        chain = self.chain
        self.progress.phase("listing files")
        quarantine = find_quarantine(chain.reference)
        sorting = Sorting(self.saved, chain.oldest, chain.width)
        listing = Listing(sorting, lambda path: False, quarantine)
        files = sort_files(self._engine, sorting)
        reached = [*self._reached_files, paths_frame(self._engine, chain.catalogs)]
        going = unreached(self._engine, files, reached)
        if not going.where("code = 'F901'").isEmpty():
            late = self._late_files()
            going = going if late is None else unreached(self._engine, going, [late])
        tally(going, listing, resting(self._engine, quarantine))
        return listing

    def _late_files(self) -> DataFrame | None:
        """Files that nothing led to may belong to versions that were committed meanwhile."""
        existing, _ = list_versions(self.store)
        late = [version for version in existing if version > self.chain.latest]
        if not late:
            return None
        asked = self._asked(late)
        tops = cut(look_at_roots(self._engine, asked, follow=True, note=False))
        nodes = all_nodes(self._engine, asked, tops)
        catalogs = paths_frame(self._engine, collect_chain(tops).catalogs)
        return nodes.select("path").union(named_by(nodes).select("path")).union(catalogs)
