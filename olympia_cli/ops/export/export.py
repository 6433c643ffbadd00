"""Create exports of a version at another location, and resume interrupted ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS
from olympia_cli.catalog.references import at_version
from olympia_cli.catalog.replay import check_kept
from olympia_cli.catalog.retained import root_uri, without_protection
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import (
    CommitConflict,
    Damaged,
    ExportExists,
    ExportNotFound,
    InvalidOption,
    LocationNotEmpty,
    OutcomeUnknown,
    PathMissing,
    PathTaken,
    StorageFailed,
    TransactionExpired,
    command_words,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.codec import decode_action_rows, decode_root, encode_root
from olympia_cli.format.paths import (
    EXPORT_NOTE,
    LATEST,
    OLDEST,
    FileKind,
    file_kind,
    new_definition_path,
    new_node_path,
)
from olympia_cli.format.pb.actions_pb2 import ActionType, ExportDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, Reference, check_export_name, plural, time_text
from olympia_cli.ops.export.files import (
    CopyFiles,
    FileCount,
    Mode,
    Note,
    Scope,
    create_all,
    not_whole,
    read_note,
    resume_words,
)
from olympia_cli.ops.export.records import check_alone, check_apart, check_empty, note_beginning, note_end
from olympia_cli.ops.export.verify import ExportEngine, local_engine, verify_export
from olympia_cli.ops.fsck import (
    Chain,
    ChainRoot,
    Engine,
    errors_of,
    examine_version,
    list_versions,
    open_chain,
    read_hint,
)
from olympia_cli.ops.last_runs import LAST_EXPORT, leave_note
from olympia_cli.ops.progress import SILENT, Progress, Within
from olympia_cli.ops.walk import Files, failures_pass
from olympia_cli.storage.probe import check_exclusive_create
from olympia_cli.storage.protocol import Store

# The files that an export does not copy unchanged: its root, and sometimes its catalog definition.


def own_definition(definition: CatalogDef) -> CatalogDef | None:
    """Return the definition for a full export, or None if the catalog's definition can be copied unchanged.

    A full export has no exports, no quarantine and no earlier versions, so the definition must not name them.
    """
    own = without_protection(definition)
    return None if own == definition else own


def own_definition_file(snapshot: Snapshot, path: str) -> bytes:
    """Return the encoded definition of `own_definition` for this path."""
    own = own_definition(snapshot.definition)
    assert own is not None
    return definitions.encode(definitions.body(own), path)


def exported_root(snapshot: Snapshot, note: Note) -> bytes:
    """Return the root of the export: the version's root, or one with a different path of the catalog definition."""
    file = snapshot.file
    if note.definition is None:
        return file.data
    root = replace(snapshot.root, catalog_def=note.definition, sizes=snapshot.sizes)
    return encode_root(root, decode_action_rows(file.data, file.path))


def same_root(ours: bytes, theirs: bytes, path: str) -> bool:
    """Return whether two files hold the same root. The files may differ in their Arrow encoding."""
    if ours == theirs:
        return True
    try:
        rows = [decode_action_rows(data, path) for data in (ours, theirs)]
        return decode_root(ours, path) == decode_root(theirs, path) and rows[0] == rows[1]
    except Damaged:
        return False


# Check with fsck that a version is sound, before any kind of export completes.


def read_whole(catalog: Catalog, latest: Snapshot, snapshot: Snapshot, files: Files, engine: Engine) -> None:
    """Read all files of a version through `files`. Raise Damaged if fsck finds the version damaged."""
    file = snapshot.file
    with failures_pass():
        chain = _chain(latest)
        chain.ahead = {file.version: ChainRoot(file.version, file.path, file.data, snapshot.root, None)}
        trees, verdict = examine_version(files, chain, file.version, engine)
    newer = {mark.path: mark.flaw for mark in trees.graph.marks if mark.flaw.newer}
    for error in errors_of(verdict):
        # the version may have been expired in the meantime
        latest = catalog.snapshot()
        check_kept(file.version, latest.definition)
        if error.path in newer:
            raise newer[error.path].error(error.path)
        damage = Damaged(error.code, error.path, error.message)
        damage.advice = "nothing was recorded; export a sound version, and check the damage of this one"
        if file.version != latest.version:
            damage.command = (*damage.command, "--at", f"v{file.version}")
        raise damage


def _chain(latest: Snapshot) -> Chain:
    """Return the versions up to the latest, from a listing.

    fsck needs older versions too: versions in quarantine help to find the catalog definition, and logs tell which files
    were written. A reader that walks back from the latest stops at a gap.
    """
    files, newest = Files(latest.store), latest.version
    listed, _ = list_versions(latest.store)
    # a listing may lag behind the open version
    versions = sorted({newest, *(version for version in listed if version < newest)})
    chain, _ = open_chain(files, versions, latest.file.width, read_hint(files, OLDEST))
    # the export's definition is read like its other files
    chain.catalogs = {}
    return chain


@dataclass(frozen=True, slots=True)
class Exported:
    """A complete and recorded export. `version` is the catalog's version with the record."""

    note: Note
    location: str
    count: FileCount
    version: int


def describe_exported(export: Exported) -> dict[str, Any]:
    """Return the output of `export create` and `export resume`."""
    note = export.note
    return {
        "name": note.name,
        "mode": note.scope.mode.value,
        "at_version": note.version,
        "location": export.location,
        "root": root_uri(export.location, note.version),
        "files": export.count.files,
        "bytes": export.count.bytes,
        "expires_at": None if note.expires_at_millis is None else time_text(note.expires_at_millis),
        "version": export.version,
    }


def create_export(
    catalog: Catalog,
    dest: Store,
    name: str,
    scope: Scope,
    *,
    at: Reference | None = None,
    expires_at_millis: int | None = None,
    message: str = "",
    retry_for: float = 60.0,
    progress: Progress = SILENT,
    engine: ExportEngine = local_engine,
) -> Exported:
    """Export a version. An interrupted export is never recorded, and never opens as a catalog, by this order:

    1. Check all arguments before the first write.
    2. Create the note at the destination, exclusively: the destination now belongs to this export. Write a note in the
       catalog, which only `export ls` and `status` use.
    3. Copy nodes and definitions in parallel, and read all copies back. Then list the destination in this process, as
       other machines may have written to another location.
    4. Write the hints, and last the root: a full export now opens as a catalog.
    5. Create the pin, if files are shared, and commit the record. Delete the note in the catalog.
    """
    check_export_name(name)
    catalog = catalog.anew()
    latest = catalog.begin().base
    if name in latest.definition.exported_snapshots:
        raise ExportExists(f"there is an export {name} already")
    if expires_at_millis is not None and expires_at_millis <= catalog.clock.now_millis():
        raise InvalidOption("the export would expire before it is complete", hint="choose a later time")
    check_apart(catalog.store.uri, dest.uri)
    snapshot = latest if at is None else catalog.snapshot(at)
    check_kept(snapshot.version, latest.definition)
    check_empty(dest)
    check_exclusive_create(dest)
    own = own_definition(snapshot.definition) if scope.mode is Mode.FULL else None
    note = Note(
        catalog=snapshot.definition.id,
        source=catalog.store.uri,
        name=name,
        version=snapshot.version,
        scope=scope,
        expires_at_millis=expires_at_millis,
        definition=None if own is None else new_definition_path(Kind.CATALOG, None),
    )
    try:
        dest.create(EXPORT_NOTE, note.encode())
    except PathTaken:
        raise LocationNotEmpty(f"another process exports to {dest.uri}") from None
    note_beginning(catalog.store, catalog.clock, note, dest.uri)
    copying = _Copying(catalog, latest, snapshot, dest, note, True, progress, engine)
    return copying.finish(message, retry_for)


def resume_export(
    catalog: Catalog,
    dest: Store,
    name: str,
    *,
    message: str = "",
    retry_for: float = 60.0,
    progress: Progress = SILENT,
    engine: ExportEngine = local_engine,
) -> Exported:
    """Resume an interrupted export: copy only the missing files. An export that is already recorded is verified
    instead.
    """
    check_export_name(name)
    note = read_note(dest)
    catalog = catalog.anew()
    latest = catalog.begin().base
    if note is None:
        raise ExportNotFound(
            f"there is no export at {dest.uri} to resume",
            hint="create one",
            command=command_words("export", "create", "--dest", dest.uri, names=[name]),
        )
    if note.name != name or note.catalog != latest.definition.id:
        whose = f"the export {note.name}" if note.catalog == latest.definition.id else "an export of another catalog"
        raise LocationNotEmpty(f"{dest.uri} holds {whose}, not {name}", hint="pass the location of this export")
    if name in latest.definition.exported_snapshots:
        if latest.definition.exported_snapshots[name] != root_uri(dest.uri, note.version):
            raise ExportExists(f"there is an export {name} at another location already")
        source = catalog.store if note.scope.shares else None
        verified = verify_export(dest, note, source, progress, engine)
        for error in verified.errors:
            if error.code == "F503":
                raise Damaged(error.code, error.path, error.message)
            # a recorded export was sound once, so nothing is written to it again
            words = command_words("export", "drop", names=[name])
            raise not_whole(
                dest.uri, error.path, error.code, error.message, "export again, and drop this export", words
            )
        note_end(catalog.store, note)
        return Exported(note, dest.uri, verified.copied, latest.version)
    if note.expires_at_millis is not None and note.expires_at_millis <= catalog.clock.now_millis():
        raise InvalidOption("the export has expired before it was complete", hint="export again to another location")
    check_kept(note.version, latest.definition)
    snapshot = at_version(note.version, latest)
    copying = _Copying(catalog, latest, snapshot, dest, note, False, progress, engine)
    return copying.finish(message, retry_for)


@dataclass(frozen=True, slots=True)
class _Copying:
    """An export whose note is written. If the destination is not `fresh`, it may have some of the files."""

    catalog: Catalog
    latest: Snapshot
    snapshot: Snapshot
    dest: Store
    note: Note
    fresh: bool
    progress: Progress
    engine: ExportEngine

    def finish(self, message: str, retry_for: float) -> Exported:
        """Steps 3 to 5."""
        self.progress.phase("copying")
        count = self._copy()
        self._compare(count)
        data = exported_root(self.snapshot, self.note)
        self._write_root(data)
        root = self.snapshot.file.data
        version = _record(self.catalog, self.dest, self.note, root, message, retry_for)
        note_end(self.catalog.store, self.note)
        export = Exported(self.note, self.dest.uri, count + FileCount(1, len(data)), version)
        leave_note(self.catalog.store, LAST_EXPORT, self.catalog.clock, describe_exported(export))
        return export

    def _copy(self) -> FileCount:
        """Step 3: copy, and return the number of copied files. Raise Damaged if fsck finds the version damaged."""
        note = self.note
        replaced = None if note.definition is None else self.snapshot.root.catalog_def
        store, fresh = self.catalog.store, self.fresh
        files = CopyFiles(note.scope, store, self.dest, fresh=fresh, replaced=replaced, progress=Within(self.progress))
        with self._creating():
            read_whole(self.catalog, self.latest, self.snapshot, files, self.engine(files))
        if note.definition is None:
            return files.copied
        data = own_definition_file(self.snapshot, note.definition)
        with self._creating():
            create_all(self.dest, {note.definition: data}, () if fresh else [note.definition])
        return files.copied + FileCount.of(note.definition, len(data))

    def _compare(self, copied: FileCount) -> None:
        """End of step 3: compare names and sizes of the files at the destination with those of the copied files.

        If there are more files and the root is there, others may have committed to the export since; then verify it
        instead.
        """
        note, dest = self.note, self.dest
        self.progress.phase("comparing")
        there = FileCount()
        for file in dest.list():
            if file_kind(file.path) in (FileKind.NODE, FileKind.DEFINITION):
                there += FileCount.of(file.path, file.size)
        if there.is_of_same_files(copied):
            return
        reason = f"the export copied {plural(copied.files, 'file')}, and the destination has {there.files:,}"
        if there.files > copied.files:
            if not dest.exists(self.snapshot.file.path):
                raise _written_by_others(reason)
            source = self.catalog.store if note.scope.shares else None
            if not verify_export(dest, note, source, self.progress).damaged:
                return
        if there.files == copied.files:
            reason = "its files are not those that were copied"
        hint = f"nothing was recorded; resume with: {resume_words(note.name, dest.uri)}"
        raise Damaged("", dest.uri, f"the copy is damaged: {reason}", hint=hint)

    def _write_root(self, data: bytes) -> None:
        """Step 4: write the root. An existing root stays, as others may have committed on it since."""
        dest, version, path = self.dest, self.note.version, self.snapshot.file.path
        check_alone(dest, version)
        try:
            if same_root(dest.read(path), data, path):
                return
        except PathMissing:
            pass
        if self.note.scope.mode is Mode.FULL:
            for hint in (OLDEST, LATEST):
                dest.overwrite(hint, str(version).encode())
        with self._creating():
            create_all(dest, {path: data})
        check_alone(dest, version)

    @contextmanager
    def _creating(self) -> Iterator[None]:
        """Convert the errors of creating files to errors of the export."""
        try:
            yield
        except PathTaken as error:
            raise _written_by_others(error.message) from error
        except OutcomeUnknown as error:
            hint = f"resume with: {resume_words(self.note.name, self.dest.uri)}"
            raise StorageFailed(f"{error.message}; the export is unfinished", hint=hint) from error


def _written_by_others(reason: str) -> PathTaken:
    message = f"another process writes to the destination: {reason}"
    return PathTaken(message, hint="nothing was recorded; export to an empty location")


def _record(catalog: Catalog, dest: Store, note: Note, root: bytes, message: str, retry_for: float) -> int:
    """Step 5: commit the record, and return its version."""
    transaction = catalog.begin()
    uri = root_uri(dest.uri, note.version)
    exports = transaction.base.definition.exported_snapshots
    if note.name in exports:
        if exports[note.name] == uri:
            return transaction.base.version
        raise ExportExists(f"there is an export {note.name} at another location already")
    payload = ExportDef(name=note.name, location=uri, mode=note.scope.mode, version=note.version)
    payload.expires_at_millis = note.expires_at_millis or 0
    if note.scope.shares:
        # until the commit only its age protects the pin from expire, like any file without a reference
        payload.pin = new_node_path()
        catalog.store.create(payload.pin, root)
        latest = transaction.began_at_millis + HALF_AN_HOUR_MILLIS
        transaction.expires_at_millis = min(transaction.expires_at_millis, latest)
    transaction.do(Action(ActionType.CATALOG_EXPORT, None, b"", payload.SerializeToString()))
    again = f"the copy is complete, resume with: {resume_words(note.name, dest.uri)}"
    try:
        return catalog.commit(transaction, message, retry_for=retry_for).version
    except TransactionExpired as error:
        raise TransactionExpired(error.message, hint=again) from error
    except CommitConflict as error:
        raise CommitConflict(error.message, hint=again) from error
