"""Drop the record of an export, and on request delete its files, if the destination holds no other files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.exports import ExportRecord, read_exports
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.catalog.versions import RootFile
from olympia_cli.errors import Damaged, ExportNotFound, OlympiaError, PartlyDone, PathMissing, Refused, quoted
from olympia_cli.format.actions import Action
from olympia_cli.format.paths import EXPORT_NOTE, LATEST, OLDEST, WIDTH, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, ExportDef
from olympia_cli.ops.export.destination import is_same_place
from olympia_cli.ops.export.files import FileCount
from olympia_cli.ops.export.listing import forget_unfinished
from olympia_cli.ops.export.note import Mode
from olympia_cli.ops.export.verify import note_of
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.facts import NodeRules
from olympia_cli.ops.walk.reach import Reach
from olympia_cli.storage.protocol import FileInfo, Store


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
        root = Snapshot(dest, RootFile(record.version, WIDTH, dest.read(path)))
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
