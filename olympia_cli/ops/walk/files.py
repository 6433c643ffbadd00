"""Reading files for fsck: what is wrong with one is a value, and time may run out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from olympia_cli.errors import Damaged, OlympiaError, PathMissing, PathOutside, StoreError, Unsupported
from olympia_cli.format.keys import CATALOG_DEF, KeyCodec
from olympia_cli.format.node_file import N_KEYS
from olympia_cli.format.paths import FileKind, check_pointer, file_kind
from olympia_cli.format.salvage import salvage
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.storage.protocol import Store

FAILURES_IN_A_ROW = 20
"""When so many reads fail one after the other it is the store that fails, not a file."""

AT_ONCE = 1024


class StoreFailure(Exception):
    """The store itself fails; carries its error past everything that takes errors for damage."""

    def __init__(self, error: OlympiaError) -> None:
        super().__init__(str(error))
        self.error = error


class Files:
    """Reads and counts files. A store that fails again and again raises StoreFailure; a single file never raises."""

    def __init__(self, store: Store, out_of_time: Callable[[], bool], progress: Progress = SILENT) -> None:
        self.store = store
        self.progress = progress
        self.bytes = 0
        self.stopped = False
        self._out_of_time = out_of_time
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
        wanted = list(paths)
        done = 0
        try:
            for path, data in self.store.read_many(wanted):
                done += 1
                yield path, self._counted(data)
        except OlympiaError as error:
            if done >= len(wanted):
                raise
            # a path that the store does not even look at must not hide the others
            yield wanted[done], self._counted(_as_value(error))
            for path in wanted[done + 1 :]:
                yield path, self._counted(self._read_alone(path))

    def _read_alone(self, path: str) -> bytes | StoreError:
        try:
            return self.store.read(path)
        except OlympiaError as error:
            return _as_value(error)

    def _counted(self, data: bytes | StoreError) -> bytes | StoreError:
        if isinstance(data, bytes):
            self.bytes += len(data)
        failed = isinstance(data, Exception) and not isinstance(data, PathMissing | PathOutside)
        self._failures = self._failures + 1 if failed else 0
        if self._failures >= FAILURES_IN_A_ROW:
            assert isinstance(data, OlympiaError)
            raise StoreFailure(data)
        return data


def _as_value(error: OlympiaError) -> StoreError:
    from olympia_cli.errors import StorageFailed

    return error if isinstance(error, StoreError) else StorageFailed(error.message)


# What is wrong with a file


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with a file: its code and the words for it."""

    code: str
    reason: str


def flaw_of(error: Exception, missing: str = "F201") -> Flaw:
    """What an error met while a file was read and decoded means; `missing` is the code for a file that is not there."""
    if isinstance(error, Damaged):
        return Flaw(error.code, error.reason)
    if isinstance(error, PathMissing):
        return Flaw(missing, "it is missing")
    if isinstance(error, PathOutside):
        return Flaw("F212", error.message)
    if isinstance(error, Unsupported):
        return Flaw("F207", error.message)
    if isinstance(error, OlympiaError):
        return Flaw("F205", f"it cannot be read: {error.message}")
    # no decoder should let anything else out; if one does, the file is what it stumbled over
    return Flaw("F205", f"it cannot be decoded: {type(error).__name__}: {str(error)[:100]}")


@dataclass(slots=True)
class Rest:
    """What can still be read of a damaged node: its keys and values, and its children."""

    entries: list[tuple[str, str | None]] = field(default_factory=list)
    children: list[str] = field(default_factory=list)
    complete: bool = False
    """Whether those are all the keys that the node says it has."""


def rest_of_node(data: bytes, keys: KeyCodec | None) -> Rest:
    """What there is left of a node that could not be decoded. Only what makes sense is taken."""
    rest = Rest()
    try:
        rows = salvage(data).rows
    except Exception:
        # the salvage promises not to raise; a promise is no reason to crash where damage is expected
        return rest
    expected: int | None = None
    pivot = False
    root = False
    for key, value, child in rows:
        if key is None:
            pivot = True
        elif not pivot and isinstance(key, str) and isinstance(value, str):
            root = root or key == CATALOG_DEF
            if key == N_KEYS and value.isascii() and value.isdigit() and len(value) < 10:
                expected = int(value)
        if isinstance(child, str) and _inside(child):
            rest.children.append(child)
        if isinstance(key, str) and _possible(key, keys):
            path = value if isinstance(value, str) and _inside(value) else None
            if root and (path is None or file_kind(path) is not FileKind.DEFINITION):
                continue  # most likely an action row
            rest.entries.append((key, path))
    rest.complete = expected is not None and len({key for key, _ in rest.entries}) >= expected
    return rest


def _inside(pointer: str) -> bool:
    try:
        check_pointer(pointer, "")
    except Damaged:
        return False
    return True


def _possible(key: str, keys: KeyCodec | None) -> bool:
    if keys is None:
        return False
    try:
        keys.decode(key, "")
    except Damaged:
        return False
    return True
