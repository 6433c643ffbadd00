"""The engines of a check: the readers of a catalog's many files. They make no decisions.

An engine reads nodes, definitions, the data of tables, and the listing. The engine of this process is here; Spark's is
`spark/pipelines/fsck.SparkFsck`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from olympia_cli.ops.fsck.chain import ROOTS_AT_ONCE, Chain
from olympia_cli.ops.fsck.definitions import READS_AT_ONCE, Verified
from olympia_cli.ops.fsck.findings import NO_DATA, DataChecks, DataFinding, TableData, WithData, finding
from olympia_cli.ops.fsck.listing import Listing, Sorting, look_for, read_quarantine
from olympia_cli.ops.fsck.report import DATA
from olympia_cli.ops.fsck.trees import FileReader, Trees, exhaust
from olympia_cli.ops.walk import HERE, Files, NodeFacts, NodeRules, Place


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


class LocalEngine(AbstractContextManager["LocalEngine"]):
    """Read files in this process, in parallel if the store can. `data` checks the data of tables."""

    at_once: int | None = None
    roots_at_once: int | None = ROOTS_AT_ONCE

    def __init__(self, data: DataChecks | None = None) -> None:
        self._data = data

    def __exit__(self, *error: object) -> None:
        pass

    def trees(self, files: Files, chain: Chain, depth: int, verified: Verified | None = None) -> Trees:
        return Trees(self, files, chain, depth, verified)

    def nodes(self, files: Files, rules: NodeRules, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        return HERE.nodes(files, rules, places)

    def read_definitions(self, trees: Trees, *, last: bool) -> Iterator[WithData]:
        definitions = trees.definitions
        if definitions is not None and (last or definitions.waiting >= READS_AT_ONCE):
            yield from definitions.read()

    def check_data(self, trees: Trees, tables: Iterator[WithData]) -> TableData:
        return check_data(self._data, trees, tables)

    def list_files(self, trees: Trees, saved: frozenset[str]) -> Listing:
        chain, files, definitions, graph = trees.chain, trees.files, trees.definitions, trees.graph
        assert definitions is not None
        files.progress.phase("listing files")
        listed = bytearray(len(definitions))

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
            look_for(files, graph, definitions, gone, chain.java)
        if listing.orphans:
            trees.add_late()
        return listing


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
