"""Write a new catalog at another location from the readable parts of a damaged one. The source is only read.

The content of the newest version comes first, from its own files, older versions and the log. If parts are missing,
nodes without a readable pointer are searched, and finally definitions that no node names.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from olympia_cli.catalog.catalog import DAY_MILLIS
from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.commit import Author
from olympia_cli.catalog.repair_commit import Built, Repair, RepairSource, create_repaired
from olympia_cli.catalog.retained import purged_before, without_protection
from olympia_cli.catalog.snapshot import MAJOR_VERSION, Snapshot, check_supported, expired_before
from olympia_cli.catalog.versions import read_hints, read_root
from olympia_cli.errors import (
    CatalogNotFound,
    CommitConflict,
    Damaged,
    InvalidLocation,
    LocationNotEmpty,
    OutcomeUnknown,
    PathMissing,
    PathTaken,
    Refused,
    StorageFailed,
    VersionNotFound,
)
from olympia_cli.format import definitions
from olympia_cli.format.definitions import sizes_of
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.paths import SALVAGE_NOTE, FileKind, file_kind
from olympia_cli.format.pb.actions_pb2 import ActionType, RepairDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, ObjectName, new_uuid
from olympia_cli.ops.export import check_apart
from olympia_cli.ops.fsck import LatestVersion, describe_object_name, stray_findings
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.repair.content import (
    LostRange,
    VersionContent,
    missing_namespaces,
    name_order,
    newest_catalog,
    put_together,
    suspect,
)
from olympia_cli.ops.repair.files import RepairFiles
from olympia_cli.ops.repair.leftovers import Leftovers, Suspect
from olympia_cli.ops.repair.lost_commits import NEAR
from olympia_cli.ops.repair.repair import existing_versions, last_lost_version, missing_versions
from olympia_cli.ops.walk import Flaw
from olympia_cli.storage.probe import check_exclusive_create
from olympia_cli.storage.protocol import Store

AT_ONCE = 256

MOST_MISSING = 1000
"""The largest number of missing versions to name one by one."""


@dataclass(slots=True)
class _NewCatalog:
    """The new catalog: its definition, and the objects, each with the path of its definition or the definition itself.
    `content` is the known content of the newest of the `versions`.
    """

    catalog: CatalogDef
    versions: Sequence[int]
    notes: list[str]
    missing: tuple[int, ...] = ()
    content: VersionContent = field(default_factory=VersionContent)
    values: dict[ObjectName, str | bytes] = field(default_factory=dict)
    origins: dict[str, int] = field(default_factory=lambda: {"versions": 0, "nodes": 0, "definitions": 0})
    doubtful: dict[ObjectName, str] = field(default_factory=dict)

    @property
    def codec(self) -> KeyCodec:
        return KeyCodec.of(sizes_of(self.catalog))


@dataclass(frozen=True, slots=True)
class SalvageReport:
    """The result of a salvage.

    `origins` counts objects by their source: versions, nodes without a pointer to them, definitions alone. `doubtful`
    objects are present, each with the reason of the doubt.
    """

    source: str
    destination: str
    from_version: int | None
    objects: int
    origins: dict[str, int]
    lost: tuple[ObjectName, ...]
    lost_ranges: tuple[LostRange, ...]
    missing_versions: tuple[int, ...]
    unreadable: tuple[tuple[str, str], ...]
    doubtful: tuple[tuple[ObjectName, str], ...]
    notes: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """True if everything that the newest version held has certainly been recovered."""
        newest = -1 if self.from_version is None else self.from_version
        return not (
            self.lost or self.lost_ranges or self.doubtful or any(version > newest for version in self.missing_versions)
        )

    def describe(self) -> dict[str, Any]:
        return {
            "source": self.source,
            "destination": self.destination,
            "from_version": self.from_version,
            "objects": self.objects,
            "found": self.origins,
            "complete": self.complete,
            "lost": [describe_object_name(name) for name in self.lost],
            "lost_ranges": [lost.describe() for lost in self.lost_ranges],
            "missing_versions": list(self.missing_versions),
            "unreadable": [{"path": path, "reason": reason} for path, reason in self.unreadable],
            "doubtful": [{**describe_object_name(name), "reason": reason} for name, reason in self.doubtful],
            "notes": list(self.notes),
        }


def salvage_catalog(
    store: Store, dest: Store, clock: Clock, author: Author, progress: Progress = SILENT, *, dry_run: bool = False
) -> SalvageReport:
    """Write a catalog of all readable objects to an empty location, and report the others. The order:

    1. The note that names the source.
    2. The definitions, under their former names.
    3. The nodes.
    4. Root 0, created exclusively: the new catalog exists.

    An interrupted salvage leaves no catalog; run it again to finish. With `dry_run` nothing is written.
    """
    if dest.uri == store.uri:
        raise InvalidLocation(f"{dest.uri} is the damaged catalog itself", hint="choose a place of its own")
    check_apart(store.uri, dest.uri)
    check_free(dest, store.uri)
    files = RepairFiles(store, tolerant=True, progress=progress)
    gathered = gather(files)
    report = _report(files, gathered, dest.uri)
    if not dry_run:
        progress.phase("writing the new catalog", report.objects)
        _write(files, dest, clock, author, gathered, report)
    return report


def plan_salvage(store: Store, destination: str, progress: Progress = SILENT) -> SalvageReport:
    """Return the report of a salvage to a location, without reading the location."""
    files = RepairFiles(store, tolerant=True, progress=progress)
    return _report(files, gather(files), destination)


def gather(files: RepairFiles) -> _NewCatalog:
    """Collect the content of the newest version, and fill missing parts from leftovers."""
    store, progress = files.store, files.progress
    progress.phase("reading versions")
    hint = read_hints(store).latest
    every = _versions(store)
    latest = files.latest(every) if every else None
    every = latest.chain.existing if latest is not None else []
    former, notes = _catalog(files, every, latest)
    # a root under a name that an expire has freed is not part of the history
    versions = [version for version in every if version >= purged_before(former)] or every
    if versions and latest is not None:
        hint = last_lost_version(latest, hint, former)
    gathered = _NewCatalog(without_protection(former), versions, notes)
    if versions and latest is not None:
        progress.phase("reading what the newest version holds")
        codec = gathered.codec
        content = gathered.content = put_together(
            files, versions, codec, gathered.catalog, hint, latest.errors(), lambda: latest.last_sound(versions[0])
        )
        gathered.values = {codec.decode(key, ""): value for key, value in content.entries.items()}
        gathered.origins["versions"] = len(gathered.values)
        gathered.notes += content.notes + content.unmended
        gathered.doubtful |= dict.fromkeys(content.stale, "as an older version has it") | content.doubtful
    gathered.missing = _missing(gathered, hint, expired_before(former))
    where = _suspect(files, gathered)
    if where.ranges:
        progress.phase("looking through what nothing points to")
        _take_leftovers(Leftovers(files, versions, sizes_of(gathered.catalog)), where, gathered)
    return gathered


def _report(files: RepairFiles, gathered: _NewCatalog, destination: str) -> SalvageReport:
    content = gathered.content
    return SalvageReport(
        source=files.store.uri,
        destination=destination,
        from_version=gathered.versions[-1] if gathered.versions else None,
        objects=len(gathered.values),
        origins=gathered.origins,
        lost=tuple(sorted({*content.lost} - gathered.values.keys(), key=name_order)),
        lost_ranges=tuple(content.lost_ranges),
        missing_versions=gathered.missing,
        unreadable=tuple(sorted((path, flaw.reason) for path, flaw in files.bad.items())),
        doubtful=tuple(sorted(gathered.doubtful.items(), key=lambda pair: name_order(pair[0]))),
        notes=tuple(gathered.notes),
    )


def salvage_source(store: Store) -> RepairSource | None:
    """Return the source from which a salvage wrote this catalog. None if no salvage wrote it."""
    try:
        actions = Snapshot(store, read_root(store, 0)).actions()
    except (VersionNotFound, Damaged):
        return None
    repairs = (action.parse_payload(RepairDef) for action in actions if action.type == ActionType.CATALOG_REPAIR)
    repair = next((repair for repair in repairs if repair.source), None)
    if repair is None:
        return None
    return RepairSource(repair.source, repair.source_version if repair.HasField("source_version") else None)


def check_free(dest: Store, source: str) -> None:
    """Raise LocationNotEmpty unless the location is free. Files of an interrupted salvage of the same catalog are
    allowed.
    """
    begun = False
    for file in dest.list("ops/"):
        begun = file.path == SALVAGE_NOTE and dest.read(SALVAGE_NOTE) == _note(source)
        if not begun:
            raise _not_empty(dest, file.path)
    for file in dest.list():
        kind = file_kind(file.path)
        if kind is FileKind.ROOT or kind is FileKind.HINT:
            raise LocationNotEmpty(f"{dest.uri} holds a catalog already")
        left_behind = file.path == SALVAGE_NOTE or kind in (FileKind.NODE, FileKind.DEFINITION)
        if not (left_behind and begun):
            raise _not_empty(dest, file.path)


def _not_empty(dest: Store, path: str) -> LocationNotEmpty:
    return LocationNotEmpty(f"{dest.uri} is not empty: it holds {path!a}, for example")


def _note(source: str) -> bytes:
    return (json.dumps({"format": 1, "source": source}) + "\n").encode()


def salvaged_from(store: Store) -> str | None:
    """Return the source of a salvage that was begun at this location, or None."""
    try:
        return str(json.loads(store.read(SALVAGE_NOTE))["source"])
    except (PathMissing, ValueError, KeyError, TypeError, RecursionError):
        return None


# What to start from


def _versions(store: Store) -> list[int]:
    try:
        return existing_versions(store)
    except Refused:
        return []
    except CatalogNotFound:
        raise CatalogNotFound(f"there are no files of a catalog at {store.uri}", hint="check the location") from None


def _missing(gathered: _NewCatalog, hint: int | None, oldest: int) -> tuple[int, ...]:
    """Return the versions that certainly existed: gaps, and versions up to the hint beyond the last root, unless all
    were recovered.
    """
    versions, content = gathered.versions, gathered.content
    if not versions:
        return () if hint is None else (hint,)
    missing, count = missing_versions([version for version in versions if version >= oldest], MOST_MISSING)
    if count > MOST_MISSING:
        gathered.notes.append(f"{count:,} versions are missing between others, and {MOST_MISSING:,} of them are named")
    has_all = content.brought_back and not content.lost_ranges
    # a hint far ahead is garbage that happens to be a number
    if hint is not None and versions[-1] < hint <= versions[-1] + NEAR and not has_all:
        missing += range(versions[-1] + 1, hint + 1)
    return tuple(missing)


def _catalog(files: RepairFiles, versions: Sequence[int], latest: LatestVersion | None) -> tuple[CatalogDef, list[str]]:
    """Return the former definition of the catalog, as far as it is known, and notes about it."""
    notes = [] if latest is None else [f"left out: {stray.message}" for stray in stray_findings(latest.chain)]
    former = newest_catalog(files, versions, latest) if latest is not None else None
    definition = former.definition if former is not None else left_definition(files)
    if definition is None:
        sizes = next((root.sizes for root in map(files.root, reversed(versions)) if root.sizes is not None), None)
        definition = CatalogDef(
            id=new_uuid(),
            major_version=MAJOR_VERSION,
            order=sizes.order if sizes else 128,
            namespace_name_max_size_bytes=sizes.namespace if sizes else 100,
            table_name_max_size_bytes=sizes.table if sizes else 100,
            view_name_max_size_bytes=sizes.view if sizes else 100,
            node_file_max_size_bytes=1_048_576,
            txn_ttl_millis=3 * DAY_MILLIS,
        )
        notes.append("the catalog definition is lost: the new catalog has another id and no properties")
    elif former is None or not former.exact:
        notes.append("the catalog definition is an older one")
    check_supported(definition, "the catalog definition")
    if definition.exported_snapshots:
        notes.append("exports that are no longer recorded: " + ", ".join(sorted(definition.exported_snapshots)))
    return definition, notes


def left_definition(files: RepairFiles) -> CatalogDef | None:
    """Return the newest catalog definition in the store that can be read, even if no version names it."""
    listed = sorted(files.store.list("def/catalog/"), key=lambda file: file.modified_at_millis, reverse=True)
    for path, data in files.read_all(file.path for file in listed):
        definition = files.parse(Kind.CATALOG, path, data)
        if isinstance(definition, CatalogDef):
            return definition
    return None


# What nothing points to


def _suspect(files: RepairFiles, gathered: _NewCatalog) -> Suspect:
    versions, missing = gathered.versions, gathered.missing
    if not versions:
        return Suspect((("", None),), nameless=True)
    if missing and missing[-1] > versions[-1]:
        # the lost versions' files are younger than the last existing version
        return Suspect((("", None),), files.root(versions[-1]).created_at_millis, nameless=True)
    return suspect(files, gathered.codec, gathered.content)


def _take_leftovers(leftovers: Leftovers, where: Suspect, gathered: _NewCatalog) -> None:
    for left in leftovers.objects(gathered.values, where, unnamed=True):
        gathered.values[left.name] = left.path
        gathered.origins[left.origin] += 1
        gathered.doubtful[left.name] = left.doubt
    for namespace, content in missing_namespaces(gathered.values):
        gathered.values[namespace] = content
        gathered.content.recreated.append(namespace)
        gathered.notes.append(f"namespace {namespace}: created again, for the tables or views in it")


# The new catalog


def _write(
    files: RepairFiles, dest: Store, clock: Clock, author: Author, gathered: _NewCatalog, report: SalvageReport
) -> None:
    check_exclusive_create(dest)
    _create(dest, {SALVAGE_NOTE: _note(files.store.uri)})
    codec, values = gathered.codec, gathered.values
    entries = {codec.encode(name): value for name, value in values.items()}
    names = {codec.encode(name): name for name, value in values.items() if isinstance(value, bytes)}
    kinds = {value: name.kind for name, value in values.items() if isinstance(value, str)}
    paths = list(kinds)
    for at in range(0, len(paths), AT_ONCE):
        copied = {}
        for path, data in files.read_all(paths[at : at + AT_ONCE]):
            # a definition without a digest gets one; a change since the first read is an error
            definition = files.parse(kinds[path], path, data)
            if isinstance(definition, Flaw):
                reason = f"it was read before, and now: {definition.reason}"
                raise Damaged(definition.code, path, reason, hint="run it again")
            copied[path] = definitions.encode(definitions.body(definition), path)
        _create(dest, copied)
    lost = [codec.encode(name) for name in report.lost]
    where = "leftover files" if report.from_version is None else f"v{report.from_version}"
    description = f"salvaged from {where} of {report.source}"
    built, source = Built(dict(sorted(entries.items())), names), RepairSource(report.source, report.from_version)
    repair = Repair(-1, built, gathered.catalog, 0, description, lost, source)
    try:
        create_repaired(dest, clock, repair, author)
    except CommitConflict:
        raise LocationNotEmpty(f"{dest.uri} holds a catalog by now") from None


def _create(dest: Store, files: dict[str, bytes]) -> None:
    try:
        dest.create_many(files)
    except (OutcomeUnknown, PathTaken) as error:
        raise StorageFailed(f"{error.message}; no catalog was made") from error
