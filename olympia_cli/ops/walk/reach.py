"""Which files versions reach. Every file is read once, however many versions share it.

Of a file that was met only a digest of its path is kept, so a million files take a tenth of a gigabyte.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import islice

from olympia_cli.errors import Damaged, PathMissing, PathOutside, StoreError
from olympia_cli.names import Kind
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.descend import descend
from olympia_cli.ops.walk.facts import NodeFacts, NodeRules, look_at_definition
from olympia_cli.ops.walk.files import Files, failures_pass
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.storage.protocol import Store

ROOTS_AT_ONCE = 64
DEFINITIONS_AT_ONCE = 8192


def path_digest(path: str) -> bytes:
    """What stands for a path in large sets."""
    return blake2b(path.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class Reach:
    """The files that roots reach, each read once and found whole; Damaged with fsck's code when one is not.

    `definitions` says whether definitions are read too, or only named.
    """

    def __init__(
        self, store: Store, rules: NodeRules, *, definitions: bool = False, progress: Progress = SILENT
    ) -> None:
        self._files = Files(store, lambda: False)
        self._rules = rules
        self._definitions = definitions
        self._progress = progress
        self._kinds: dict[bytes, Kind | None] = {}
        """What each file was named as; None for a node."""
        self._new: list[str] = []
        self._waiting: list[tuple[str, Kind]] = []

    def __contains__(self, path: str) -> bool:
        return self.has(path_digest(path))

    def has(self, digest: bytes) -> bool:
        return digest in self._kinds

    def add(self, roots: Iterable[tuple[str, bytes]]) -> None:
        """Follow roots, given as path and bytes, to all that they reach and no root before them did."""
        for _ in self.each(roots):
            pass

    def each(self, roots: Iterable[tuple[str, bytes]]) -> Iterator[list[str]]:
        """As `add`; gives the paths that were new, in portions. A path comes after the paths that lead to it."""
        roots = iter(roots)
        while batch := list(islice(roots, ROOTS_AT_ONCE)):
            tops = [child for path, data in batch for child in self._visit_root(path, data)]
            for _ in descend(tops, self._look, self._visit):
                yield self._portion()
            yield self._portion()
        self._read_definitions()

    def _portion(self) -> list[str]:
        portion, self._new = self._new, []
        return portion

    def _visit_root(self, path: str, data: bytes) -> list[str]:
        self._is_new(path)
        self._progress.advance()
        return self._visit(path, self._rules.look_at_root_file(path, data)[0])

    def _look(self, paths: Sequence[str]) -> Iterator[tuple[str, NodeFacts]]:
        for path, data in self._read(paths):
            yield path, self._rules.look(path, data)
            self._progress.advance()

    def _visit(self, path: str, facts: NodeFacts) -> list[str]:
        for culprit, flaw in facts.marks:
            raise flaw.error(culprit)
        for definition, kind, _ in facts.names:
            self._name(definition, kind)
        if len(self._waiting) >= DEFINITIONS_AT_ONCE:
            self._read_definitions()
        return [child for child in facts.children if child is not None and self._is_new(child)]

    def _name(self, definition: str, kind: Kind) -> None:
        if self._is_new(definition, kind) and self._definitions:
            self._waiting.append((definition, kind))

    def _is_new(self, path: str, kind: Kind | None = None) -> bool:
        digest = path_digest(path)
        if digest not in self._kinds:
            self._new.append(path)
        elif self._kinds[digest] is not kind:
            # one file is named as two things, so at least one of the names is wrong: it is judged as either
            digest = path_digest(f"{kind} {path}")
        known = digest in self._kinds
        self._kinds[digest] = kind
        return not known

    def _read_definitions(self) -> None:
        waiting, self._waiting = self._waiting, []
        read = self._read([path for path, _ in waiting])
        for (path, kind), (_, data) in zip(waiting, read, strict=True):
            definition = look_at_definition(kind, data, path)
            if isinstance(definition, Flaw):
                raise definition.error(path)
            self._progress.advance()

    def _read(self, paths: Sequence[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        with failures_pass():
            for path, data in self._files.read_many(paths):
                # that the store fails says nothing of the file
                if isinstance(data, Exception) and not isinstance(data, PathMissing | PathOutside | Damaged):
                    raise data
                yield path, data
