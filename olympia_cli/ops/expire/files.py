"""Files to mark or delete, listed in this process, or counted here and listed elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from typing import Protocol

from olympia_cli.format.paths import FileKind, parse_root_path
from olympia_cli.ops.expire.manifest import (
    DELETABLE,
    PART_FILES,
    Doomed,
    Manifest,
    ManifestPart,
    check_deletable,
    encode_part,
    new_part_path,
)
from olympia_cli.ops.progress import Progress
from olympia_cli.storage.protocol import Store

DELETED_AT_ONCE = 10_000
ROOT, TRANSACTION = FileKind.ROOT.value, FileKind.TRANSACTION.value


@dataclass(frozen=True, slots=True)
class GoingTotals:
    """The number of files of each kind, and their total size."""

    kinds: Mapping[str, int]
    bytes: int

    @property
    def files(self) -> int:
        return sum(self.kinds.values())

    def describe(self) -> dict[str, int]:
        """Return the number of files per kind, with plural names."""
        plurals = {kind.value: f"{kind.value}s" for kind in DELETABLE} | {FileKind.TEMPORARY.value: "temporaries"}
        return {plural: self.kinds.get(kind, 0) for kind, plural in plurals.items()}


class Going(Protocol):
    """Files to mark or delete. The interface hides where they are listed."""

    @property
    def totals(self) -> GoingTotals: ...

    def __iter__(self) -> Iterator[Doomed]:
        """Yield all files. An expire never calls this if there may be too many for one process."""
        ...

    def manifest(self, store: Store, path: str, oldest: int, former_oldest: int) -> Manifest:
        """Return a manifest that names the files. Its parts, if any, are already written; the manifest is not."""
        ...

    def roots(self) -> Iterator[Doomed]:
        """Yield the roots, the oldest first."""
        ...

    def saves(self) -> Iterator[Doomed]:
        """Yield the files of distributed transactions, grouped by transaction."""
        ...

    def delete_others(self, store: Store, below: int, progress: Progress) -> None:
        """Delete all other files. Raise Damaged for a file that a purge below this version must not delete."""
        ...


class Listed(tuple[Doomed, ...]):
    """Files that are listed in this process."""

    @cached_property
    def totals(self) -> GoingTotals:
        return GoingTotals(Counter(file.kind for file in self), sum(file.bytes for file in self))

    def manifest(
        self, store: Store, path: str, oldest: int, former_oldest: int, part_files: int = PART_FILES
    ) -> Manifest:
        if len(self) <= part_files:
            return Manifest(path, oldest, former_oldest, self)
        parts = []
        for first in range(0, len(self), part_files):
            files = self[first : first + part_files]
            part = ManifestPart(new_part_path(path), len(files))
            store.create(part.path, encode_part(path, files))
            parts.append(part)
        return Manifest(path, oldest, former_oldest, (), tuple(parts))

    def roots(self) -> Iterator[Doomed]:
        return iter(sorted((file for file in self if file.kind == ROOT), key=_order))

    def saves(self) -> Iterator[Doomed]:
        return iter(sorted((file for file in self if file.kind == TRANSACTION), key=_order))

    def delete_others(self, store: Store, below: int, progress: Progress) -> None:
        delete_checked(store, (file for file in self if file.kind not in (ROOT, TRANSACTION)), below, progress)


def delete_checked(store: Store, files: Iterable[Doomed], below: int, progress: Progress) -> int:
    """Delete files in batches, and check each batch first. Return the number of files."""
    files, deleted = iter(files), 0
    while batch := list(islice(files, DELETED_AT_ONCE)):
        check_deletable(batch, below, store.uri)
        store.delete_many([file.path for file in batch])
        progress.advance(len(batch))
        deleted += len(batch)
    return deleted


def in_order(files: Iterable[Doomed]) -> Listed:
    """Sort files so that a file comes before those that it leads to: roots, the oldest first, transactions, then nodes
    and definitions.
    """
    return Listed(sorted(files, key=_order))


def _order(file: Doomed) -> tuple[int, int, str]:
    return _ORDER[file.kind], parse_root_path(file.path) or 0, file.path


_ORDER = {
    kind.value: at
    for at, kind in enumerate(
        (FileKind.ROOT, FileKind.TRANSACTION, FileKind.NODE, FileKind.DEFINITION, FileKind.TEMPORARY)
    )
}
