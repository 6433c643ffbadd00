"""Reads of files that may be damaged: failures are values, and there may be a time limit."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple, Self

from olympia_cli.errors import (
    Damaged,
    OlympiaError,
    PathMissing,
    PathOutside,
    StorageDenied,
    StorageFailed,
    StoreError,
)
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.nodes import Flaw
from olympia_cli.storage.protocol import Store

FAILURES_IN_A_ROW = 20
"""After this many failed reads in a row the store is assumed to fail, not the files."""


class Place(NamedTuple):
    """The path of a file, and its level in the tree: the root has level 1, a definition the level of its node."""

    path: str
    level: int


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
        out_of_time: Callable[[], bool],
        progress: Progress = SILENT,
        patience: float = FAILURES_IN_A_ROW,
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
        if not self.stopped and self._out_of_time():
            self.stopped = True
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
