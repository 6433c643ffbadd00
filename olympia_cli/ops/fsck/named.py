"""Definitions that are missing, seen without reading any: nodes name them, and one listing shows which are there.

A listing shows a thousand files in a request, so where a catalog does not hold many more definitions than its nodes
would lead one to expect, it costs less than the nodes did. Where it does, nobody looks, and the report says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from olympia_cli.ops.fsck.graph import Graph, Mark
from olympia_cli.ops.walk.facts import DefinitionName, NodeFacts
from olympia_cli.ops.walk.files import Files
from olympia_cli.ops.walk.flaws import Flaw

FOLDER = "def/"
MOST_NAMED = 200_000
"""So many definitions are remembered by name."""

LISTED_AT_ONCE, MOST_LISTS = 1000, 10
"""What a request lists, and how many requests are cheap, however few nodes there are."""

MOST_MISSING = 1000
"""So many are looked for once more, one by one: a commit may have come between nodes and listing."""


@dataclass(slots=True)
class Named:
    """The definitions that each node names. `looked_for` says whether all of them are looked for: not when there are
    too many. That is said here alone, whoever looks at nodes."""

    looked_for: bool = True
    by_node: dict[str, tuple[str, ...]] = field(default_factory=dict)
    count: int = 0
    missing: set[str] = field(default_factory=set)
    _known_nodes: set[str] = field(default_factory=set)
    """The nodes whose definitions were looked for."""

    def note(self, facts: NodeFacts) -> None:
        self.add(facts.path, tuple(path for path, _, _ in listed_names(facts)))

    def add(self, node: str, names: tuple[str, ...]) -> None:
        self.count += len(names)
        if names and self.has_room():
            self.by_node[node] = names

    def has_room(self, more: int = 0) -> bool:
        """Whether so many more are remembered."""
        return self.count + more <= MOST_NAMED

    def leave(self, number: int) -> None:
        """So many are named elsewhere, and there was no room for them."""
        self.count += number

    def look_for(self, files: Files, graph: Graph) -> None:
        """Mark the nodes that name what is missing. More nodes may come, and it be asked again."""
        new = {path: names for path, names in self.by_node.items() if path not in self._known_nodes}
        candidates = {name for names in new.values() for name in names}
        self.looked_for = self.looked_for and self.has_room()
        if not candidates or not self.looked_for or files.out_of_time:
            return
        self._known_nodes.update(new)
        store = files.store
        most = LISTED_AT_ONCE * (MOST_LISTS + graph.read_count)
        for number, file in enumerate(store.list(FOLDER)):
            candidates.discard(file.path)
            if number >= most:
                self.looked_for = False
                return
        self.missing.update(path for path in sorted(candidates)[:MOST_MISSING] if not store.exists(path))
        for path, names in new.items():
            graph.marks += [Mark(graph.numbers[path], name, _MISSING) for name in names if name in self.missing]


def listed_names(facts: NodeFacts) -> tuple[DefinitionName, ...]:
    """What a node names that a listing of definitions shows. Of a damaged node the name may be what is damaged."""
    return tuple(name for name in facts.names if name[0].startswith(FOLDER)) if facts.readable else ()


_MISSING = Flaw("F301", "it is missing")
