"""The engine of this process: files are read in parallel where the store can, and let go when they were looked at."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.names import TableName
from olympia_cli.ops.fsck.chain import ROOTS_AT_ONCE, ChainRoot, list_versions
from olympia_cli.ops.fsck.data import DataChecks, DataFinding
from olympia_cli.ops.fsck.examined import DATA, FULL, STRUCTURE, Examined, FindHolders, Wanted
from olympia_cli.ops.fsck.findings import finding
from olympia_cli.ops.fsck.growth import Growth
from olympia_cli.ops.fsck.listing import Listing, Sorting, look_for, read_quarantine
from olympia_cli.ops.fsck.roots import RootChecks

Tables = Iterator[tuple[TableName, TableDef]]


class LocalEngine:
    """One for each run: it keeps what its graph grows by. `data` looks at the data of tables, if anybody can."""

    def __init__(self, data: DataChecks | None = None) -> None:
        self._data = data
        self._growth: Growth | None = None

    def examine(
        self, into: Examined, versions: Sequence[int], wanted: Wanted | None, holders: FindHolders
    ) -> list[int]:
        chosen: list[int] = []
        self._look_at_data(into, self._look_at_roots(into, versions, wanted, chosen))
        for holder in holders():
            _exhaust(self._grow(into).add([(holder.path, holder.root.node)]))
            into.holders.setdefault(into.graph.numbers[holder.path], []).append(holder)
        return chosen

    def examine_more(self, examined: Examined, versions: Sequence[int]) -> Examined:
        _exhaust(self.follow(examined, list(examined.reader.roots(versions))))
        return examined

    def follow(self, into: Examined, roots: Sequence[ChainRoot]) -> Tables:
        """Check what these roots reach and no root before them did."""
        checks = RootChecks(into.reader, into.notes, actions=into.depth >= FULL)
        yield from self._grow(into).add(checks.follow(roots))
        into.roots |= {root.version: into.graph.numbers[root.path] for root in roots}

    def _grow(self, into: Examined) -> Growth:
        if self._growth is None or self._growth.graph is not into.graph:
            self._growth = Growth(into.graph, into.files, into.rules, into.definitions)
        return self._growth

    def _look_at_roots(
        self, into: Examined, versions: Sequence[int], wanted: Wanted | None, chosen: list[int]
    ) -> Tables:
        progress, follow_all = into.files.progress, wanted is None and into.depth >= STRUCTURE
        progress.phase("reading versions" if follow_all else "reading roots", None if follow_all else len(versions))
        checks = RootChecks(into.reader, into.notes, actions=into.depth >= FULL)
        last: ChainRoot | None = None
        batch: list[ChainRoot] = []
        for root in into.reader.roots(versions):
            progress.advance()
            checks.note(root)
            if follow_all:
                batch.append(root)
                if len(batch) >= ROOTS_AT_ONCE:
                    yield from self.follow(into, batch)
                    batch = []
            elif wanted is not None and wanted(root):
                last = root
        if wanted is None:
            chosen += versions
            yield from self.follow(into, batch)
        elif last is not None:
            chosen.append(last.version)
            if into.depth >= STRUCTURE:
                progress.phase("reading nodes")
                yield from self.follow(into, [last])

    def _look_at_data(self, into: Examined, tables: Tables) -> None:
        if into.depth >= DATA and self._data is None:
            nobody = finding("F604", "", "nothing is there that could look at table data")
            into.data_findings.append(DataFinding(nobody))
        elif into.depth >= DATA and self._data is not None:
            into.data_findings += self._data.check(tables, into.files.progress)
            into.data_files = self._data.data_files
        # whoever looks at the data need not take all tables
        _exhaust(tables)

    # The listing

    def list_files(self, examined: Examined, saved: frozenset[str]) -> Listing:
        chain, files, definitions = examined.chain, examined.files, examined.definitions
        assert definitions is not None
        files.progress.phase("listing files")

        def reached(path: str) -> bool:
            return path in examined.graph or path in chain.catalogs or path in definitions

        listing = Listing(Sorting(saved, chain.oldest, chain.width), reached, read_quarantine(files, chain.reference))
        listed = bytearray(len(definitions))
        for file in files.store.list(temporary=True):
            files.progress.advance()
            listing.take(file.path, file.size)
            number = definitions.number(file.path)
            if number is not None:
                listed[number] = 1
        if definitions.skipped and not files.out_of_time:
            gone = {number for number in range(len(listed)) if definitions.unread[number] and not listed[number]}
            look_for(files, examined.graph, definitions, gone, chain.java)
        if listing.orphans:
            self._follow_late(examined)
        return listing

    def _follow_late(self, examined: Examined) -> None:
        """Files that nothing led to may belong to versions that were committed meanwhile."""
        existing, _ = list_versions(examined.files.store)
        strays = {stray.version for stray in examined.chain.strays}
        late = [version for version in existing if version > examined.chain.latest and version not in strays]
        if late:
            before = len(examined.notes.findings)
            _exhaust(self.follow(examined, list(examined.reader.roots(late))))
            del examined.notes.findings[before:]


def _exhaust(tables: Iterable[tuple[TableName, TableDef]]) -> None:
    for _ in tables:
        pass
