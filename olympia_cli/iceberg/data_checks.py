"""Check that the data of tables exists: metadata, manifest lists, manifests, data and delete files. Views have only
metadata.

The checks cover a table's current snapshot and those of its branches and tags. Entries with the status "deleted" are
skipped. Data files are not read, but must exist and have at least the size in the manifest.

Tables are checked in batches. Within a batch, each level of files is read in parallel. A file that several tables or
snapshots share is read once. The sound files are remembered as digests, up to a limit, and the number of pending files
is limited, too. So memory does not grow with the number of tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain

from olympia_cli.errors import OlympiaError
from olympia_cli.iceberg.data_findings import DataFindings
from olympia_cli.iceberg.data_parts import NO_METADATA, Below, Floor, Wrong, judge_size, look_into
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.seen import Seen
from olympia_cli.names import Kind, TableName, ViewName
from olympia_cli.ops.fsck.data import DataFinding, WithData
from olympia_cli.ops.progress import Progress

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
            yield from _Check(files, progress, self.checked).run(objects)


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


class _Check:
    def __init__(self, files: TableFiles, progress: Progress, checked: Counter[str]) -> None:
        self._files = files
        self._progress = progress
        self._checked = checked
        self._findings = DataFindings()
        # parts with sound content below them; existing data files; and all others, to count each once
        self._sound = Seen(_REMEMBERED)
        self._there = Seen(_REMEMBERED)
        self._unsound = Seen(_REMEMBERED)
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
