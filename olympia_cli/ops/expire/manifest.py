"""Files to mark or delete, and the manifests that name them while they are in quarantine.

A manifest is written once, before its mark is committed. It names the files itself, or, if there are many, names parts,
which are files that do. Parts are written first; a part that no manifest names is ignored. A manifest with a damaged
part counts as damaged.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any, Protocol

from olympia_cli.catalog.retained import QUARANTINE_MILLIS, QuarantineMark, read_quarantine
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged, OlympiaError, PathMissing
from olympia_cli.format.paths import FileKind, check_pointer, file_kind, is_foreign_root, parse_root_path, root_path
from olympia_cli.format.strict_json import read_json
from olympia_cli.names import new_uuid, time_text
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk import batches
from olympia_cli.storage.protocol import FileInfo, ReadMany, Store

FOLDER = "ops/expire/"
FORMAT = 1
IN_PARTS = 2
"""The format of a manifest with parts."""
PART_FILES = 50_000
"""The largest number of files in a part, for some megabytes. A huge manifest without parts would exceed the size that
readers accept.
"""
DELETED_AT_ONCE = 10_000
DELETABLE = (FileKind.ROOT, FileKind.NODE, FileKind.DEFINITION, FileKind.TRANSACTION, FileKind.TEMPORARY)
ROOT, TRANSACTION = FileKind.ROOT.value, FileKind.TRANSACTION.value

_PART = re.compile(rf"({FOLDER}[^./]+)\.[^./]+\.part\.json")
_MANIFEST = "the manifest of an expire"


@dataclass(frozen=True, slots=True)
class Doomed:
    """A file to mark or delete."""

    path: str
    bytes: int
    kind: str


@dataclass(frozen=True, slots=True)
class ManifestPart:
    """A file with some of the names of a manifest."""

    path: str
    files: int


@dataclass(frozen=True, slots=True)
class ExpireManifest:
    path: str
    oldest: int
    former_oldest: int
    files: tuple[Doomed, ...]
    parts: tuple[ManifestPart, ...] = ()
    """The files with the other names."""


def new_manifest_path(now_millis: int) -> str:
    return f"{FOLDER}{now_millis}-{new_uuid()}.json"


def new_part_path(manifest: str) -> str:
    """Return a new path for a part. It begins with the path of its manifest, so the owner is known even without the
    manifest.
    """
    return f"{manifest.removesuffix('.json')}.{new_uuid()}.part.json"


def manifest_of(path: str) -> str | None:
    """Return the path of the manifest of a part, by the part's name. None if the path is not that of a part."""
    match = _PART.fullmatch(path)
    return f"{match[1]}.json" if match and file_kind(path) is FileKind.OPERATION else None


def is_manifest(path: str) -> bool:
    """Return whether the path is that of a manifest or a part. No other file is deleted as a manifest."""
    return path.startswith(FOLDER) and file_kind(path) is FileKind.OPERATION


def encode_manifest(catalog_id: str, manifest: ExpireManifest, created_at: str) -> bytes:
    document: dict[str, Any] = {
        "format": IN_PARTS if manifest.parts else FORMAT,
        "catalog": catalog_id,
        "oldest": manifest.oldest,
        "former_oldest": manifest.former_oldest,
        "created_at": created_at,
    }
    if manifest.parts:
        document["parts"] = [asdict(part) for part in manifest.parts]
    else:
        document["files"] = [asdict(file) for file in manifest.files]
    return _encode(document)


def encode_part(manifest: str, files: Iterable[Doomed]) -> bytes:
    return _encode({"format": IN_PARTS, "manifest": manifest, "files": [asdict(file) for file in files]})


def write_narrowed(store: Store, catalog_id: str, manifest: ExpireManifest, oldest: int, now_millis: int) -> str:
    """Write a manifest with the names of another one, without the roots of versions from `oldest` on. Return its path.

    It still names other files of those versions; a purge keeps every file in use.
    """
    versions = ((file, parse_root_path(file.path)) for file in manifest.files)
    files = tuple(file for file, version in versions if version is None or version < oldest)
    path = new_manifest_path(now_millis)
    parts = _write_parts(store, path, files, PART_FILES) if manifest.parts else ()
    narrowed = ExpireManifest(path, oldest, min(manifest.former_oldest, oldest), files, parts)
    store.create(path, encode_manifest(catalog_id, narrowed, time_text(now_millis)))
    return path


def _write_parts(store: Store, manifest: str, files: Sequence[Doomed], part_files: int) -> tuple[ManifestPart, ...]:
    parts = []
    for first in range(0, len(files), part_files):
        names = files[first : first + part_files]
        parts.append(ManifestPart(new_part_path(manifest), len(names)))
        store.create(parts[-1].path, encode_part(manifest, names))
    return tuple(parts)


def _encode(document: dict[str, Any]) -> bytes:
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def read_manifest(store: Store, path: str) -> ExpireManifest:
    """Read a manifest with its parts. Raise Damaged if one of the files is missing or malformed.

    `check_deletable` must check the names before a deletion.
    """
    manifest = read_head(store, path)
    return replace(manifest, files=named_files(manifest, store.read_many))


def frees_nothing(head: Snapshot, now_millis: int) -> bool:
    """Return whether a purge with the usual grace period frees no space: the quarantine names no file, and its oldest
    root is too young. Unknown counts as no.
    """
    marks = read_quarantine(head.definition)
    try:
        heads = [read_head(head.store, check_pointer(mark.manifest, "")) for mark in marks]
        oldest = head.store.stat(root_path(marks[0].former_oldest)).modified_at_millis if marks else 0
    except OlympiaError:
        return False
    return now_millis - oldest < QUARANTINE_MILLIS and not any(found.files or found.parts for found in heads)


def read_head(store: Store, path: str) -> ExpireManifest:
    """Read a manifest without its parts."""
    try:
        return decode_manifest(store.read(path), path)
    except PathMissing:
        raise Damaged("F906", path, f"{_MANIFEST} is missing") from None


def named_files(manifest: ExpireManifest, read_many: ReadMany) -> tuple[Doomed, ...]:
    """Return all files that a manifest and its parts name."""
    files = list(manifest.files)
    contents = read_many([part.path for part in manifest.parts])
    for part, (_, data) in zip(manifest.parts, contents, strict=True):
        files += decode_part(data, part, manifest.path)
    return tuple(files)


def decode_manifest(data: bytes, path: str) -> ExpireManifest:
    """Decode the manifest file itself."""
    try:
        document: Any = read_json(data)
        if document["format"] not in (FORMAT, IN_PARTS):
            raise ValueError
        files: tuple[Doomed, ...] = ()
        parts: tuple[ManifestPart, ...] = ()
        if document["format"] == IN_PARTS:
            parts = tuple(ManifestPart(str(part["path"]), int(part["files"])) for part in document["parts"])
            if any(manifest_of(part.path) != path for part in parts):
                raise ValueError
        else:
            files = tuple(_doomed(file) for file in document["files"])
        return ExpireManifest(path, int(document["oldest"]), int(document["former_oldest"]), files, parts)
    except (ValueError, KeyError, TypeError):
        raise Damaged("F906", path, f"it is not {_MANIFEST}") from None


def decode_part(data: bytes | OlympiaError, part: ManifestPart, manifest: str) -> tuple[Doomed, ...]:
    """Decode a part, given the data or the error of reading it."""
    if isinstance(data, PathMissing):
        raise Damaged("F906", part.path, f"a part of {_MANIFEST} is missing")
    if isinstance(data, Exception):
        raise data
    try:
        document: Any = read_json(data)
        files = tuple(_doomed(file) for file in document["files"])
        if document["format"] != IN_PARTS or document["manifest"] != manifest or len(files) != part.files:
            raise ValueError
        return files
    except (ValueError, KeyError, TypeError):
        raise Damaged("F906", part.path, f"it is not the part of {_MANIFEST} that was written") from None


def _doomed(entry: Any) -> Doomed:
    path, size, kind = str(entry["path"]), int(entry["bytes"]), str(entry["kind"])
    # other engines accept only valid text, and sizes below 2**63
    path.encode(), kind.encode()
    if not 0 <= size < 2**63:
        raise ValueError
    return Doomed(path, size, kind)


def check_deletable(files: Iterable[Doomed], oldest: int, holder: str) -> None:
    """Raise Damaged unless an expire below `oldest` may delete each file. The kind must match the name, as it decides
    the order of deletion.

    Manifests are read from a store, so their content is not trusted.
    """
    for file in files:
        version = parse_root_path(file.path)
        kind = file_kind(file.path)
        fits = kind in DELETABLE and kind.value == file.kind and not file.path.startswith("def/dtxn/")
        if not fits or is_foreign_root(file.path, version) or (version is not None and version >= oldest):
            raise Damaged(
                "F906",
                holder,
                f"it names a file that an expire never deletes: {file.path[:200]!a}",
                hint="no file of it is deleted; restore the versions in quarantine, and expire again",
                command=("expire", "undo"),
            )


def left_behind(
    listed: Iterable[FileInfo],
    *,
    resting: Collection[str],
    leaving: Collection[str],
    purging: Collection[str],
    old_enough: Callable[[FileInfo], bool],
) -> tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...]]:
    """Return the unfinished manifests, the abandoned manifests, and the parts to delete; see PurgePlan.

    `resting` are the manifests of marks in quarantine, `leaving` those that this purge deletes, `purging` those whose
    purge was committed. A manifest whose purge was committed but which still exists is unfinished. Any other manifest
    without a mark is abandoned: its mark was undone or never committed. A young one is kept, as its mark may be about
    to be committed.

    Parts share the fate of their manifest, by their names, even if the manifest does not name them.
    """
    files = [file for file in listed if file_kind(file.path) is FileKind.OPERATION]
    unfinished = {file.path for file in files} & set(purging) - set(resting)
    going = {*leaving, *unfinished}
    parts, abandoned = [], []
    for file in files:
        manifest = manifest_of(file.path)
        if manifest in going:
            parts.append(file.path)
        elif (manifest or file.path) not in resting and file.path not in unfinished and old_enough(file):
            abandoned.append(file.path)
    return tuple(sorted(unfinished)), tuple(sorted(abandoned)), tuple(sorted(parts))


def unread(error: Damaged) -> str:
    """Return the note for a manifest that cannot be read: the files that only it names are not deleted."""
    return f"{error.message}; the next expire finds again what it named"


# Files to mark or delete, listed in this process, or counted here and listed elsewhere.


@dataclass(frozen=True, slots=True)
class GoingTotals:
    """The number of files of each kind, and their total size."""

    kinds: Mapping[str, int]
    bytes: int

    @property
    def files(self) -> int:
        return sum(self.kinds.values())

    def describe(self) -> dict[str, int]:
        """Return the number of files per kind, with plural names."""
        plurals = {kind.value: f"{kind.value}s" for kind in DELETABLE} | {FileKind.TEMPORARY.value: "temporaries"}
        return {plural: self.kinds.get(kind, 0) for kind, plural in plurals.items()}


class Going(Protocol):
    """Files to mark or delete. The interface hides where they are listed."""

    @property
    def totals(self) -> GoingTotals: ...

    def __iter__(self) -> Iterator[Doomed]:
        """Yield all files. An expire never calls this if there may be too many for one process."""
        ...

    def manifest(self, store: Store, path: str, oldest: int, former_oldest: int) -> ExpireManifest:
        """Return a manifest that names the files. Its parts, if any, are already written; the manifest is not."""
        ...

    def roots(self) -> Iterator[Doomed]:
        """Yield the roots, the oldest first."""
        ...

    def saves(self) -> Iterator[Doomed]:
        """Yield the files of distributed transactions, grouped by transaction."""
        ...

    def delete_others(self, store: Store, below: int, progress: Progress) -> None:
        """Delete all other files. Raise Damaged for a file that a purge below this version must not delete."""
        ...


class Listed(tuple[Doomed, ...]):
    """Files that are listed in this process."""

    @cached_property
    def totals(self) -> GoingTotals:
        return GoingTotals(Counter(file.kind for file in self), sum(file.bytes for file in self))

    def manifest(
        self, store: Store, path: str, oldest: int, former_oldest: int, part_files: int = PART_FILES
    ) -> ExpireManifest:
        if len(self) <= part_files:
            return ExpireManifest(path, oldest, former_oldest, self)
        return ExpireManifest(path, oldest, former_oldest, (), _write_parts(store, path, self, part_files))

    def roots(self) -> Iterator[Doomed]:
        return iter(sorted((file for file in self if file.kind == ROOT), key=_order))

    def saves(self) -> Iterator[Doomed]:
        return iter(sorted((file for file in self if file.kind == TRANSACTION), key=_order))

    def delete_others(self, store: Store, below: int, progress: Progress) -> None:
        delete_checked(store, (file for file in self if file.kind not in (ROOT, TRANSACTION)), below, progress)


def delete_checked(store: Store, files: Iterable[Doomed], below: int, progress: Progress) -> int:
    """Delete files in batches, and check each batch first. Return the number of files."""
    deleted = 0
    for batch in batches(files, DELETED_AT_ONCE):
        check_deletable(batch, below, store.uri)
        store.delete_many([file.path for file in batch])
        progress.advance(len(batch))
        deleted += len(batch)
    return deleted


def in_order(files: Iterable[Doomed]) -> Listed:
    """Sort files so that a file comes before those that it leads to: roots, the oldest first, transactions, then nodes
    and definitions.
    """
    return Listed(sorted(files, key=_order))


def _order(file: Doomed) -> tuple[int, int, str]:
    return _ORDER[file.kind], parse_root_path(file.path) or 0, file.path


_ORDER = {
    kind.value: at
    for at, kind in enumerate(
        (FileKind.ROOT, FileKind.TRANSACTION, FileKind.NODE, FileKind.DEFINITION, FileKind.TEMPORARY)
    )
}


# The marks in quarantine as plain values.


def list_marks(head: Snapshot, quarantine_millis: int) -> Iterator[dict[str, Any]]:
    """Yield each mark with its versions, its size, and the time from which it may be purged.

    If a manifest cannot be read, the size is unknown: files that only it names are not deleted.
    """
    for mark in read_quarantine(head.definition):
        try:
            totals = Listed(read_manifest(head.store, check_pointer(mark.manifest, head.root.catalog_def)).files).totals
            files, size, problem = totals.files, totals.bytes, None
        except Damaged as error:
            files, size, problem = None, None, error.message
        marked = _marked_at_millis(head.store, mark)
        yield {
            "version": mark.version,
            "expired_versions": list(range(mark.former_oldest, min(mark.oldest, head.version))),
            "marked_at": None if marked is None else time_text(marked),
            "purge_after": None if marked is None else time_text(marked + quarantine_millis),
            "files": files,
            "bytes": size,
            "manifest": mark.manifest,
            "problem": problem,
        }


def sum_up_marks(head: Snapshot, quarantine_millis: int) -> dict[str, Any]:
    """Return the number of marks and versions in quarantine, and the time of the next purge. Manifests may be large,
    and are not read.
    """
    marks = read_quarantine(head.definition)
    marked = _marked_at_millis(head.store, marks[0]) if marks else None
    return {
        "marks": len(marks),
        "versions": sum(max(0, mark.oldest - mark.former_oldest) for mark in marks),
        "purge_after": None if marked is None else time_text(marked + quarantine_millis),
    }


def _marked_at_millis(store: Store, mark: QuarantineMark) -> int | None:
    """Return the time of a mark by the store's clock, or None if an older purge has deleted its root."""
    try:
        return store.stat(root_path(mark.version)).modified_at_millis
    except PathMissing:
        return None
