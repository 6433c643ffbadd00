"""The trees of versions as facts: each file is read once, and not kept in memory."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol

from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.ops.fsck.definitions import READS_AT_ONCE, Definitions, Named, Verified
from olympia_cli.ops.fsck.findings import (
    DATA,
    FULL,
    NO_DATA,
    STRUCTURE,
    DataChecks,
    DataFinding,
    TableData,
    WithData,
    finding,
)
from olympia_cli.ops.fsck.graph import Graph, Growth
from olympia_cli.ops.fsck.roots import Chain, ChainReader, ChainRoot, RootChecks, RootNotes
from olympia_cli.ops.fsck.versions import list_versions
from olympia_cli.ops.walk import (
    Files,
    LocalTreeReader,
    NodeRules,
    TreeReader,
)

if TYPE_CHECKING:
    from olympia_cli.ops.fsck.holders import Holder
    from olympia_cli.ops.fsck.listing import Listing


class FileReader(TreeReader, Protocol):
    """A reader of nodes and of the definitions that they name."""

    @property
    def takes_all_roots(self) -> bool:
        """True if the trees of all roots are followed together, and not batch by batch."""
        ...

    def read_definitions(self, trees: Trees, *, last: bool) -> Iterator[WithData]:
        """Read the definitions that wait, if they are many. Read all of them after the `last` batch of nodes.

        At level `data`, yield tables and views with metadata.
        """
        ...


class Trees:
    """The trees that were followed so far. They grow by roots; only this class and its reader add to them.

    `definitions` is None if definitions are not read; `named` is None if they are not looked up in a listing.
    """

    def __init__(
        self, reader: FileReader, files: Files, chain: Chain, depth: int, verified: Verified | None = None
    ) -> None:
        """The chain's sizes determine the rules for keys and nodes."""
        sizes = chain.sizes
        self.files = files
        self.chain = chain
        self.depth = depth
        self.keys = KeyCodec.of(sizes, java=chain.java) if sizes is not None else None
        self.definitions = Definitions(files, self.keys, verified, depth >= DATA) if depth >= FULL else None
        self.named = Named() if depth == STRUCTURE and not chain.java else None
        names = self.definitions is not None or self.named is not None
        self.rules = NodeRules(self.keys, sizes.order if sizes is not None else None, chain.java, names)
        self.graph = Graph()
        self.notes = RootNotes()
        self.roots: dict[int, int] = {}
        """The number of the root of each version that was followed."""
        self.holders: dict[int, list[Holder]] = {}
        """The holders whose trees begin at each node."""
        self.chain_reader = ChainReader(files, chain)
        self._reader = reader
        self._growth = Growth(self.graph, files, self.rules, self.definitions, self.named, reader)

    @property
    def versions(self) -> dict[int, int]:
        """The version of each root in the graph."""
        return {number: version for version, number in self.roots.items()}

    def check_roots(self, versions: Sequence[int]) -> Iterator[list[ChainRoot]]:
        """Yield the roots of versions in batches, each checked by itself and against its predecessor."""
        checks = RootChecks(self.chain_reader, self.notes, actions=self.depth >= FULL)
        for batch in self.chain_reader.roots(versions):
            self.files.progress.advance(len(batch))
            checks.note(batch)
            yield batch

    def follow(self, roots: Iterable[Sequence[ChainRoot]]) -> Iterator[WithData]:
        """Follow the files that batches of roots reach, and earlier roots did not. Only if the reader takes all roots
        at once, more than a batch is in memory.
        """
        for batches in [roots] if self._reader.takes_all_roots else ([batch] for batch in roots):
            yield from self._grow(self._tops(batches))

    def _tops(self, batches: Iterable[Sequence[ChainRoot]]) -> Iterator[tuple[str, Node | bytes]]:
        checks = RootChecks(self.chain_reader, self.notes, actions=self.depth >= FULL)
        for batch in batches:
            yield from checks.follow(batch)
            self.roots |= {root.version: self.graph.numbers[root.path] for root in batch}

    def _grow(self, tops: Iterable[tuple[str, Node | bytes]]) -> Iterator[WithData]:
        for _ in self._growth.add(tops):
            yield from self._reader.read_definitions(self, last=False)
        yield from self._reader.read_definitions(self, last=True)

    def add(self, versions: Sequence[int], *, checked: bool = False) -> None:
        """Follow versions. Their roots may be `checked` already."""
        exhaust(self.follow(self.chain_reader.roots(versions) if checked else self.check_roots(versions)))

    def add_holders(self, holders: Sequence[Holder]) -> None:
        """Follow the trees of transactions and exports."""
        exhaust(self._grow((holder.pin.path, holder.root.node) for holder in holders))
        for holder in holders:
            self.holders.setdefault(self.graph.numbers[holder.pin.path], []).append(holder)

    def add_late(self) -> None:
        """Follow versions that were committed in the meantime: apparent orphans may belong to them."""
        existing, _ = list_versions(self.files.store)
        strays = {stray.version for stray in self.chain.strays}
        late = [version for version in existing if version > self.chain.latest and version not in strays]
        if late:
            before = len(self.notes.findings)
            self.add(late, checked=True)
            del self.notes.findings[before:]


def exhaust(objects: Iterable[object]) -> None:
    for _ in objects:
        pass


class Engine(FileReader, AbstractContextManager[object], Protocol):
    """An engine of one check. It is used inside a `with` block, at whose end it frees what it keeps."""

    def trees(self, files: Files, chain: Chain, depth: int, verified: Verified | None = None) -> Trees:
        """Return the trees of a catalog, without any version yet."""
        ...

    def check_data(self, trees: Trees, tables: Iterator[WithData]) -> TableData:
        """Check the data of tables while they come. All of them are taken, so their trees are complete afterwards."""
        ...

    def list_files(self, trees: Trees, saved: frozenset[str]) -> Listing:
        """Return the files that were not reached. `saved` are the transactions with a save."""
        ...


class LocalEngine(LocalTreeReader, AbstractContextManager["LocalEngine"]):
    """Read files in this process, in parallel if the store can. `data` checks the data of tables."""

    takes_all_roots = False

    def __init__(self, data: DataChecks | None = None) -> None:
        self._data = data

    def __exit__(self, *error: object) -> None:
        pass

    def trees(self, files: Files, chain: Chain, depth: int, verified: Verified | None = None) -> Trees:
        return Trees(self, files, chain, depth, verified)

    def read_definitions(self, trees: Trees, *, last: bool) -> Iterator[WithData]:
        definitions = trees.definitions
        if definitions is not None and (last or definitions.waiting >= READS_AT_ONCE):
            yield from definitions.read()

    def check_data(self, trees: Trees, tables: Iterator[WithData]) -> TableData:
        return check_data(self._data, trees, tables)

    def list_files(self, trees: Trees, saved: frozenset[str]) -> Listing:
        from olympia_cli.ops.fsck.listing import list_files

        return list_files(trees, saved)


def check_data(checks: DataChecks | None, trees: Trees, tables: Iterator[WithData]) -> TableData:
    """Check the data of tables at level `data`, and take all tables at any level."""
    data = NO_DATA
    if trees.depth >= DATA and checks is None:
        data = TableData((DataFinding(finding("F604", "", "this run cannot check table data")),))
    elif trees.depth >= DATA and checks is not None:
        data = TableData(tuple(checks.check(tables, trees.files.progress)), checks.data_files)
    # the check of data may stop early; the other tables are still read
    exhaust(tables)
    return data
