"""The exports of a catalog: list the recorded and the unfinished ones, and drop their records."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.retained import ExportRecord, location_of, read_exports, root_uri
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import (
    Damaged,
    ExportNotFound,
    InvalidLocation,
    LocationNotEmpty,
    OlympiaError,
    PartlyDone,
    PathMissing,
    PathTaken,
    Refused,
    quoted,
)
from olympia_cli.format.actions import Action
from olympia_cli.format.paths import (
    EXPORT_NOTE,
    LATEST,
    MAX_VERSION,
    OLDEST,
    UNFINISHED,
    WIDTH,
    parse_root_path,
    root_path,
)
from olympia_cli.format.pb.actions_pb2 import ActionType, ExportDef
from olympia_cli.masking import masked
from olympia_cli.names import time_text
from olympia_cli.ops.export.files import FileCount, Mode, Note, read_note, resume_words
from olympia_cli.ops.export.verify import note_of
from olympia_cli.ops.last_runs import leave_note, read_notes
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk import NodeRules, Reach
from olympia_cli.storage.protocol import FileInfo, Store

# Checks of the destination of an export.


def check_apart(source: str, dest: str) -> None:
    """Raise InvalidLocation if the catalog and the destination contain each other."""
    if "://" not in source and "://" not in dest:
        # only the system can compare paths: symbolic links, bind mounts, case-insensitive filesystems
        inside, around = path_below(dest, source) is not None, path_below(source, dest) is not None
    else:
        # no check for a catalog below the destination: `check_empty` finds its files
        inside, around = f"{dest}/".startswith(f"{source.rstrip('/')}/") and dest != source, False
    if inside or around:
        what = "lies inside the catalog" if inside else "holds the catalog"
        raise InvalidLocation(f"the destination {dest} {what} {source}", hint="choose a location outside the catalog")


def is_same_place(one: str, other: str) -> bool:
    """Return whether two URIs of stores name the same location."""
    local = "://" not in one and "://" not in other
    return one == other or (local and path_below(one, other) == ".")


def path_below(path: str, folder: str) -> str | None:
    """Return the path relative to a folder, `.` for the folder itself, or None if the path is outside."""
    real = Path(os.path.realpath(path))
    for here in (real, *real.parents):
        # a path that does not exist has no folder to compare
        with suppress(OSError):
            if os.path.samefile(here, folder):
                return str(real.relative_to(here))
    return None


def check_empty(dest: Store) -> None:
    """Raise LocationNotEmpty if the destination has files. If it holds an export, advise how to resume that."""
    for file in dest.list():
        note = read_note(dest)
        if note is not None:
            raise LocationNotEmpty(
                f"{dest.uri} holds the export {note.name!a} of version {note.version}",
                hint=f"choose an empty folder or prefix, or resume with: {resume_words(note.name, dest.uri)}",
            )
        raise LocationNotEmpty(f"{dest.uri} is not empty: it holds {file.path!a}")


def check_alone(dest: Store, version: int) -> None:
    """Raise PathTaken if the destination has versions before this one, which only another process can have written."""
    for file in dest.list("vn/"):
        earlier = parse_root_path(file.path)
        if earlier is not None and earlier < version:
            raise PathTaken(
                f"another process wrote version {earlier} to {dest.uri} meanwhile",
                hint="nothing was recorded; export to an empty location",
            )


# The exports of a catalog as plain values: the recorded ones, and the unfinished ones.
#
# The catalog holds a note about each unfinished export, from the creation of the note at the destination until the
# record. Errors of these notes are ignored.

MOST = 1000
"""The largest number of notes that is read."""


def list_exports(latest: Snapshot, now_millis: int) -> Iterator[dict[str, Any]]:
    """Yield every recorded export, by name. One with an unreadable record has the state `malformed`."""
    definition = latest.definition
    for name, record in read_exports(definition).items():
        root = definition.exported_snapshots.get(name, "")
        if isinstance(record, str):
            values: dict[str, Any] = {"at_version": None, "mode": None, "expires_at": None, "pin": None}
            state = "malformed"
        else:
            expires = record.expires_at_millis
            values = {
                "at_version": record.version,
                "mode": record.mode,
                "expires_at": None if expires is None else time_text(expires),
                "pin": record.pin,
            }
            state = "expired" if record.expired(now_millis) else "current"
        yield {"name": name, **values, "state": state, "location": masked(location_of(root)), "root": masked(root)}


def note_beginning(catalog: Store, clock: Clock, note: Note, location: str) -> None:
    """Write the catalog's note of an export that has begun."""
    values = {"name": note.name, "at_version": note.version, "mode": note.scope.mode.value, "location": location}
    leave_note(catalog, _path(note), clock, {"begun_at": time_text(clock.now_millis()), **values})


def note_end(catalog: Store, note: Note) -> None:
    """Delete the catalog's note of an export that is recorded."""
    with suppress(OlympiaError):
        catalog.delete_many([_path(note)])


def _path(note: Note) -> str:
    return f"{UNFINISHED}{note.id}.json"


def unfinished_exports(latest: Snapshot) -> list[dict[str, Any]]:
    """Return the exports that have begun and are not recorded, the oldest first."""
    recorded = set(latest.definition.exported_snapshots.items())
    found = (values for _, values in _notes(latest.store))
    rows = [
        {**row, "location": masked(row["location"])}
        for row in found
        if (row["name"], root_uri(row["location"], row["at_version"])) not in recorded
    ]
    return sorted(rows, key=lambda row: (row["begun_at"], row["name"]))


def forget_unfinished(latest: Snapshot, name: str) -> None:
    """Delete the catalog's notes of all exports of this name."""
    latest.store.delete_many([path for path, values in _notes(latest.store) if values["name"] == name])


def _notes(store: Store) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the readable notes with their paths."""
    paths = [file.path for file in islice(store.list(UNFINISHED), MOST)]
    for path, note in zip(paths, read_notes(store, *paths), strict=True):
        values = {key: (note or {}).get(key) for key in ("name", "at_version", "mode", "location", "begun_at")}
        version = values.pop("at_version")
        is_version = type(version) is int and 0 <= version <= MAX_VERSION
        if is_version and all(isinstance(value, str) for value in values.values()):
            yield path, {"name": values["name"], "at_version": version, **values}


# Drop the record of an export, and on request delete its files, if the destination holds no other files.


@dataclass(frozen=True, slots=True)
class Deletion:
    """The files of a full export, and no others."""

    dest: Store
    version: int
    reach: Reach
    count: FileCount

    def __contains__(self, path: str) -> bool:
        return path in _OWN or path == root_path(self.version) or path in self.reach


_OWN = (LATEST, OLDEST, EXPORT_NOTE)
BY_HAND = "drop it without --delete-files, and delete the files at its location yourself"


def drop_export(catalog: Catalog, name: str, message: str = "", retry_for: float = 60.0) -> int:
    """Drop the record of an export. Return the new version. The next expire frees the files that the export kept."""
    transaction = catalog.begin()
    definition = transaction.base.definition
    exports = read_exports(definition)
    if name not in exports:
        raise ExportNotFound(f"there is no export {quoted(name)}", hint="list the exports", command=("export", "ls"))
    # an unreadable record is dropped as well; its fields only serve the log
    payload = ExportDef(name=name, location=definition.exported_snapshots.get(name, ""), dropped=True)
    if isinstance(record := exports[name], ExportRecord):
        payload.version, payload.mode = record.version, record.mode
    transaction.do(Action(ActionType.CATALOG_EXPORT, None, b"", payload.SerializeToString()))
    version = catalog.commit(transaction, message, retry_for=retry_for).version
    with suppress(OlympiaError):
        forget_unfinished(transaction.base, name)
    return version


def plan_deletion(
    dest: Store, record: ExportRecord, catalog_id: str, source: str, progress: Progress = SILENT
) -> Deletion:
    """Plan the deletion of an export's files. Raise Refused unless the destination holds exactly the files of the
    export.

    `source` is the URI of the catalog. A copy of a catalog has the same id and records, and must not delete the exports
    of the original.
    """
    if record.mode != Mode.FULL:
        said = f"{record.name} is a {record.mode} export: only the files of a full one are deleted"
        raise Refused(said, hint=BY_HAND)
    note = note_of(dest, record)
    if note.catalog != catalog_id or note.name != record.name:
        said = f"the note at {dest.uri} does not name the export {record.name} of this catalog"
        raise Refused(said, hint=BY_HAND)
    if not is_same_place(note.source, source):
        said = f"the catalog at {note.source} made the export {record.name}, and this one is at {source}"
        raise Refused(
            said, hint="drop it without --delete-files, and delete the files once that catalog no longer needs them"
        )
    if is_same_place(dest.uri, source):
        raise Refused(f"the export {record.name} is recorded at the catalog itself", hint=BY_HAND)
    path = root_path(record.version)
    progress.phase("reading the export's files")
    try:
        root = Snapshot(dest, RootFile.of(record.version, WIDTH, dest.read(path)))
        reach = Reach(dest, NodeRules.of(root), progress=progress)
        reach.add([(path, root.file.data)])
    except (Damaged, PathMissing) as error:
        raise Refused(f"the files of the export are unknown: {error.message}", hint=BY_HAND) from None
    plan = Deletion(dest, record.version, reach, FileCount())
    sizes = [file.size for file in _listed(plan)]
    return replace(plan, count=FileCount(len(sizes), sum(sizes)))


def delete_files(plan: Deletion, progress: Progress = SILENT) -> None:
    """Delete the files of a dropped export in this order:

    1. The root and the hints, so that it no longer opens.
    2. The other files.
    3. The note.

    The catalog has no record of the export any more, so every error is PartlyDone and names the location.
    """
    progress.phase("deleting", plan.count.files)
    first, last = [root_path(plan.version), LATEST, OLDEST], [EXPORT_NOTE]
    try:
        # list all files again before the first deletion: another process may have written to the destination since
        paths = [file.path for file in _listed(plan) if file.path not in first and file.path not in last]
        for batch in (first, paths, last):
            plan.dest.delete_many(batch)
            progress.advance(len(batch))
    except OlympiaError as error:
        raise PartlyDone(
            f"the export is dropped, but files are left at {plan.dest.uri}: {error.message}",
            hint="check those files, and delete them yourself once they are unused",
        ) from error


def _listed(plan: Deletion) -> Iterator[FileInfo]:
    for file in plan.dest.list():
        if file.path not in plan:
            raise Refused(
                f"{plan.dest.uri} holds files that the export did not write, such as {file.path!a}",
                hint="the location is in use: drop it without --delete-files",
            )
        yield file
