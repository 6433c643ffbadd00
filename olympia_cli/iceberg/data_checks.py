"""Check that the data of tables exists: metadata, manifest lists, manifests, data and delete files. Views have only
metadata.

The checks cover a table's current snapshot and those of its branches and tags. Entries with the status "deleted" are
skipped. Data files are not read, but must exist and have at least the size in the manifest.

Tables are checked in batches. Within a batch, each level of files is read in parallel. A file that several tables or
snapshots share is read once. The sound files are remembered as digests, up to a limit, and the number of pending files
is limited, too. So memory does not grow with the number of tables.
"""

from __future__ import annotations

import shlex
from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import chain
from typing import Generic, TypeVar

from olympia_cli.errors import Damaged, InvalidLocation, OlympiaError, PathMissing
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.locations import parse_location
from olympia_cli.iceberg.manifests import FileContent, decode_manifest, decode_manifest_list
from olympia_cli.iceberg.metadata import referenced_snapshots
from olympia_cli.names import Kind, TableName, ViewName, plural
from olympia_cli.ops.fsck import MAX_OBJECTS, DataFinding, WithData, finding
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.verify_metadata import parse_metadata, parse_view_metadata
from olympia_cli.ops.walk import path_digest

# Remember texts in bounded memory.


class TextSet:
    """A set of texts, as digests. A full set is cleared: then some texts count as new again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._digests: set[bytes] = set()

    def __contains__(self, text: str) -> bool:
        return path_digest(text) in self._digests

    def add(self, text: str) -> bool:
        """Add a text. Return True if it is new."""
        digest = path_digest(text)
        if digest in self._digests:
            return False
        if len(self._digests) >= self._most:
            self._digests.clear()
        self._digests.add(digest)
        return True


# The rules of fsck's data level, independent of the file reader: references of a table's files, and their problems.
#
# A view has one file, its metadata, without references.


class Floor(StrEnum):
    """The levels of a table's files, from the top down. The values are the names of the counters."""

    METADATA = "metadata"
    MANIFEST_LISTS = "manifest_lists"
    MANIFESTS = "manifests"
    DATA_FILES = "data_files"


READ = (Floor.METADATA, Floor.MANIFEST_LISTS, Floor.MANIFESTS)
"""The levels whose files are read. Of data files, only the size is checked."""


@dataclass(frozen=True, slots=True)
class Below:
    """A reference to a file. It must have at least `length` bytes (0: unknown). `what` is the kind of data file."""

    floor: Floor
    location: str
    length: int = 0
    what: str = ""


@dataclass(frozen=True, slots=True)
class Wrong:
    """A problem with a file. With the code `UNSEEN`, the state of the file is unknown."""

    code: str
    message: str


UNSEEN = "F604"
NO_METADATA = Wrong("F601", "the definition names no metadata")
_CUT = "F602"
_LOST = "F603"
# code and message for a missing file, and the prefix of the message for an unreadable one
_WORDS = {
    Floor.METADATA: ("F601", "the metadata is missing", ""),
    Floor.MANIFEST_LISTS: (_LOST, "a manifest list is missing", "a manifest list cannot be read: "),
    Floor.MANIFESTS: (_LOST, "a manifest is missing", "a manifest cannot be read: "),
}


def look_into(
    floor: Floor, location: str, length: int, data: bytes | OlympiaError, kind: Kind = Kind.TABLE
) -> Iterator[Below | Wrong]:
    """Yield the references in a part, and at the end its problem, if any. `kind` is the kind of object that it belongs
    to.
    """
    if isinstance(data, OlympiaError):
        yield _trouble(floor, data)
        return
    try:
        match floor:
            case Floor.METADATA if kind is Kind.VIEW:
                parse_view_metadata(data, location)
            case Floor.METADATA:
                yield from _of_metadata(data, location)
            case Floor.MANIFEST_LISTS:
                for manifest in decode_manifest_list(data, location):
                    yield Below(Floor.MANIFESTS, manifest.location, manifest.length)
            case _:
                for file in decode_manifest(data, location):
                    what = "a data file" if file.content is FileContent.DATA else "a delete file"
                    yield Below(Floor.DATA_FILES, file.location, file.size, what)
        # a file that lost whole blocks has no internal damage
        if len(data) < length:
            raise Damaged("F602", location, f"it is cut short: {len(data):,} of {length:,} bytes")
    except OlympiaError as error:
        yield _trouble(floor, error)


def judge_size(what: str, length: int, size: int | OlympiaError) -> Wrong | None:
    """Return the problem with a data file of this size, or None."""
    if isinstance(size, PathMissing):
        return Wrong(_LOST, f"{what} is missing")
    if isinstance(size, OlympiaError):
        return Wrong(UNSEEN, size.message)
    return Wrong(_LOST, f"{what} is cut short: {size:,} of {length:,} bytes") if size < length else None


def store_of(location: str) -> str:
    """Return the store of a location, or an empty string for an invalid location."""
    try:
        return parse_location(location).store
    except InvalidLocation:
        return ""


def _of_metadata(data: bytes, location: str) -> Iterator[Below]:
    for snapshot in referenced_snapshots(parse_metadata(data, location), location):
        if snapshot.manifest_list:
            yield Below(Floor.MANIFEST_LISTS, snapshot.manifest_list)
        for manifest in snapshot.manifests:
            yield Below(Floor.MANIFESTS, manifest)


def _trouble(floor: Floor, error: OlympiaError) -> Wrong:
    code, missing, unreadable = _WORDS[floor]
    if isinstance(error, Damaged):
        return Wrong(_CUT, unreadable + error.reason)
    if isinstance(error, PathMissing):
        return Wrong(code, missing)
    return Wrong(UNSEEN, error.message)


# Findings about table data, limited to a readable number and independent of the order of discovery.
#
# The first damaged files of each table are separate findings, the rest is a count. For a store that cannot be read, the
# first tables are separate findings. First means in sort order: files by location, tables by name. Views count as
# tables here.

EACH = 20
"""The maximum number of findings per code and table, and of tables per unreadable store."""
TABLES = EACH + MAX_OBJECTS
"""The maximum number of tables per unreadable store that are known by name."""
_REPORTED = 1_000_000

Name = TableName | ViewName
K = TypeVar("K", str, Name)
V = TypeVar("V")


class _First(Generic[K, V]):
    """The smallest keys of many, each with a value. Keys that remain at the end were never evicted."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._order: list[K] = []
        self._values: dict[K, V] = {}

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def put(self, key: K, value: V) -> V | None:
        """Add a new key. Return the value that is evicted, which may be the new one, or None."""
        if len(self._order) >= self._most and _order(key) > _order(self._order[-1]):
            return value
        insort(self._order, key, key=_order)
        self._values[key] = value
        return self._values.pop(self._order.pop()) if len(self._order) > self._most else None

    def __iter__(self) -> Iterator[tuple[K, V]]:
        return ((key, self._values[key]) for key in self._order)


@dataclass(slots=True)
class WrongFile:
    """The problem with a file, and the metadata locations of one table that lead to it."""

    message: str
    locations: set[str] = field(default_factory=set)


class WrongFiles:
    """The files of a table with one kind of problem: their number, and the first `most` of them.

    `rest` holds the metadata locations that lead to the others.
    """

    def __init__(self, most: int = EACH) -> None:
        self.total = 0
        self.first: _First[str, WrongFile] = _First(most)
        self.rest: set[str] = set()

    @property
    def locations(self) -> set[str]:
        return self.rest.union(*(file.locations for _, file in self.first))

    def add(self, path: str, message: str, locations: Iterable[str]) -> None:
        """Add a file, or further metadata that leads to it."""
        file = self.first.get(path)
        if file is not None:
            file.locations.update(locations)
            return
        left_over = self.first.put(path, WrongFile(message, set(locations)))
        if left_over is not None:
            self.rest |= left_over.locations


@dataclass(slots=True)
class UnseenStore:
    """Tables with data on a store that could not be read: their number, the first file with the reason, and the first
    tables.
    """

    path: str
    reason: str
    total: int = 0
    first: _First[Name, WrongFiles] = field(default_factory=lambda: _First(TABLES))

    def files(self, name: Name) -> WrongFiles | None:
        """Return the entry of a table, to be added to, or None if it is not among the first."""
        known = self.first.get(name)
        if known is None:
            known = WrongFiles(1)
            if self.first.put(name, known) is known:
                return None
        return known


class DataFindings:
    """Collects problems with files, and returns findings."""

    def __init__(self) -> None:
        self._tables: dict[tuple[Name, str], WrongFiles] = {}
        self._stores: dict[str, UnseenStore] = {}
        self._taken = TextSet(_REPORTED)

    def take(self, path: str, wrong: Wrong, tables: Iterable[tuple[Name, str]]) -> None:
        """Record a damaged file. `tables` are the tables with that file, each with metadata that leads to it.

        A repeated report, or a second path to the same table, counts once.
        """
        for name, location in tables:
            unseen = wrong.code == UNSEEN
            files = self._unseen(path, wrong.message, name) if unseen else self.files(name, wrong.code)
            if files is not None:
                files.add(path, wrong.message, [location])
                files.total += self._taken.add(f"{wrong.code}\0{path}\0{name.kind.word} {name}")

    def files(self, name: Name, code: str) -> WrongFiles:
        """Return the entry of a table, to be added to."""
        return self._tables.setdefault((name, code), WrongFiles())

    def store(self, uri: str, path: str, reason: str) -> UnseenStore:
        """Return the entry of a store, to be added to."""
        return self._stores.setdefault(uri, UnseenStore(path, reason))

    def _unseen(self, path: str, reason: str, name: Name) -> WrongFiles | None:
        uri = store_of(path)
        store = self.store(uri, path, reason)
        if path < store.path:
            store.path, store.reason = path, reason
        store.total += self._taken.add(f"store\0{uri}\0{name.kind.word} {name}")
        return store.files(name)

    def all(self) -> Iterator[DataFinding]:
        """Yield a finding for each of the first files, with its tables, then findings that count the rest."""
        tables = sorted(self._tables.items(), key=lambda one: (_order(one[0][0]), one[0][1]))
        for code in sorted({code for _, code in self._tables}):
            yield from _of_files(code, [(name, files) for (name, of_code), files in tables if of_code == code])
        for (name, code), files in tables:
            if files.rest:
                message = f"{files.total - EACH:,} more of its files, {files.total:,} in all"
                summary = finding(code, min(files.rest), message, objects=[name], hint=_next(name))
                yield DataFinding(summary, frozenset(files.rest))
        for uri, store in sorted(self._stores.items()):
            yield from _of_store(uri, store)


def _of_files(code: str, tables: Iterable[tuple[Name, WrongFiles]]) -> Iterator[DataFinding]:
    """Yield a finding for each of the tables' first files, with all tables that have it."""
    named: dict[str, tuple[WrongFile, list[Name]]] = {}
    for name, files in tables:
        for path, file in files.first:
            told, names = named.setdefault(path, (WrongFile(file.message), []))
            told.locations |= file.locations
            names.append(name)
    for path, (file, names) in sorted(named.items()):
        hint = _next(names[0]) if code != UNSEEN else ""
        yield DataFinding(finding(code, path, file.message, objects=names, hint=hint), frozenset(file.locations))


def _of_store(uri: str, store: UnseenStore) -> Iterator[DataFinding]:
    known = list(store.first)
    first, others = known[:EACH], known[EACH:]
    yield from _of_files(UNSEEN, first)
    for name, files in first:
        if files.rest:
            summary = finding(UNSEEN, min(files.rest), f"{files.total - 1:,} more of its files", objects=[name])
            yield DataFinding(summary, frozenset(files.rest))
    if others:
        rest = store.total - EACH
        message = f"{plural(rest, 'more table')} could not be looked at: {store.reason}"
        summary = finding(UNSEEN, uri, message, objects=[name for name, _ in others], objects_total=rest)
        # the remaining tables are only counted: the store may hold a whole lake
        yield DataFinding(summary, frozenset().union(*(files.locations for _, files in others)))


def _order(key: str | Name) -> tuple[str, ...]:
    return (key,) if isinstance(key, str) else (key.namespace, key.name, key.kind.word)


def _next(name: Name) -> str:
    # lost data may be recovered from older metadata
    command = "table history" if isinstance(name, TableName) else "log -p"
    return f"{command} {shlex.quote(str(name))}"


TABLES_AT_ONCE = 256
MANIFESTS_AT_ONCE = 20_000
FILES_AT_ONCE = 100_000
_REMEMBERED = 1_000_000


class IcebergDataChecks:
    """Implementation of ops/fsck/data.DataChecks.

    `options` are the storage options of the catalog, `scheme` that of its URI. They apply to tables on the same kind of
    store. `checked` counts the checked files: metadata, manifest_lists, manifests, data_files.
    """

    def __init__(self, options: Mapping[str, object] | None = None, scheme: str = "") -> None:
        self._options = options
        self._scheme = scheme
        self.checked: Counter[str] = Counter()

    @property
    def data_files(self) -> int:
        return self.checked["data_files"]

    def check(self, objects: Iterable[WithData], progress: Progress) -> Iterator[DataFinding]:
        """Yield the problems with the data of these tables and views. Damage never raises an error."""
        progress.phase("checking table data")
        with closing(TableFiles(self._options, self._scheme)) as files:
            yield from _TableCheck(files, progress, self.checked).run(objects)


@dataclass(slots=True, eq=False)
class _Part:
    """A metadata file, manifest list or manifest, with the parts that name it. `objects` belong to a metadata file."""

    location: str
    above: list[_Part] = field(default_factory=list)
    objects: dict[TableName | ViewName, None] = field(default_factory=dict)
    kind: Kind = Kind.TABLE
    length: int = 0
    sound: bool = True

    @property
    def key(self) -> str:
        """The key under which the file is remembered. A file that is sound as a table's metadata may not be as a
        view's.
        """
        return self.location if self.kind is Kind.TABLE else f"{self.kind.word}\0{self.location}"

    def hit(self) -> Iterator[tuple[TableName | ViewName, str]]:
        """Yield the objects that need this part, with their metadata. Mark the part and all above it as damaged."""
        waiting = [self]
        while waiting:
            part = waiting.pop()
            part.sound = False
            waiting += part.above
            yield from ((name, part.location) for name in part.objects)


@dataclass(slots=True)
class _Wanted:
    """A data or delete file, and the manifests that name it."""

    what: str
    length: int
    above: list[_Part]


class _TableCheck:
    def __init__(self, files: TableFiles, progress: Progress, checked: Counter[str]) -> None:
        self._files = files
        self._progress = progress
        self._checked = checked
        self._findings = DataFindings()
        # parts with sound content below them; existing data files; and all others, to count each once
        self._sound = TextSet(_REMEMBERED)
        self._there = TextSet(_REMEMBERED)
        self._unsound = TextSet(_REMEMBERED)
        self._lists: dict[str, _Part] = {}
        self._manifests: dict[str, _Part] = {}
        self._wanted: dict[str, _Wanted] = {}

    def run(self, objects: Iterable[WithData]) -> Iterator[DataFinding]:
        portions: dict[Kind, dict[str, _Part]] = {Kind.TABLE: {}, Kind.VIEW: {}}
        for name, definition in objects:
            part = _Part(definition.iceberg_metadata_location, kind=name.kind)
            if part.key in self._sound:
                continue
            portion = portions[name.kind]
            portion.setdefault(part.location, part).objects[name] = None
            if len(portion) >= TABLES_AT_ONCE:
                self._read_metadata(portion)
                portion.clear()
        for portion in portions.values():
            self._read_metadata(portion)
        yield from self._findings.all()

    def _read_metadata(self, portion: dict[str, _Part]) -> None:
        nowhere = portion.pop("", None)
        if nowhere is not None:
            self._findings.take("", NO_METADATA, nowhere.hit())
        for part, data in self._read(Floor.METADATA, portion):
            self._follow(Floor.METADATA, part, data)
        self._read_lists()
        self._remember(portion.values())

    def _read_lists(self) -> None:
        lists, self._lists = self._lists, {}
        for part, data in self._read(Floor.MANIFEST_LISTS, lists):
            self._follow(Floor.MANIFEST_LISTS, part, data)
            if len(self._manifests) >= MANIFESTS_AT_ONCE:
                self._read_manifests()
        self._read_manifests()
        self._remember(lists.values())

    def _read_manifests(self) -> None:
        manifests, self._manifests = self._manifests, {}
        for part, data in self._read(Floor.MANIFESTS, manifests):
            self._follow(Floor.MANIFESTS, part, data)
            if len(self._wanted) >= FILES_AT_ONCE:
                self._data_files()
        self._data_files()
        self._remember(manifests.values())

    def _data_files(self) -> None:
        wanted, self._wanted = self._wanted, {}
        # files of one table share a prefix
        groups: dict[int, list[str]] = {}
        for location, file in wanted.items():
            groups.setdefault(id(_top(file.above[0])), []).append(location)
        for location, size in self._files.sizes_of_groups(groups.values()):
            file = wanted[location]
            wrong = judge_size(file.what, file.length, size)
            self._count(Floor.DATA_FILES, location)
            if wrong is None:
                self._there.add(location)
                continue
            self._unsound.add(location)
            self._findings.take(location, wrong, chain.from_iterable(part.hit() for part in file.above))

    def _read(self, floor: Floor, parts: Mapping[str, _Part]) -> Iterator[tuple[_Part, bytes | OlympiaError]]:
        for location, data in self._files.read(parts):
            self._count(floor, parts[location].key)
            yield parts[location], data

    def _count(self, floor: Floor, key: str) -> None:
        self._progress.advance()
        if key not in self._unsound:
            self._checked[floor] += 1

    def _follow(self, floor: Floor, part: _Part, data: bytes | OlympiaError) -> None:
        for found in look_into(floor, part.location, part.length, data, part.kind):
            if isinstance(found, Wrong):
                self._findings.take(part.location, found, part.hit())
            elif found.floor is Floor.DATA_FILES:
                self._want(found, part)
            else:
                self._below(self._lists if found.floor is Floor.MANIFEST_LISTS else self._manifests, found, part)

    def _below(self, parts: dict[str, _Part], found: Below, above: _Part) -> None:
        if found.location not in self._sound:
            part = parts.setdefault(found.location, _Part(found.location))
            # references to a file may differ, and their order must not matter
            part.length = max(part.length, found.length)
            if not part.above or part.above[-1] is not above:
                part.above.append(above)

    def _want(self, found: Below, above: _Part) -> None:
        if found.location not in self._there:
            file = self._wanted.setdefault(found.location, _Wanted(found.what, found.length, []))
            file.what, file.length = min(file.what, found.what), max(file.length, found.length)
            file.above.append(above)

    def _remember(self, parts: Iterable[_Part]) -> None:
        for part in parts:
            (self._sound if part.sound else self._unsound).add(part.key)


def _top(part: _Part) -> _Part:
    while part.above:
        part = part.above[0]
    return part
