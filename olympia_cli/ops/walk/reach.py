"""The set of files that versions reach. Each file is read once, even if versions share it.

In memory it keeps one short digest per path: about 100 MB for a million files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain, islice

from olympia_cli.names import Kind
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.descend import AT_ONCE, descend
from olympia_cli.ops.walk.facts import NodeFacts, NodeRules, look_at_definition
from olympia_cli.ops.walk.files import Files, Place, failures_pass
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.ops.walk.mapper import HERE, Mapper
from olympia_cli.storage.protocol import Store

ROOTS_AT_ONCE = 64
DEFINITIONS_AT_ONCE = 8192
PATH_DIGEST_BYTES = 16


def path_digest(path: str) -> bytes:
    """Return the short digest that stands for a path in large sets."""
    return blake2b(path.encode("utf-8", "surrogatepass"), digest_size=PATH_DIGEST_BYTES).digest()


class Reach:
    """The files that roots reach. Each file is read once and checked; raise Damaged with fsck's code for a damaged one.

    With `definitions`, definitions are read too, else only their paths are noted. `mapper` examines the nodes.
    """

    roots_at_once: int | None = ROOTS_AT_ONCE
    """The number of roots whose trees are followed together; all roots if None."""

    definitions_at_once: float = DEFINITIONS_AT_ONCE

    def __init__(
        self,
        store: Store,
        rules: NodeRules,
        *,
        definitions: bool = False,
        progress: Progress = SILENT,
        mapper: Mapper = HERE,
    ) -> None:
        # with a patience of 1 a failure of the store is raised, and not taken for damage
        self._files = Files(store, lambda: False, progress, patience=1)
        self._rules = rules
        self._definitions = definitions
        self._mapper = mapper
        self._kinds: dict[bytes, Kind | None] = {}
        """The kind of object that each definition was named for; None for a node."""
        self._new: list[str] = []
        self._waiting: list[tuple[Place, Kind]] = []

    def __contains__(self, path: str) -> bool:
        return self.has(path_digest(path))

    def has(self, digest: bytes) -> bool:
        return digest in self._kinds

    def add(self, roots: Iterable[tuple[str, bytes]]) -> None:
        """Follow roots, given as path and bytes, to all files that earlier roots did not reach."""
        for _ in self.each(roots):
            pass

    def each(self, roots: Iterable[tuple[str, bytes]]) -> Iterator[list[str]]:
        """Like `add`, and yield the new paths in portions. A path comes after the paths that lead to it."""
        roots = iter(roots)
        for first in roots:
            batch = chain([first], islice(roots, None if self.roots_at_once is None else self.roots_at_once - 1))
            tops = [child for path, data in batch for child in self._visit_root(path, data)]
            with failures_pass():
                for _ in descend(tops, self._look, self._visit, at_once=self._mapper.at_once or AT_ONCE):
                    yield self._portion()
            yield self._portion()
        with failures_pass():
            self._read_definitions()

    def _portion(self) -> list[str]:
        portion, self._new = self._new, []
        return portion

    def _visit_root(self, path: str, data: bytes) -> list[Place]:
        self._is_new(path)
        self._files.progress.advance()
        return self._visit(Place(path, 1), self._rules.look_at_root_file(path, data)[0])

    def _look(self, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        return self._mapper.nodes(self._files, self._rules, places)

    def _visit(self, place: Place, facts: NodeFacts) -> list[Place]:
        for culprit, flaw in facts.marks:
            raise flaw.error(culprit)
        for definition, kind, _ in facts.names:
            if self._is_new(definition, kind) and self._definitions:
                self._waiting.append((Place(definition, place.level), kind))
        if len(self._waiting) >= self.definitions_at_once:
            self._read_definitions()
        below = place.level + 1
        return [Place(child, below) for child in facts.children if child is not None and self._is_new(child)]

    def _is_new(self, path: str, kind: Kind | None = None) -> bool:
        digest = path_digest(path)
        if digest not in self._kinds:
            self._new.append(path)
        elif self._kinds[digest] is not kind:
            # one file has two kinds, so at least one of its names is wrong: check it as both
            digest = path_digest(f"{kind} {path}")
        is_known = digest in self._kinds
        self._kinds[digest] = kind
        return not is_known

    def _read_definitions(self) -> None:
        waiting, self._waiting = self._waiting, []
        contents = self._files.definitions([place for place, _ in waiting])
        for (place, kind), (_, data) in zip(waiting, contents, strict=True):
            definition = look_at_definition(kind, data, place.path)
            if isinstance(definition, Flaw):
                raise definition.error(place.path)
            self._files.progress.advance()
