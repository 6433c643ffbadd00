"""Is the data of tables there? Metadata, manifest lists, manifests, data and delete files, from the top down.

Looked at are the current snapshot of a table and those that its branches and tags name; entries that a manifest says
were deleted are not. Data files are looked at from outside: whether they are there, and not shorter than the manifest
says.

Tables are taken in portions, and a portion goes down floor by floor, each floor in parallel. A file that several
tables or snapshots share is read once, however many they are. What is known to be sound is remembered as digests, up
to a number, and waiting files are bounded too, so memory does not grow with the tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from itertools import chain

from olympia_cli.errors import Damaged, OlympiaError, PathMissing
from olympia_cli.format.pb.objects_pb2 import TableDef
from olympia_cli.iceberg.data_findings import DataFindings
from olympia_cli.iceberg.files import TableFiles
from olympia_cli.iceberg.manifests import Content, decode_manifest, decode_manifest_list
from olympia_cli.iceberg.metadata import referenced_snapshots
from olympia_cli.iceberg.seen import Seen
from olympia_cli.names import TableName
from olympia_cli.ops.findings import Finding
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.verify_metadata import parse_metadata

TABLES_AT_ONCE = 256
MANIFESTS_AT_ONCE = 20_000
FILES_AT_ONCE = 100_000
_REMEMBERED = 1_000_000


class IcebergDataChecks:
    """See ops/fsck_data.DataChecks. `options` are the storage options of the catalog, and `scheme` that of its URI:
    they serve tables that are on the same kind of store.

    `checked` counts the files that were looked at: metadata, manifest_lists, manifests, data_files.
    """

    def __init__(self, options: Mapping[str, object] | None = None, scheme: str = "") -> None:
        self._options = options
        self._scheme = scheme
        self.checked: Counter[str] = Counter()

    def check(self, tables: Iterable[tuple[TableName, TableDef]], progress: Progress) -> Iterator[Finding]:
        """What is wrong with the data of these tables; never raises on damage."""
        progress.phase("looking at table data")
        with closing(TableFiles(self._options, self._scheme)) as files:
            yield from _Check(files, progress, self.checked).run(tables)


@dataclass(slots=True, eq=False)
class _Part:
    """A metadata file, a manifest list or a manifest, and what names it. `tables` are those of a metadata file."""

    location: str
    above: list[_Part] = field(default_factory=list)
    tables: dict[TableName, None] = field(default_factory=dict)
    length: int = 0
    sound: bool = True

    def hit(self) -> Iterator[tuple[TableName, str]]:
        """The tables that need it, each with its metadata; from here up nothing is sound."""
        waiting = [self]
        while waiting:
            part = waiting.pop()
            part.sound = False
            waiting += part.above
            yield from ((name, part.location) for name in part.tables)


@dataclass(slots=True)
class _Wanted:
    """A data or delete file, and the manifests that name it."""

    what: str
    size: int
    above: list[_Part]


class _Check:
    def __init__(self, files: TableFiles, progress: Progress, checked: Counter[str]) -> None:
        self._files = files
        self._progress = progress
        self._checked = checked
        self._findings = DataFindings()
        # parts under which everything is sound; and data files that are there
        self._sound = Seen(_REMEMBERED)
        self._there = Seen(_REMEMBERED)
        self._wanted: dict[str, _Wanted] = {}

    def run(self, tables: Iterable[tuple[TableName, TableDef]]) -> Iterator[Finding]:
        portion: dict[str, _Part] = {}
        for name, definition in tables:
            location = definition.iceberg_metadata_location
            if location in self._sound:
                continue
            portion.setdefault(location, _Part(location)).tables[name] = None
            if len(portion) >= TABLES_AT_ONCE:
                yield from self._portion(portion)
                portion = {}
        yield from self._portion(portion)
        yield from self._findings.rest()

    def _portion(self, portion: dict[str, _Part]) -> Iterator[Finding]:
        lists: dict[str, _Part] = {}
        manifests: dict[str, _Part] = {}
        yield from self._metadata(portion, lists, manifests)
        yield from self._manifest_lists(lists, manifests)
        yield from self._manifests(manifests)
        self._remember(chain(lists.values(), portion.values()))

    def _metadata(
        self, portion: dict[str, _Part], lists: dict[str, _Part], manifests: dict[str, _Part]
    ) -> Iterator[Finding]:
        nowhere = portion.get("")
        if nowhere is not None:
            yield from self._findings.wrong("F601", "", "the definition names no metadata", nowhere.hit())
        for part, data in self._read({key: part for key, part in portion.items() if key}, "metadata"):
            if isinstance(data, OlympiaError):
                yield from self._trouble(part, data, "F601", "the metadata is missing")
                continue
            try:
                for snapshot in referenced_snapshots(parse_metadata(data, part.location), part.location):
                    if snapshot.manifest_list:
                        self._below(lists, snapshot.manifest_list, part)
                    for location in snapshot.manifests:
                        self._below(manifests, location, part)
            except OlympiaError as error:
                yield from self._trouble(part, error, "F602", "")

    def _manifest_lists(self, lists: dict[str, _Part], manifests: dict[str, _Part]) -> Iterator[Finding]:
        for part, data in self._read(lists, "manifest_lists"):
            if isinstance(data, OlympiaError):
                yield from self._trouble(part, data, "F603", "a manifest list is missing")
                continue
            try:
                for manifest in decode_manifest_list(data, part.location):
                    self._below(manifests, manifest.location, part, manifest.length)
            except OlympiaError as error:
                yield from self._trouble(part, error, "F602", "a manifest list cannot be read")
            if len(manifests) >= MANIFESTS_AT_ONCE:
                yield from self._manifests(manifests)
                manifests.clear()

    def _manifests(self, manifests: dict[str, _Part]) -> Iterator[Finding]:
        for part, data in self._read(manifests, "manifests"):
            if isinstance(data, OlympiaError):
                yield from self._trouble(part, data, "F603", "a manifest is missing")
                continue
            try:
                for file in decode_manifest(data, part.location):
                    if file.location not in self._there:
                        what = "a data file" if file.content is Content.DATA else "a delete file"
                        self._wanted.setdefault(file.location, _Wanted(what, file.size, [])).above.append(part)
                # a file that lost whole blocks is sound in itself
                if len(data) < part.length:
                    raise Damaged(part.location, f"it is cut short: {len(data):,} of {part.length:,} bytes")
            except OlympiaError as error:
                yield from self._trouble(part, error, "F602", "a manifest cannot be read")
            if len(self._wanted) >= FILES_AT_ONCE:
                yield from self._data_files()
        yield from self._data_files()
        self._remember(manifests.values())

    def _data_files(self) -> Iterator[Finding]:
        wanted, self._wanted = self._wanted, {}
        # files of one table lie together
        groups: dict[int, list[str]] = {}
        for location, file in wanted.items():
            groups.setdefault(id(_top(file.above[0])), []).append(location)
        for location, size in self._files.sizes_of_groups(groups.values()):
            self._checked["data_files"] += 1
            self._progress.advance()
            file = wanted[location]
            if isinstance(size, int) and size >= file.size:
                self._there.add(location)
                continue
            hit = chain.from_iterable(part.hit() for part in file.above)
            if isinstance(size, int):
                message = f"{file.what} is cut short: {size:,} of {file.size:,} bytes"
                yield from self._findings.wrong("F603", location, message, hit)
            elif isinstance(size, PathMissing):
                yield from self._findings.wrong("F603", location, f"{file.what} is missing", hit)
            else:
                yield from self._findings.not_looked_at(location, size, hit)

    def _read(self, parts: Mapping[str, _Part], what: str) -> Iterator[tuple[_Part, bytes | OlympiaError]]:
        for location, data in self._files.read(parts):
            self._checked[what] += 1
            self._progress.advance()
            yield parts[location], data

    def _below(self, parts: dict[str, _Part], location: str, above: _Part, length: int = 0) -> None:
        if location not in self._sound:
            part = parts.setdefault(location, _Part(location, length=length))
            if not part.above or part.above[-1] is not above:
                part.above.append(above)

    def _trouble(self, part: _Part, error: OlympiaError, code: str, message: str) -> Iterator[Finding]:
        """A part could not be read, or not to its end."""
        if isinstance(error, Damaged):
            said = f"{message}: {error.reason}" if message else error.reason
            yield from self._findings.wrong("F602", part.location, said, part.hit())
        elif isinstance(error, PathMissing):
            yield from self._findings.wrong(code, part.location, message, part.hit())
        else:
            yield from self._findings.not_looked_at(part.location, error, part.hit())

    def _remember(self, parts: Iterable[_Part]) -> None:
        for part in parts:
            if part.sound:
                self._sound.add(part.location)


def _top(part: _Part) -> _Part:
    while part.above:
        part = part.above[0]
    return part
