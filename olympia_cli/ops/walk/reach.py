"""The walk from the roots down: reads of files that may be damaged, the order of a walk, the files that versions reach,
and the size of a tree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from itertools import islice
from typing import NamedTuple, Protocol, Self, TypeVar

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import (
    Damaged,
    OlympiaError,
    PathMissing,
    PathOutside,
    StorageDenied,
    StorageFailed,
    StoreError,
)
from olympia_cli.format.node import Child, Node, Root
from olympia_cli.names import Kind
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.nodes import Flaw, NodeFacts, NodeRules, look_at_definition
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.load import NodeReader, check_depth

P = TypeVar("P")
F = TypeVar("F")

# Reads of files that may be damaged: failures are values, and there may be a time limit.

FAILURES_IN_A_ROW = 20
"""After this many failed reads in a row the store is assumed to fail, not the files."""


class Place(NamedTuple):
    """The path of a file, and its level in the tree: the root has level 1, a definition the level of its node."""

    path: str
    level: int


def batches(items: Iterable[F], size: int) -> Iterator[list[F]]:
    """Divide items into lists of at most this size, while they come."""
    items = iter(items)
    while batch := list(islice(items, size)):
        yield batch


class StoreFailure(Exception):
    """A failure of the store itself. Code that catches errors as damage does not catch it."""

    def __init__(self, error: OlympiaError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def failures_pass() -> Iterator[None]:
    """Raise the store's own error in place of StoreFailure."""
    try:
        yield
    except StoreFailure as failure:
        raise failure.error from None


class Files:
    """Read files, and count their bytes. A failed read of a single file is a value, not an exception.

    Raise StoreFailure after `patience` failures in a row, and at once without permission to read: such a file may be
    sound.
    """

    def __init__(
        self,
        store: Store,
        progress: Progress = SILENT,
        patience: float = FAILURES_IN_A_ROW,
        out_of_time: Callable[[], bool] | None = None,
    ) -> None:
        self.store = store
        self.progress = progress
        self.bytes = 0
        self.stopped = False
        self._out_of_time = out_of_time
        self._patience = patience
        self._failures = 0

    @property
    def out_of_time(self) -> bool:
        """Return whether to stop. Once true, it stays true, and the result is incomplete."""
        if not self.stopped and self._out_of_time is not None:
            self.stopped = self._out_of_time()
        return self.stopped

    def read(self, path: str) -> bytes | StoreError:
        return next(iter(self.read_many([path])))[1]

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        """Yield the files in order. They are read in parallel if the store can."""
        all_paths = list(paths)
        count = 0
        try:
            for path, data in self.store.read_many(all_paths):
                count += 1
                yield path, self._counted(data)
        except OlympiaError as error:
            if count >= len(all_paths):
                raise
            # a path that the store refuses must not hide the files after it
            yield all_paths[count], self._counted(_as_value(error))
            for path in all_paths[count + 1 :]:
                yield path, self._counted(self._read_alone(path))

    def nodes(self, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | StoreError]]:
        for place, (_, data) in zip(places, self.read_many(place.path for place in places), strict=True):
            yield place, data

    def definitions(self, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | StoreError]]:
        return self.nodes(places)

    def looked_at(self, place: Place, data: bytes | StoreError, flaw: Flaw | None, *, is_node: bool) -> None:
        """Called for each examined file, with its flaw if it has one."""

    def tally(self, place: Place, files: int, size: int, *, is_node: bool, names: int | None = None) -> None:
        """Count files that another process has read: below a place, or on its level if the path is empty. `names` is
        the fingerprint of their names and sizes (FileCount.names).
        """
        self.bytes += size

    def close(self, complete: bool = True) -> None:
        """End the run, as `complete` or aborted. Later reads are not recorded."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        self.close(complete=error is None)

    def _read_alone(self, path: str) -> bytes | StoreError:
        try:
            return self.store.read(path)
        except OlympiaError as error:
            return _as_value(error)

    def _counted(self, data: bytes | StoreError) -> bytes | StoreError:
        if isinstance(data, bytes):
            self.bytes += len(data)
        failed = isinstance(data, Exception) and not isinstance(data, PathMissing | PathOutside | Damaged)
        self._failures = self._failures + 1 if failed else 0
        if self._failures >= self._patience or isinstance(data, StorageDenied):
            assert isinstance(data, OlympiaError)
            raise StoreFailure(data)
        return data


def _as_value(error: OlympiaError) -> StoreError:
    return error if isinstance(error, StoreError) else StorageFailed(error.message)


# The order of a walk down a tree. The caller supplies how to read nodes and which children to follow.

AT_ONCE = 1024
"""The number of places to read together, so that the store can read them in parallel."""


def descend(
    tops: Iterable[P],
    look: Callable[[Sequence[P]], Iterable[tuple[P, F]]],
    visit: Callable[[P, F], Iterable[P]],
    *,
    at_once: int | None = AT_ONCE,
) -> Iterator[list[P]]:
    """Visit places and all places that the visits return. Yield each batch of places after its visits.

    `look` reads places and yields their facts; `visit` returns the places to follow. The last places found are read
    first, so that only a few nodes per level are waiting. If `at_once` is None, a batch is a whole level.
    """
    waiting = list(tops)
    while waiting:
        first = 0 if at_once is None else max(0, len(waiting) - at_once)
        batch, waiting = waiting[first:], waiting[:first]
        for place, facts in look(batch):
            waiting.extend(visit(place, facts))
        yield batch


# The interface for examining nodes, and its implementation in this process. Spark supplies another one.
#
# A mapper only distributes work: `NodeRules` determines the facts of a node on every machine.


class TreeReader(Protocol):
    @property
    def at_once(self) -> int | None:
        """The best number of places per call; None if the caller should choose."""
        ...

    def nodes(self, files: Files, rules: NodeRules, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        """Yield the facts of each place, in the order of the places.

        Facts from other machines may lack the names of definitions; the mapper then keeps them.
        """
        ...


class LocalTreeReader:
    """Read nodes in parallel if the store can, and keep none in memory."""

    at_once = None

    def nodes(self, files: Files, rules: NodeRules, places: Sequence[Place]) -> Iterator[tuple[Place, NodeFacts]]:
        for place, data in files.nodes(places):
            facts = rules.look(place.path, data)
            files.looked_at(place, data, facts.flaw, is_node=True)
            yield place, facts
            files.progress.advance()


HERE = LocalTreeReader()


# The set of files that versions reach. Each file is read once, even if versions share it.
#
# In memory it keeps one short digest per path: about 100 MB for a million files.

ROOTS_AT_ONCE = 64
DEFINITIONS_AT_ONCE, DEFINITIONS_AT_HAND = 8192, 16
"""The number of definitions that are read together, and of those whose content is in memory."""
PATH_DIGEST_BYTES = 16


def path_digest(path: str) -> bytes:
    """Return the short digest that stands for a path in large sets."""
    return blake2b(path.encode("utf-8", "surrogatepass"), digest_size=PATH_DIGEST_BYTES).digest()


class ReachedFiles:
    """The files that roots reach. Each file is read once and checked; raise Damaged with fsck's code for a damaged one.

    With `definitions`, definitions are read too, else only their paths are noted. `mapper` examines the nodes.
    """

    takes_all_roots = False
    """True if the trees of all roots are followed together, and not batch by batch."""

    definitions_at_once: float = DEFINITIONS_AT_ONCE

    def __init__(
        self,
        store: Store,
        rules: NodeRules,
        *,
        definitions: bool = False,
        progress: Progress = SILENT,
        mapper: TreeReader = HERE,
    ) -> None:
        self.progress = progress
        # with a patience of 1 a failure of the store is raised, and not taken for damage
        self._files = Files(store, progress, patience=1)
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

    def add(self, roots: Iterable[tuple[str, bytes | Root]]) -> None:
        """Follow roots, decoded or not, to all files that earlier roots did not reach."""
        for _ in self.each(roots):
            pass

    def each(self, roots: Iterable[tuple[str, bytes | Root]]) -> Iterator[list[str]]:
        """Like `add`, and yield the new paths in portions. A path comes after the paths that lead to it."""
        all_batches = batches(roots, ROOTS_AT_ONCE)
        for together in [all_batches] if self.takes_all_roots else ([batch] for batch in all_batches):
            tops = [child for batch in together for child in self._visit_roots(batch)]
            with failures_pass():
                for _ in descend(tops, self._look, self._visit, at_once=self._mapper.at_once or AT_ONCE):
                    yield self._portion()
            yield self._portion()
        with failures_pass():
            self._read_definitions()

    def _portion(self) -> list[str]:
        portion, self._new = self._new, []
        return portion

    def _visit_roots(self, batch: Sequence[tuple[str, bytes | Root]]) -> list[Place]:
        self._files.progress.advance(len(batch))
        tops: list[Place] = []
        all_facts = [self._rules.look_at_root_file(path, root) for path, root in batch]
        for (path, _), facts in zip(batch, all_facts, strict=True):
            self._is_new(path)
            tops += self._visit(Place(path, 1), facts)
        return tops

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
        contents = zip(waiting, self._files.definitions([place for place, _ in waiting]), strict=True)
        for batch in batches(contents, DEFINITIONS_AT_HAND):
            for (place, kind), (_, data) in batch:
                definition = look_at_definition(kind, data, place.path)
                if isinstance(definition, Flaw):
                    raise definition.error(place.path)
            self._files.progress.advance(len(batch))


# The size of a tree: count its nodes, and estimate its objects with one read per level.


def count_nodes(reader: NodeReader, root: Node) -> int:
    """Return the number of nodes of a tree, with the root. Leaves are counted by their pointers, and not read."""

    def look(level: Sequence[Child]) -> Iterable[tuple[Child, Node]]:
        leaves = reader.node(level[0]).is_leaf
        return () if leaves else zip(level, reader.nodes(level), strict=True)

    count = 1
    for depth, level in enumerate(descend(root.children, look, lambda _, node: node.children, at_once=None), 1):
        check_depth(depth, level[0])
        count += len(level)
    return count


def estimated_objects(snapshot: Snapshot) -> int:
    """Estimate the objects of a version from one node in the middle of each level. Raise an error if such a node is
    damaged.
    """
    objects, alike = 0, 1
    tops: list[Child] = [snapshot.root.node]

    def visit(_: Child, node: Node) -> Iterator[Child]:
        nonlocal objects, alike
        objects += alike * len(node.keys)
        alike *= len(node.children)
        if node.children:
            yield node.children[len(node.children) // 2]

    def look(level: Sequence[Child]) -> Iterable[tuple[Child, Node]]:
        return zip(level, snapshot.reader.nodes(level), strict=True)

    for depth, level in enumerate(descend(tops, look, visit)):
        check_depth(depth, level[0])
    return objects
