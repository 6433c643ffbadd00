"""The files of an export while they are read, and the note about its scope at its destination."""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import nullcontext, suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any

from olympia_cli.errors import Damaged, InvalidOption, PathMissing, PathOutside, StoreError
from olympia_cli.format.definitions import Digest, check_digest
from olympia_cli.format.paths import EXPORT_NOTE, MAX_VERSION, check_pointer, parse_root_path
from olympia_cli.format.strict_json import read_json
from olympia_cli.names import new_uuid
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk import Files, Flaw, Place, StoreFailure
from olympia_cli.storage.protocol import Store

# The scope of an export, and the note at its destination.


class Mode(StrEnum):
    FULL = "full"
    PARTIAL = "partial"
    MINIMAL = "minimal"


@dataclass(frozen=True, slots=True)
class Scope:
    """The part of a version that an export copies. The rest is shared with the catalog.

    `depth` counts levels of nodes, with the root; None means all. `definitions` is true if the definitions of the
    copied nodes are copied too.
    """

    mode: Mode
    depth: int | None
    definitions: bool

    def copies(self, level: int, *, is_node: bool) -> bool:
        """Return whether the nodes of a level, or the definitions that they name, are copied."""
        return (is_node or self.definitions) and (self.depth is None or level <= self.depth)

    @property
    def shares(self) -> bool:
        """True if files of the catalog belong to the export."""
        return self.mode is not Mode.FULL


def scope(mode: Mode, depth: int | None = None, definitions: bool = True) -> Scope:
    """Return the scope for the options. Raise InvalidOption for options that contradict each other."""
    if mode is not Mode.PARTIAL:
        if depth is not None or not definitions:
            raise InvalidOption(
                f"a {mode} export takes neither a depth nor --no-definitions", hint="use --mode partial"
            )
        return Scope(mode, 1 if mode is Mode.MINIMAL else None, mode is Mode.FULL)
    if depth is None and definitions:
        raise InvalidOption("a partial export needs a depth", hint="add --depth N or --no-definitions")
    if depth is not None and depth < 1:
        raise InvalidOption(f"a depth of {depth} is too small", hint="depth 1 copies only the root")
    return Scope(mode, depth, definitions)


@dataclass(frozen=True, slots=True)
class Note:
    """The note at the destination. The process that creates it owns the destination.

    `definition` is the path of a full export's own catalog definition, if it needs one.
    """

    catalog: str
    source: str
    name: str
    version: int
    scope: Scope
    expires_at_millis: int | None
    definition: str | None
    id: str = field(default_factory=new_uuid)
    """Distinguishes two processes that create the same export at the same location."""

    def encode(self) -> bytes:
        fields = {"format": 1, **asdict(self)}
        scope = fields.pop("scope")
        return (json.dumps({**fields, **scope}, indent=1, sort_keys=True) + "\n").encode()


def read_note(store: Store) -> Note | None:
    """Return the note at a destination, or None if there is none. Raise Damaged if it cannot be parsed."""
    try:
        data = store.read(EXPORT_NOTE)
    except PathMissing:
        return None
    try:
        return _parse(read_json(data))
    except (ValueError, KeyError, TypeError, AttributeError):
        raise Damaged("", EXPORT_NOTE, "it is not the note of an export", hint="") from None


def _parse(fields: dict[str, Any]) -> Note:
    def need(key: str, kind: Any) -> Any:
        value = fields[key]
        if not isinstance(value, kind) or isinstance(value, bool) is not (kind is bool):
            raise ValueError
        return value

    depth = need("depth", int | None)
    note = Note(
        id=need("id", str),
        catalog=need("catalog", str),
        source=need("source", str),
        name=need("name", str),
        version=need("version", int),
        scope=Scope(Mode(need("mode", str)), depth, need("definitions", bool)),
        expires_at_millis=need("expires_at_millis", int | None),
        definition=need("definition", str | None),
    )
    if not 0 <= note.version <= MAX_VERSION or (depth is not None and depth < 1) or fields["format"] != 1:
        raise ValueError
    if note.definition is not None:
        check_pointer(note.definition, EXPORT_NOTE)
    return note


def resume_command(name: str, location: str) -> tuple[str, ...]:
    """Return the words of the command that resumes an export."""
    dest = ("--dest", location)
    # a name may look like an option
    return ("export", "resume", *((*dest, "--", name) if name.startswith("-") else (name, *dest)))


def resume_words(name: str, location: str) -> str:
    """Return that command, quoted for a shell."""
    return shlex.join(resume_command(name, location))


# The files of an export while they are read: those that it copies, and those that it shares with the catalog.
#
# This module only reads and copies. The caller checks the files.

FILES_AT_ONCE = 512
BYTES_AT_ONCE = 16 * 2**20
_NAME_DIGITS = 15
"""The number of hexadecimal digits of a checksum to use, so that the number fits the integers of every engine."""


@dataclass(frozen=True, slots=True)
class FileCount:
    """A number of files and bytes. `names` is a fingerprint of all names and sizes that does not depend on their order.

    It is None if names were not recorded.
    """

    files: int = 0
    bytes: int = 0
    names: int | None = field(default=0, compare=False)

    @classmethod
    def of(cls, path: str, size: int) -> FileCount:
        return cls(1, size, name_number(path, size))

    def __add__(self, other: FileCount) -> FileCount:
        names = None if self.names is None or other.names is None else self.names ^ other.names
        return FileCount(self.files + other.files, self.bytes + other.bytes, names)

    def is_of_same_files(self, other: FileCount) -> bool:
        return self == other and (None in (self.names, other.names) or self.names == other.names)


def name_number(path: str, size: int) -> int:
    """Return the fingerprint of one file's name and size. Fingerprints of several files are combined by
    exclusive or.
    """
    return int(sha256(f"{path} {size}".encode("utf-8", "surrogatepass")).hexdigest()[:_NAME_DIGITS], 16)


class ExportFiles(Files):
    """Read copied files at the destination, and shared files in the catalog."""

    def __init__(self, scope: Scope, dest: Store, source: Store | None, progress: Progress = SILENT) -> None:
        super().__init__(dest, progress)
        self.scope = scope
        self._shared = None if source is None else Files(source, progress)
        self.copied = self.shared = FileCount()
        self._closed = False

    def close(self, complete: bool = True) -> None:
        self._closed = True

    def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
        """Read files a second time, at the destination or in the catalog. Roots are only at the destination."""
        for path, data in super().read_many(paths):
            elsewhere = isinstance(data, PathMissing) and parse_root_path(path) is None
            yield path, self._shared.read(path) if elsewhere and self._shared is not None else data

    def nodes(self, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | StoreError]]:
        return self._read(places, is_node=True)

    def definitions(self, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | StoreError]]:
        return self._read(places, is_node=False)

    def _read(self, places: Sequence[Place], *, is_node: bool) -> Iterator[tuple[Place, bytes | StoreError]]:
        copied = [self.scope.copies(place.level, is_node=is_node) for place in places]
        here = super().read_many(place.path for place, here in zip(places, copied, strict=True) if here)
        shared = [place.path for place, here in zip(places, copied, strict=True) if not here]
        there = iter(self._shared.read_many(shared)) if shared and self._shared is not None else iter(())
        for place, is_here in zip(places, copied, strict=True):
            _, data = next(here if is_here else there)
            if isinstance(data, bytes) and not self._closed:
                self.tally(place, 1, len(data), is_node=is_node)
            yield place, data

    def tally(self, place: Place, files: int, size: int, *, is_node: bool, names: int | None = None) -> None:
        count = _tallied(place, files, size, names)
        if self.scope.copies(place.level, is_node=is_node):
            self.copied += count
        else:
            self.shared += count


class CopyFiles(Files):
    """Copy the files of a version: write them in the background, read them back, and compare, while the next files are
    read.

    Only sound files in the export's scope are copied. If the destination is not `fresh`, it may have some of the files;
    these stay. `replaced` is a definition that the export replaces by its own.
    """

    def __init__(
        self,
        scope: Scope,
        source: Store,
        dest: Store,
        *,
        fresh: bool,
        replaced: str | None,
        progress: Progress = SILENT,
    ) -> None:
        super().__init__(source, progress)
        self.scope = scope
        self._dest = dest
        self.fresh = fresh
        self.replaced = replaced
        self.copied = FileCount()
        self._sound = True
        self._closed = False
        self._there: set[str] = set()
        """Definitions that were read at the destination."""
        self._waiting: dict[str, bytes] = {}
        self._absent: set[str] = set()
        """Waiting definitions that the destination is known not to have."""
        self._size = 0
        self._pool: ThreadPoolExecutor | None = None
        self._under_way: Future[None] | None = None

    def definitions(self, places: Sequence[Place]) -> Iterator[tuple[Place, bytes | StoreError]]:
        """Read definitions at the destination if it has them with a correct checksum, else in the catalog."""
        maybe = not self.fresh and not self._closed
        copied = [place.path for place in places if maybe and self._is_copied(place, is_node=False)]
        there: dict[str, bytes] = {}
        for path, data in self._dest.read_many(copied) if copied else ():
            if isinstance(data, bytes) and check_digest(data, path) is Digest.VERIFIED:
                there[path] = data
            elif isinstance(data, PathMissing):
                self._absent.add(path)
        self._there.update(there)
        missing = iter(super().definitions([place for place in places if place.path not in there]))
        for place in places:
            yield (place, there[place.path]) if place.path in there else next(missing)

    def looked_at(self, place: Place, data: bytes | StoreError, flaw: Flaw | None, *, is_node: bool) -> None:
        if isinstance(data, Exception) and not isinstance(data, PathMissing | PathOutside | Damaged):
            # a failing network is not damage
            raise StoreFailure(data)
        if self._closed:
            return
        here = place.path in self._there
        self._there.discard(place.path)
        if here and flaw is not None:
            raise not_whole(self._dest.uri, place.path, flaw.code, flaw.reason)
        if flaw is not None:
            # copy nothing more, but read the rest, so that fsck can judge it
            self._sound, self._waiting = False, {}
        if not self._sound or not isinstance(data, bytes) or not self._is_copied(place, is_node):
            return
        self.copied += FileCount.of(place.path, len(data))
        if here:
            return
        self._waiting[place.path] = data
        self._size += len(data)
        if len(self._waiting) >= FILES_AT_ONCE or self._size >= BYTES_AT_ONCE:
            self._send()

    def _is_copied(self, place: Place, is_node: bool) -> bool:
        return self.scope.copies(place.level, is_node=is_node) and (is_node or place.path != self.replaced)

    def tally(self, place: Place, files: int, size: int, *, is_node: bool, names: int | None = None) -> None:
        if self._is_copied(place, is_node):
            self.copied += _tallied(place, files, size, names)

    def close(self, complete: bool = True) -> None:
        """If complete, wait until all files are written and read back, and raise the first error. Else write nothing
        more.
        """
        self._closed = True
        try:
            if complete and self._waiting:
                self._send()
            with nullcontext() if complete else suppress(Exception):
                # the first error is already being raised
                self._wait()
        finally:
            if self._pool is not None:
                self._pool.shutdown(wait=True)

    def _send(self) -> None:
        self._wait()
        files, self._waiting, self._size = self._waiting, {}, 0
        absent, self._absent = self._absent, set()
        maybe = () if self.fresh else files.keys() - absent
        self._pool = self._pool or ThreadPoolExecutor(1, thread_name_prefix="export")
        self._under_way = self._pool.submit(create_all, self._dest, files, maybe)

    def _wait(self) -> None:
        under_way, self._under_way = self._under_way, None
        if under_way is not None:
            under_way.result()


def _tallied(place: Place, files: int, size: int, names: int | None) -> FileCount:
    if not files:
        return FileCount(0, size)
    return FileCount.of(place.path, size) if place.path else FileCount(files, size, names)


def create_all(dest: Store, files: dict[str, bytes], maybe_there: Collection[str] = ()) -> None:
    """Create files at the destination, read them back and compare. Files in `maybe_there` are read first, and stay if
    they exist.

    Raise PathTaken if an unexpected file exists, and Damaged if a copy differs.
    """
    contents = dest.read_many(maybe_there) if maybe_there else ()
    there = {path: data for path, data in contents if isinstance(data, bytes)}
    missing = {path: data for path, data in files.items() if path not in there}
    if missing:
        dest.create_many(missing)
    for path, data in [*there.items(), *(dest.read_many(missing) if missing else ())]:
        if isinstance(data, PathMissing):
            raise not_whole(dest.uri, path, "F201", "it is missing")
        if isinstance(data, Exception):
            raise data
        if data != files[path]:
            raise not_whole(dest.uri, path, "", "it differs from the file in the catalog")


RESUME = "delete that file at the destination, then resume the export"


def not_whole(dest: str, path: str, code: str, reason: str, hint: str = RESUME, command: Sequence[str] = ()) -> Damaged:
    """Return the error for a damaged copy."""
    return Damaged(code, f"{dest}/{path}", f"the copy is damaged: {reason}", hint=hint, command=command)
