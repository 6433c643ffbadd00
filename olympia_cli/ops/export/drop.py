"""Forgetting an export; on request, and only where nothing else is with it, deleting its files."""

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
    """All files of a full export, and nothing but these."""

    dest: Store
    version: int
    reach: Reach
    count: FileCount

    def __contains__(self, path: str) -> bool:
        return path in _OWN or path == root_path(self.version) or path in self.reach


_OWN = (LATEST, OLDEST, EXPORT_NOTE)
BY_HAND = "drop it without --delete-files, and delete what lies at its location yourself"


def drop_export(catalog: Catalog, name: str, message: str = "", retry_for: float = 60.0) -> int:
    """Forget an export: the version that no longer records it. What it pinned goes with the next expire."""
    transaction = catalog.begin()
    definition = transaction.base.definition
    exports = read_exports(definition)
    if name not in exports:
        raise ExportNotFound(
            f"there is no export {quoted(name)}", hint="see which exports there are", command=("export", "ls")
        )
    # what the record says is for the log; one that cannot be read is dropped all the same
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
    """What deleting an export's files would delete; Refused unless the place holds just what the export wrote. `source`
    is the URI of the catalog. A copy of a catalog has the same id and records, and must not delete the exports of the
    original."""
    if record.mode != Mode.FULL:
        said = f"{record.name} is a {record.mode} export: only the files of a full one are deleted"
        raise Refused(said, hint=BY_HAND)
    note = note_of(dest, record)
    if note.catalog != catalog_id or note.name != record.name:
        said = f"{dest.uri} does not say that it is the export {record.name} of this catalog"
        raise Refused(said, hint=BY_HAND)
    if not is_same_place(note.source, source):
        said = f"the catalog at {note.source} made the export {record.name}, and this one is at {source}"
        raise Refused(
            said, hint="drop it without --delete-files, and delete the files once that catalog needs them no more"
        )
    if is_same_place(dest.uri, source):
        raise Refused(f"the export {record.name} is recorded at the catalog itself", hint=BY_HAND)
    path = root_path(record.version)
    progress.phase("looking at the export's files")
    try:
        root = Snapshot(dest, RootFile(record.version, WIDTH, dest.read(path)))
        reach = Reach(dest, NodeRules.of(root), progress=progress)
        reach.add([(path, root.file.data)])
    except (Damaged, PathMissing) as error:
        raise Refused(f"it is not known what belongs to the export: {error.message}", hint=BY_HAND) from None
    plan = Deletion(dest, record.version, reach, FileCount())
    sizes = [file.size for file in _listed(plan)]
    return replace(plan, count=FileCount(len(sizes), sum(sizes)))


def delete_files(plan: Deletion, progress: Progress = SILENT) -> None:
    """Delete the files of an export that is dropped: its root first, so that it no longer opens, and the note last.

    Nothing else records it by then, so whatever stops this is PartlyDone, which says where the files are.
    """
    progress.phase("deleting", plan.count.files)
    first, last = [root_path(plan.version), LATEST, OLDEST], [EXPORT_NOTE]
    try:
        # listed in full before anything is deleted: somebody may have begun to use it since
        paths = [file.path for file in _listed(plan) if file.path not in first and file.path not in last]
        for batch in (first, paths, last):
            plan.dest.delete_many(batch)
            progress.advance(len(batch))
    except OlympiaError as error:
        raise PartlyDone(
            f"the export is dropped, but files are left at {plan.dest.uri}: {error.message}",
            hint="look at what is there, and delete it yourself once nobody needs it",
        ) from error


def _listed(plan: Deletion) -> Iterator[FileInfo]:
    for file in plan.dest.list():
        if file.path not in plan:
            raise Refused(
                f"{plan.dest.uri} holds files that the export did not write, such as {file.path!a}",
                hint="somebody uses it: drop it without --delete-files",
            )
        yield file
