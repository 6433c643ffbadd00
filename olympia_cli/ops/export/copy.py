"""Copying one version to another store: files that stand there already are left alone."""

from __future__ import annotations

from collections.abc import Container
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from types import TracebackType

from olympia_cli.catalog.protection import without_protection
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged, OlympiaError, OutcomeUnknown, PathTaken, StorageFailed
from olympia_cli.format import definitions
from olympia_cli.format.node_file import decode_action_rows, decode_root, encode_root
from olympia_cli.format.paths import parse_root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.ops.export.checks import Problem, copy_failure
from olympia_cli.ops.export.note import Note, resume_words
from olympia_cli.ops.export.walk import Walk, sound
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk.reach import path_digest
from olympia_cli.storage.protocol import Store

FILES_AT_ONCE = 512
BYTES_AT_ONCE = 16 * 2**20


@dataclass(frozen=True, slots=True)
class Counted:
    """So many files with so many bytes."""

    files: int = 0
    bytes: int = 0

    def plus(self, size: int) -> Counted:
        return Counted(self.files + 1, self.bytes + size)

    def __add__(self, other: Counted) -> Counted:
        return Counted(self.files + other.files, self.bytes + other.bytes)


def own_definition(definition: CatalogDef) -> CatalogDef | None:
    """The definition of a full export where it cannot be the catalog's own; None where it can.

    A catalog of its own has no exports, no quarantine and no past: what they name is not there. Everything else stays.
    """
    own = without_protection(definition)
    return None if own == definition else own


def own_definition_file(snapshot: Snapshot, path: str) -> bytes:
    """That definition as the file at a path."""
    own = own_definition(snapshot.definition)
    assert own is not None
    return definitions.encode(definitions.body(own), path)


def exported_root(snapshot: Snapshot, note: Note) -> bytes:
    """The root as the export has it: the version's own, or one that differs in where its definition is."""
    file = snapshot.file
    if note.definition is None:
        return file.data
    root = replace(snapshot.root, catalog_def=note.definition, sizes=snapshot.sizes)
    return encode_root(root, decode_action_rows(file.data, file.path))


def same_root(one: bytes, other: bytes, path: str) -> bool:
    """Whether two files hold the same root, whatever the Arrow library made of it."""
    if one == other:
        return True
    try:
        rows = [decode_action_rows(data, path) for data in (one, other)]
        return decode_root(one, path) == decode_root(other, path) and rows[0] == rows[1]
    except Damaged:
        return False


def copy_files(snapshot: Snapshot, note: Note, dest: Store, there: Container[bytes], progress: Progress) -> int:
    """Copy nodes and definitions; how many files the export has, its root not counted.

    Every file of the version is read, those included that stay shared: all of it must be whole. `there` holds digests
    of the paths that the destination has already.
    """
    store, scope = snapshot.store, note.scope

    def skip(path: str) -> bool:
        return path_digest(path) in there

    count = 0
    replaced = None if note.definition is None else snapshot.root.catalog_def
    walk = Walk(snapshot.file.path, snapshot.root, scope, lambda paths, copied: store.read_many(paths), skip=skip)
    with _Writer(dest, note) as writer:
        for seen in sound(walk):
            progress.advance()
            if seen.copied and seen.path != replaced:
                count += 1
                if not skip(seen.path):
                    writer.add(seen.path, seen.data)
        if note.definition is not None:
            count += 1
            if not skip(note.definition):
                writer.add(note.definition, own_definition_file(snapshot, note.definition))
    return count


def check_copy(path: str, data: bytes, note: Note, dest: Store, expected: int | None, progress: Progress) -> Counted:
    """Read back all that the export's root leads to and that was copied; Damaged when any of it is not whole."""

    def failure(path: str, problem: Problem) -> Damaged:
        return copy_failure(dest.uri, path, problem)

    root = decode_root(data, path)
    counted = Counted().plus(len(data))
    walk = Walk(path, root, note.scope, lambda paths, copied: dest.read_many(paths), copied_only=True)
    for seen in sound(walk, failure):
        counted = counted.plus(len(seen.data))
        progress.advance()
    if expected is not None:
        check_number(counted.files, expected + 1, dest.uri)
    return counted


def check_number(files: int, expected: int, dest: str) -> None:
    """Raise Damaged unless as many files were read back as were to be copied."""
    if files != expected:
        raise Damaged(
            "", dest, f"the copy has {files:,} files, and {expected:,} were to be copied", hint="resume the export"
        )


def check_alone(dest: Store, version: int) -> None:
    """Raise unless the destination has no versions before this one: another process would have made them."""
    for file in dest.list("vn/"):
        found = parse_root_path(file.path)
        if found is not None and found < version:
            raise PathTaken(
                f"another process wrote version {found} to {dest.uri} meanwhile",
                hint="nothing was recorded; export to a place of its own",
            )


class _Writer:
    """Writes in the background what is given to it, in batches, while the next files are read."""

    def __init__(self, dest: Store, note: Note) -> None:
        self._dest = dest
        self._note = note
        self._files: dict[str, bytes] = {}
        self._bytes = 0
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="export")
        self._under_way: Future[None] | None = None

    def add(self, path: str, data: bytes) -> None:
        self._files[path] = data
        self._bytes += len(data)
        if len(self._files) >= FILES_AT_ONCE or self._bytes >= BYTES_AT_ONCE:
            self._send()

    def _send(self) -> None:
        self._wait()
        files, self._files, self._bytes = self._files, {}, 0
        self._under_way = self._pool.submit(create_all, self._dest, files, self._note)

    def _wait(self) -> None:
        if self._under_way is not None:
            self._under_way.result()
            self._under_way = None

    def __enter__(self) -> _Writer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                if self._files:
                    self._send()
                self._wait()
        finally:
            self._pool.shutdown(wait=True)


def create_all(dest: Store, files: dict[str, bytes], note: Note) -> None:
    """Create files at the destination; those that stand there with the same content are fine."""
    try:
        dest.create_many(files)
    except (PathTaken, OutcomeUnknown) as error:
        raise not_created(error, note, dest.uri) from error


def not_created(error: PathTaken | OutcomeUnknown, note: Note, dest: str) -> OlympiaError:
    """What it means for an export that a file could not be created, or may not have been."""
    if isinstance(error, PathTaken):
        return PathTaken(
            f"another process writes to the destination: {error.message}",
            hint="nothing was recorded; export to a place of its own",
        )
    return StorageFailed(
        f"{error.message}; the export is unfinished", hint=f"go on with: {resume_words(note.name, dest)}"
    )
