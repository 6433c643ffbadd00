"""How nodes are looked at: by this process, unless whoever walks is given a mapper that has others do it.

A mapper distributes and never decides: what a node is by itself is said by `NodeRules` wherever that runs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

from olympia_cli.ops.walk.facts import NodeFacts, NodeRules
from olympia_cli.ops.walk.files import Files, Place


class Mapper(Protocol):
    @property
    def at_once(self) -> int | None:
        """So many places are best looked at together; None where that is for the one who walks to say."""
        ...

    def nodes(self, files: Files, rules: NodeRules, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        """What is at each of these places, in their order. Facts from elsewhere may come without the names of
        definitions; whoever mapped them has these then."""
        ...


class LocalMapper:
    """Nodes are read in parallel where the store can, and let go when they were looked at."""

    at_once = None

    def nodes(self, files: Files, rules: NodeRules, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        for place, data in files.nodes(places):
            facts = rules.look(place.path, data)
            files.looked_at(place, data, facts.flaw, is_node=True)
            yield place, facts
            files.progress.advance()


HERE = LocalMapper()
