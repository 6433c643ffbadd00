"""Find missing definitions without reading them: compare the names in nodes with one listing.

A listing returns a thousand files per request. If a catalog has far more definitions than its nodes suggest, the
listing is given up, and the report says so.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from olympia_cli.ops.fsck.graph import Graph, Mark
from olympia_cli.ops.walk.facts import DefinitionName, NodeFacts
from olympia_cli.ops.walk.files import Files
from olympia_cli.ops.walk.flaws import Flaw

FOLDER = "def/"
MOST_NAMED = 200_000
"""The largest number of definitions to remember by name."""

LISTED_AT_ONCE, MOST_LISTS = 1000, 10
"""Files per request, and the number of requests that are always acceptable."""

MOST_MISSING = 1000
"""The largest number of missing definitions that are checked again one by one: they may have been committed after the
listing.
"""


@dataclass(slots=True)
class Named:
    """The definitions that each node names. `looked_for` is False if there are too many to look for. Only this class
    decides that.
    """

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
        """Return whether `more` further names fit."""
        return self.count + more <= MOST_NAMED

    def leave(self, number: int) -> None:
        """Count names that another process found and did not return, for lack of room."""
        self.count += number

    def look_for(self, files: Files, graph: Graph) -> None:
        """Mark the nodes that name missing definitions. May be called again after more nodes."""
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
    """Return the names of a node that a listing can confirm. None for a damaged node, as the names may be wrong."""
    return tuple(name for name in facts.names if name[0].startswith(FOLDER)) if facts.readable else ()


_MISSING = Flaw("F301", "it is missing")
