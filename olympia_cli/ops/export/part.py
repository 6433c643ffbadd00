"""Some files of a version, read, held to the rules and copied: a part of the work on an export.

A part knows nothing of the others. What it finds are rows; what only all rows together show is for whoever has them.
Every file may be given twice, and a part may be done again: files that stand with the same content are fine.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice
from typing import NamedTuple

from olympia_cli.errors import OutcomeUnknown, PathTaken, StoreError
from olympia_cli.format.node import Node
from olympia_cli.ops.export.checks import (
    FileChecks,
    Place,
    Pointer,
    Problem,
    node_pointers,
    second_place,
)
from olympia_cli.ops.export.copy import BYTES_AT_ONCE, FILES_AT_ONCE
from olympia_cli.ops.export.note import Scope
from olympia_cli.storage.protocol import Store

FILE, POINTER, WRONG = "file", "pointer", "problem"
DIFFERS = Problem("F206", "it is not what the catalog has")


class Asked(NamedTuple):
    """A file to look at, and the node that points to it.

    `level` is the file's own when it is a node, and its holder's when it is a definition. `rank` and `at` say where in
    that level the pointer is, `there` that the destination has the file already. A `second` pointer to a file is only
    named: something else led to the file before.
    """

    path: str
    is_node: bool
    level: int
    key: str | None
    low: str | None
    high: str | None
    holder: str
    rank: str
    at: int
    second: bool
    there: bool


class Row(NamedTuple):
    """What a part found: a file that was looked at, a pointer in it, or something that is wrong.

    `level`, `rank` and `at` are the order of what is wrong. `leaf` is whether the node is one, which the row is about.
    `of_copy` says that the file at the destination is meant. Of sound definitions not even the path is told.
    """

    what: str
    path: str | None
    is_node: bool
    level: int
    rank: str
    at: int = 0
    copied: bool = True
    key: str | None = None
    low: str | None = None
    high: str | None = None
    holder: str | None = None
    leaf: bool | None = None
    size: int = 0
    code: str | None = None
    reason: str | None = None
    of_copy: bool = False


class _Ready(NamedTuple):
    """A file to be copied, whole; without data where it is at the destination already and was not read."""

    asked: Asked
    data: bytes | None
    leaf: bool | None


class Part:
    """Reads what is copied at the destination and what is shared in the catalog, or copies the one from the other.

    `replaced` is a definition that an export has another one for.
    """

    def __init__(
        self, scope: Scope, source: Store | None, dest: Store, *, copying: bool = False, replaced: str | None = None
    ) -> None:
        self._scope = scope
        self._source = source
        self._dest = dest
        self._copying = copying
        self._replaced = replaced
        self._checks, self._copy_checks = FileChecks(), FileChecks()

    def visit(self, files: Iterable[Asked]) -> Iterator[Row]:
        """What is found in the files."""
        files = iter(files)
        while batch := list(islice(files, FILES_AT_ONCE)):
            yield from (self._second(asked) for asked in batch if asked.second)
            batch = [asked for asked in batch if not asked.second]
            if self._copying:
                # of a definition that is there the path is enough, as nothing below depends on it
                done = [_Ready(one, None, None) for one in batch if one.there and not one.is_node and self._copied(one)]
                yield from self._read_back(done)
                skipped = {ready.asked.path for ready in done}
                yield from self._copy([asked for asked in batch if asked.path not in skipped])
                continue
            for copied in (True, False):
                chosen = [asked for asked in batch if self._copied(asked) is copied]
                checks = self._copy_checks if copied else self._checks
                for asked, data in self._read(self._dest if copied else self._source, chosen):
                    node, problem = _check(asked, data, checks)
                    yield self._file(asked, data, problem, node)
                    yield from self._pointers(asked, node)

    def _copied(self, asked: Asked) -> bool:
        if asked.is_node:
            return self._scope.copies_nodes(asked.level)
        return self._scope.copies_definitions(asked.level) and asked.path != self._replaced

    def _read(self, store: Store | None, files: list[Asked]) -> Iterator[tuple[Asked, bytes | StoreError]]:
        if not files:
            return
        assert store is not None
        for asked, (_, data) in zip(files, store.read_many([asked.path for asked in files]), strict=True):
            yield asked, data

    def _copy(self, files: list[Asked]) -> Iterator[Row]:
        ready: list[_Ready] = []
        size = 0
        for asked, data in self._read(self._source, files):
            node, problem = _check(asked, data, self._checks)
            yield from self._pointers(asked, node)
            if problem is not None or not self._copied(asked):
                yield self._file(asked, data, problem, node)
                continue
            assert isinstance(data, bytes)
            ready.append(_Ready(asked, data, None if node is None else node.is_leaf))
            size += len(data)
            if size >= BYTES_AT_ONCE:
                yield from self._write(ready)
                ready, size = [], 0
        yield from self._write(ready)

    def _write(self, ready: list[_Ready]) -> Iterator[Row]:
        files = {one.asked.path: one.data for one in ready if one.data is not None and not one.asked.there}
        try:
            if files:
                self._dest.create_many(files)
        except (PathTaken, OutcomeUnknown) as error:
            # what it means for the export is said where the export is known
            asked = ready[0].asked
            yield self._wrong(asked, Problem(error.name, error.message))
            return
        yield from self._read_back(ready)

    def _read_back(self, ready: list[_Ready]) -> Iterator[Row]:
        read = self._read(self._dest, [one.asked for one in ready])
        for (asked, data, leaf), (_, back) in zip(ready, read, strict=True):
            problem = None
            if data is not None and back == data:
                self._copy_checks.succeeded()
            else:
                problem = _check(asked, back, self._copy_checks)[1]
                if problem is None and data is not None:
                    problem = DIFFERS
            yield self._file(asked, back, None, None, leaf)
            if problem is not None:
                yield self._wrong(asked, problem)._replace(of_copy=True)

    # Rows

    def _file(
        self,
        asked: Asked,
        data: bytes | StoreError,
        problem: Problem | None,
        node: Node | None,
        leaf: bool | None = None,
    ) -> Row:
        row = Row(FILE, asked.path if asked.is_node else None, asked.is_node, asked.level, _rank(asked))
        if problem is not None:
            row = self._wrong(asked, problem)._replace(what=FILE)
        return row._replace(
            copied=self._copied(asked),
            leaf=leaf if node is None else node.is_leaf,
            size=len(data) if isinstance(data, bytes) else 0,
        )

    def _pointers(self, asked: Asked, node: Node | None) -> Iterator[Row]:
        if node is None:
            return
        place = Place(asked.path, asked.low, asked.high)
        yield from pointer_rows(node_pointers(node, place), place, asked.level, self._copied(asked), node.is_leaf)

    def _second(self, asked: Asked) -> Row:
        above = asked.level - 1
        code, reason = second_place(asked.path)
        copied = self._scope.copies_nodes(above)
        return Row(WRONG, asked.holder, True, above, asked.rank, asked.at, copied, code=code, reason=reason)

    def _wrong(self, asked: Asked, problem: Problem) -> Row:
        return Row(
            WRONG,
            asked.path,
            asked.is_node,
            asked.level,
            _rank(asked),
            copied=self._copied(asked),
            key=asked.key,
            code=problem.code,
            reason=problem.reason,
        )


def pointer_rows(
    found: Iterable[Pointer | Problem], holder: Place, level: int, copied: bool, leaf: bool | None
) -> Iterator[Row]:
    """What a node points to, and what is wrong with that, as rows."""
    for at, one in enumerate(found, 1):
        if isinstance(one, Problem):
            yield Row(WRONG, holder.path, True, level, holder.rank, at, copied, None, None, None, None, leaf, 0, *one)
        else:
            yield Row(
                POINTER,
                one.path,
                one.is_node,
                level,
                holder.rank,
                at,
                key=one.key,
                low=one.low,
                high=one.high,
                holder=holder.path,
                leaf=leaf,
            )


def _check(asked: Asked, data: bytes | StoreError, checks: FileChecks) -> tuple[Node | None, Problem | None]:
    if asked.is_node:
        return checks.node(Place(asked.path, asked.low, asked.high), data)
    return None, checks.definition(asked.path, asked.key, data)


def _rank(asked: Asked) -> str:
    return Place(asked.path, asked.low).rank if asked.is_node else asked.key or ""
