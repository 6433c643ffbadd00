"""The interface for examining nodes, and its implementation in this process. Spark supplies another one.

A mapper only distributes work: `NodeRules` determines the facts of a node on every machine.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from olympia_cli.ops.walk.facts import NodeFacts, NodeRules
from olympia_cli.ops.walk.files import Files, Place


class Mapper(Protocol):
    @property
    def at_once(self) -> int | None:
        """The best number of places per call; None if the caller should choose."""
        ...

    def nodes(self, files: Files, rules: NodeRules, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        """Yield the facts of each place, in the order of the places.

        Facts from other machines may lack the names of definitions; the mapper then keeps them.
        """
        ...


class LocalMapper:
    """Read nodes in parallel if the store can, and keep none in memory."""

    at_once = None

    def nodes(self, files: Files, rules: NodeRules, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        for place, data in files.nodes(places):
            facts = rules.look(place.path, data)
            files.looked_at(place, data, facts.flaw, is_node=True)
            yield place, facts
            files.progress.advance()


HERE = LocalMapper()
