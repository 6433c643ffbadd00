"""The facts about some versions and all files that they reach: the input of a verdict."""

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
"""The depths of examination."""


@dataclass(slots=True)
class Examined:
    """The facts, which grow while files are read. `definitions` is None if definitions are not read; `named` is None if
    they are not looked up in a listing.
    """

    files: Files
    chain: Chain
    depth: int
    rules: NodeRules
    definitions: Definitions | None
    named: Named | None = None
    graph: Graph = field(default_factory=Graph)
    notes: RootNotes = field(default_factory=RootNotes)
    roots: dict[int, int] = field(default_factory=dict)
    """The number of the root of each version that was followed."""
    holders: dict[int, list[Holder]] = field(default_factory=dict)
    """The holders whose trees begin at each node."""
    findings: list[Finding] = field(default_factory=list)
    """Findings about hints, names of versions, transactions and exports."""
    data_findings: list[DataFinding] = field(default_factory=list)
    """Findings about the data of tables."""
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
    """Return empty facts about the versions of a chain. The chain's sizes determine the rules for keys and nodes."""
    sizes = chain.sizes
    keys = KeyCodec.of(sizes, java=chain.java) if sizes is not None else None
    definitions = Definitions(files, keys, verified, depth >= DATA) if depth >= FULL else None
    named = Named() if depth == STRUCTURE and not chain.java else None
    names = definitions is not None or named is not None
    rules = NodeRules(keys, sizes.order if sizes is not None else None, chain.java, names)
    return Examined(files, chain, depth, rules, definitions, named)


IsWanted = Callable[[ChainRoot], bool]
"""Returns whether a root is one of the requested versions."""


FindHolders = Callable[[], Sequence[Holder]]
"""Finds the holders. Called late, as transactions come and go."""


class Engine(Protocol):
    """The reader of a catalog's many files: threads of this process, or Spark. It makes no decisions."""

    def examine(
        self, into: Examined, versions: Sequence[int], is_wanted: IsWanted | None, holders: FindHolders
    ) -> list[int]:
        """Examine the roots of versions as a chain, and return the requested versions.

        From level `structure` on, follow all of them, or only the last one for which `is_wanted` is true, and the trees
        of holders.
        """
        ...

    def examine_more(self, examined: Examined, versions: Sequence[int]) -> None:
        """Follow more versions whose roots were examined before."""
        ...

    def list_files(self, examined: Examined, saved: frozenset[str]) -> Listing:
        """Return the files that were not reached. `saved` are the transactions with a save."""
        ...
