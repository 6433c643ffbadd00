"""What was learnt of some versions and of all that they reach: the values that a verdict is made from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from olympia_cli.format.keys import KeyCodec
from olympia_cli.ops.fsck.chain import Chain, ChainReader, ChainRoot
from olympia_cli.ops.fsck.data import DataFinding
from olympia_cli.ops.fsck.definitions import Definitions
from olympia_cli.ops.fsck.findings import Finding
from olympia_cli.ops.fsck.graph import Graph
from olympia_cli.ops.fsck.holders import Holder
from olympia_cli.ops.fsck.listing import Listing
from olympia_cli.ops.fsck.named import Named
from olympia_cli.ops.fsck.roots import RootNotes
from olympia_cli.ops.fsck.verified import Verified
from olympia_cli.ops.walk.facts import NodeRules
from olympia_cli.ops.walk.files import Files

HINTS, STRUCTURE, FULL, DATA = range(4)
"""How deep versions are looked at."""


@dataclass(slots=True)
class Examined:
    """Begins empty, and grows as files are read. `definitions` is None where nobody reads them, and `named` where
    nobody looks for them in a listing."""

    files: Files
    chain: Chain
    depth: int
    rules: NodeRules
    definitions: Definitions | None
    named: Named | None = None
    graph: Graph = field(default_factory=Graph)
    notes: RootNotes = field(default_factory=RootNotes)
    roots: dict[int, int] = field(default_factory=dict)
    """The versions that were followed, with the numbers of their roots."""
    holders: dict[int, list[Holder]] = field(default_factory=dict)
    """What else begins at a node."""
    findings: list[Finding] = field(default_factory=list)
    """What is wrong with hints, the names of versions, transactions and exports."""
    data_findings: list[DataFinding] = field(default_factory=list)
    """What is wrong with the data of tables."""
    data_files: int = 0

    @property
    def reader(self) -> ChainReader:
        return ChainReader(self.files, self.chain)

    @property
    def keys(self) -> KeyCodec | None:
        return self.rules.keys

    @property
    def versions(self) -> dict[int, int]:
        """The version of each root in the graph."""
        return {number: version for version, number in self.roots.items()}


def new_examined(files: Files, chain: Chain, depth: int, verified: Verified | None = None) -> Examined:
    """Nothing learnt yet of the versions of a chain, whose sizes say what keys and nodes must be like."""
    sizes = chain.sizes
    keys = KeyCodec.of(sizes, java=chain.java) if sizes is not None else None
    definitions = Definitions(files, keys, verified, depth >= DATA) if depth >= FULL else None
    named = Named() if depth == STRUCTURE and not chain.java else None
    names = definitions is not None or named is not None
    rules = NodeRules(keys, sizes.order if sizes is not None else None, chain.java, names)
    return Examined(files, chain, depth, rules, definitions, named)


IsWanted = Callable[[ChainRoot], bool]
"""Whether a root is of a version that somebody asked for."""


FindHolders = Callable[[], Sequence[Holder]]
"""Looks for what else begins a tree: late, since transactions come and go."""


class Engine(Protocol):
    """Who reads the many files of a catalog: threads of this process, or Spark. It maps, and decides nothing."""

    def examine(
        self, into: Examined, versions: Sequence[int], is_wanted: IsWanted | None, holders: FindHolders
    ) -> list[int]:
        """Look at the roots of versions as a chain; from the level of structure on, follow all of them, or the last one
        that `is_wanted`, and holders beside them. The versions that were asked for."""
        ...

    def examine_more(self, examined: Examined, versions: Sequence[int]) -> None:
        """Learn more, by following versions that were looked at as roots before."""
        ...

    def list_files(self, examined: Examined, saved: frozenset[str]) -> Listing:
        """What lies beside all that was reached; `saved` are the transactions that have a save."""
        ...
