"""Reading files that may be damaged: what is wrong with one is a value, and time may run out."""

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
from olympia_cli.ops.walk.flaws import Flaw
from olympia_cli.storage.protocol import Store

FAILURES_IN_A_ROW = 20
"""When so many reads fail one after the other it is the store that fails, not a file."""


class Place(NamedTuple):
    """Where a file is, and the level of the tree on which it is or is named; a root's is 1."""

    path: str
    level: int


class StoreFailure(Exception):
    """The store itself fails; carries its error past everything that takes errors for damage."""

    def __init__(self, error: OlympiaError) -> None:
        super().__init__(str(error))
        self.error = error


@contextmanager
def failures_pass() -> Iterator[None]:
    """Where damage is told, a store that fails raises its own error."""
    try:
        yield
    except StoreFailure as failure:
        raise failure.error from None


class Files:
    """Reads and counts files. A store that fails again and again raises StoreFailure, and so does one that gives no
    permission: nobody can say what is in a file that he may not read. Any other file by itself never raises.

    `patience` is how many failures in a row are too many.
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
        """Whether to stop. Once it is, it stays so, and the result is not complete."""
        if not self.stopped and self._out_of_time():
            self.stopped = True
        return self.stopped

    def read(self, path: str) -> bytes | StoreError:
        return next(iter(self.read_many([path])))[1]

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        """The files in order, read in parallel where the store can."""
        all_paths = list(paths)
        count = 0
        try:
            for path, data in self.store.read_many(all_paths):
                count += 1
                yield path, self._counted(data)
        except OlympiaError as error:
            if count >= len(all_paths):
                raise
            # a path that the store does not even look at must not hide the others
            yield all_paths[count], self._counted(_as_value(error))
            for path in all_paths[count + 1 :]:
                yield path, self._counted(self._read_alone(path))

    def nodes(self, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | StoreError]]:
        """Nodes in order."""
        for place, (_, data) in zip(places, self.read_many(place.path for place in places), strict=True):
            yield place, data

    def definitions(self, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | StoreError]]:
        """Definitions in order."""
        return self.nodes(places)

    def looked_at(self, place: Place, data: bytes | StoreError, flaw: Flaw | None, *, is_node: bool) -> None:
        """Somebody has looked at a file, and found it whole, or what is wrong with it."""

    def tally(self, place: Place, files: int, size: int, *, is_node: bool, names: int | None = None) -> None:
        """So many files were read elsewhere: at a place, or, where its path is empty, on its level; `names` is then
        what an export makes of their names and sizes."""
        self.bytes += size

    def close(self, complete: bool = True) -> None:
        """What was begun is over, `complete` or given up. What is read from now on is only looked up."""

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
