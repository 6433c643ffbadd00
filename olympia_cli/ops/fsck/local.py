"""The engine of this process. Files are read in parallel if the store can, and not kept in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, islice

from olympia_cli.format.node import Node
from olympia_cli.ops.fsck.chain import ROOTS_AT_ONCE, ChainRoot, list_versions
from olympia_cli.ops.fsck.data import DataChecks, DataFinding, WithData
from olympia_cli.ops.fsck.definitions import AT_ONCE
from olympia_cli.ops.fsck.examined import DATA, FULL, STRUCTURE, Examined, FindHolders, IsWanted
from olympia_cli.ops.fsck.findings import finding
from olympia_cli.ops.fsck.growth import Growth
from olympia_cli.ops.fsck.listing import Listing, Sorting, look_for, read_quarantine
from olympia_cli.ops.fsck.roots import RootChecks
from olympia_cli.ops.walk.mapper import HERE, Mapper


class LocalEngine:
    """The engine for one run: it keeps the state of the graph. `data` checks the data of tables; `mapper` examines
    nodes.
    """

    roots_at_once: int | None = ROOTS_AT_ONCE
    """The number of roots whose trees are followed together; all roots if None."""

    def __init__(self, data: DataChecks | None = None, mapper: Mapper = HERE) -> None:
        self._data = data
        self._mapper = mapper
        self._growth: Growth | None = None

    def examine(
        self, into: Examined, versions: Sequence[int], is_wanted: IsWanted | None, holders: FindHolders
    ) -> list[int]:
        chosen: list[int] = []
        self._look_at_data(into, self._look_at_roots(into, versions, is_wanted, chosen))
        beside = holders()
        _exhaust(self._grow(into, ((holder.path, holder.root.node) for holder in beside)))
        for holder in beside:
            into.holders.setdefault(into.graph.numbers[holder.path], []).append(holder)
        return chosen

    def examine_more(self, examined: Examined, versions: Sequence[int]) -> None:
        _exhaust(self.follow(examined, examined.reader.roots(versions)))

    def follow(self, into: Examined, roots: Iterable[ChainRoot]) -> Iterator[WithData]:
        """Follow the files that these roots reach, and earlier roots did not."""
        roots = iter(roots)
        for first in roots:
            more = islice(roots, None if self.roots_at_once is None else self.roots_at_once - 1)
            yield from self._grow(into, self._tops(into, chain([first], more)))

    def _tops(self, into: Examined, roots: Iterator[ChainRoot]) -> Iterator[tuple[str, Node | bytes]]:
        """Yield the roots of trees. A bounded number of roots is in memory."""
        checks = RootChecks(into.reader, into.notes, actions=into.depth >= FULL)
        while batch := list(islice(roots, ROOTS_AT_ONCE)):
            yield from checks.follow(batch)
            into.roots |= {root.version: into.graph.numbers[root.path] for root in batch}

    def _grow(self, into: Examined, tops: Iterable[tuple[str, Node | bytes]]) -> Iterator[WithData]:
        """Follow trees from their roots. Yield tables and views after reading their definitions."""
        definitions = into.definitions
        for _ in self._growth_of(into).add(tops):
            if definitions is not None and definitions.waiting >= AT_ONCE:
                yield from definitions.read()
        if definitions is not None:
            yield from definitions.read()

    def _growth_of(self, into: Examined) -> Growth:
        if self._growth is None or self._growth.graph is not into.graph:
            self._growth = Growth(into.graph, into.files, into.rules, into.definitions, into.named, self._mapper)
        return self._growth

    def _look_at_roots(
        self, into: Examined, versions: Sequence[int], is_wanted: IsWanted | None, chosen: list[int]
    ) -> Iterator[WithData]:
        progress, follow_all = into.files.progress, is_wanted is None and into.depth >= STRUCTURE
        progress.phase("reading versions" if follow_all else "reading roots", None if follow_all else len(versions))
        roots = self._noted(into, versions)
        last: ChainRoot | None = None
        if follow_all:
            yield from self.follow(into, roots)
        for root in roots:
            if is_wanted is not None and is_wanted(root):
                last = root
        if is_wanted is None:
            chosen += versions
        elif last is not None:
            chosen.append(last.version)
            if into.depth >= STRUCTURE:
                progress.phase("reading nodes")
                yield from self.follow(into, [last])

    def _noted(self, into: Examined, versions: Sequence[int]) -> Iterator[ChainRoot]:
        """Yield the roots of versions, each checked by itself and against its predecessor."""
        checks = RootChecks(into.reader, into.notes, actions=into.depth >= FULL)
        for root in into.reader.roots(versions):
            into.files.progress.advance()
            checks.note(root)
            yield root

    def _look_at_data(self, into: Examined, tables: Iterator[WithData]) -> None:
        if into.depth >= DATA and self._data is None:
            nobody = finding("F604", "", "this run cannot check table data")
            into.data_findings.append(DataFinding(nobody))
        elif into.depth >= DATA and self._data is not None:
            into.data_findings += self._data.check(tables, into.files.progress)
            into.data_files = self._data.data_files
        # the check of data may stop early; the other tables are still read
        _exhaust(tables)

    # The listing

    def list_files(self, examined: Examined, saved: frozenset[str]) -> Listing:
        chain, files, definitions = examined.chain, examined.files, examined.definitions
        assert definitions is not None
        files.progress.phase("listing files")
        graph, listed = examined.graph, bytearray(len(definitions))

        def reached(path: str) -> bool:
            number = definitions.number(path)
            if number is not None and number < len(listed):
                listed[number] = 1
            return number is not None or path in graph or path in chain.catalogs

        listing = Listing(Sorting(saved, chain.oldest, chain.width), reached, read_quarantine(files, chain.reference))
        for file in files.store.list(temporary=True):
            files.progress.advance()
            listing.take(file.path, file.size)
        if definitions.skipped and not files.out_of_time:
            gone = {number for number in range(len(listed)) if definitions.unread[number] and not listed[number]}
            look_for(files, examined.graph, definitions, gone, chain.java)
        if listing.orphans:
            self._follow_late(examined)
        return listing

    def _follow_late(self, examined: Examined) -> None:
        """Follow versions that were committed in the meantime: apparent orphans may belong to them."""
        existing, _ = list_versions(examined.files.store)
        strays = {stray.version for stray in examined.chain.strays}
        late = [version for version in existing if version > examined.chain.latest and version not in strays]
        if late:
            before = len(examined.notes.findings)
            _exhaust(self.follow(examined, examined.reader.roots(late)))
            del examined.notes.findings[before:]


def _exhaust(objects: Iterable[WithData]) -> None:
    for _ in objects:
        pass
