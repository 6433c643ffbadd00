"""Who reads and copies the files of an export: this process, or many others for it.

What an export is, the order of its steps and what is recorded do not depend on it.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import StoreError
from olympia_cli.format.node import Root
from olympia_cli.ops.export.copy import Counted, check_copy, copy_files
from olympia_cli.ops.export.note import Note
from olympia_cli.ops.export.walk import Seen, Walk
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk.reach import path_digest
from olympia_cli.storage.protocol import Store

CheckCopy = Callable[[str, bytes], Counted]
"""Given the path and the bytes of the root that will be written: what the copy has, that root included."""


@dataclass(frozen=True, slots=True)
class Surveyed:
    """The files of an export, its root apart: how many were read, and the first of those with which something is wrong.

    `shared` are the files that lie in the catalog.
    """

    copied: Counted
    shared: Counted
    wrong: tuple[Seen, ...]
    wrong_total: int


class ExportEngine(Protocol):
    """Copies the files of a version, and reads those of an export."""

    def copy(self, snapshot: Snapshot, note: Note, dest: Store, fresh: bool, progress: Progress) -> CheckCopy:
        """Copy all that the note says, the root aside; Damaged when a file of the version is not whole.

        Nothing is recorded before what this gives back was called: it raises Damaged unless all that was copied can be
        read back. A destination that is not `fresh` may have some of the files already, and these stay as they are.
        """
        ...

    def check(self, path: str, data: bytes, note: Note, dest: Store, progress: Progress) -> Counted:
        """Read all that was copied, from its root on; Damaged when any of it is not whole."""
        ...

    def survey(
        self, path: str, root: Root, note: Note, dest: Store, source: Store | None, limit: int, progress: Progress
    ) -> Surveyed:
        """Read all that an export has, and what it shares in the catalog; at most `limit` files are named."""
        ...


class LocalExport:
    """This process, a few files at once."""

    def copy(self, snapshot: Snapshot, note: Note, dest: Store, fresh: bool, progress: Progress) -> CheckCopy:
        there = set() if fresh else {path_digest(file.path) for file in dest.list()}
        count = copy_files(snapshot, note, dest, there, progress)

        def check(path: str, data: bytes) -> Counted:
            progress.phase("checking the copy", count)
            return check_copy(path, data, note, dest, count, progress)

        return check

    def check(self, path: str, data: bytes, note: Note, dest: Store, progress: Progress) -> Counted:
        return check_copy(path, data, note, dest, None, progress)

    def survey(
        self, path: str, root: Root, note: Note, dest: Store, source: Store | None, limit: int, progress: Progress
    ) -> Surveyed:
        def fetch(paths: Iterable[str], copied: bool) -> Iterable[tuple[str, bytes | StoreError]]:
            assert copied or source is not None
            return dest.read_many(paths) if copied or source is None else source.read_many(paths)

        copied = shared = Counted()
        wrong: list[Seen] = []
        total = 0
        for seen in Walk(path, root, note.scope, fetch):
            progress.advance()
            if seen.data and seen.copied:
                copied = copied.plus(len(seen.data))
            elif seen.data:
                shared = shared.plus(len(seen.data))
            if seen.problem is not None:
                total += 1
                # in an order that does not depend on how many files are read at once
                insort(wrong, seen._replace(data=b""), key=lambda one: one.order)
                del wrong[limit:]
        return Surveyed(copied, shared, tuple(wrong), total)


LOCAL = LocalExport()
