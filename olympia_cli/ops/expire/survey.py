"""The survey of a catalog's files: collect the facts about each file, and apply the sweep.

A surveyor is an engine: it distributes work and never decides. This one runs in this process.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Any, Protocol

from olympia_cli.catalog.retained import QuarantineMark, read_quarantine
from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged, PathMissing, StoreError
from olympia_cli.format.codec import decode_root
from olympia_cli.format.paths import FileKind, check_pointer, file_kind, parse_root_path, root_path
from olympia_cli.names import time_text
from olympia_cli.ops.expire.manifest import (
    DELETABLE,
    PART_FILES,
    Doomed,
    Manifest,
    ManifestPart,
    check_deletable,
    encode_part,
    new_part_path,
    read_manifest,
    unread,
)
from olympia_cli.ops.expire.sweep import FileFacts, FileFate, Sweep
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk import NodeRules, Reach, path_digest
from olympia_cli.storage.protocol import Store

if TYPE_CHECKING:
    from olympia_cli.ops.expire.plan import Planner

# Files to mark or delete, listed in this process, or counted here and listed elsewhere.

DELETED_AT_ONCE = 10_000
ROOT, TRANSACTION = FileKind.ROOT.value, FileKind.TRANSACTION.value


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

    def manifest(self, store: Store, path: str, oldest: int, former_oldest: int) -> Manifest:
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
    ) -> Manifest:
        if len(self) <= part_files:
            return Manifest(path, oldest, former_oldest, self)
        parts = []
        for first in range(0, len(self), part_files):
            files = self[first : first + part_files]
            part = ManifestPart(new_part_path(path), len(files))
            store.create(part.path, encode_part(path, files))
            parts.append(part)
        return Manifest(path, oldest, former_oldest, (), tuple(parts))

    def roots(self) -> Iterator[Doomed]:
        return iter(sorted((file for file in self if file.kind == ROOT), key=_order))

    def saves(self) -> Iterator[Doomed]:
        return iter(sorted((file for file in self if file.kind == TRANSACTION), key=_order))

    def delete_others(self, store: Store, below: int, progress: Progress) -> None:
        delete_checked(store, (file for file in self if file.kind not in (ROOT, TRANSACTION)), below, progress)


def delete_checked(store: Store, files: Iterable[Doomed], below: int, progress: Progress) -> int:
    """Delete files in batches, and check each batch first. Return the number of files."""
    files, deleted = iter(files), 0
    while batch := list(islice(files, DELETED_AT_ONCE)):
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


SHOWN = 20
"""The number of unknown files to name."""

KeptRoots = Iterable[tuple[int, str, bytes | StoreError]]
"""Version, path and bytes of the kept roots, the oldest first, or the error of reading one."""

_LOOK = ("fsck", "--level", "full", "--all-versions")
_FOLDERS = {FileKind.ROOT: "vn/", FileKind.TRANSACTION: "dtxn/"}


@dataclass(frozen=True, slots=True)
class Survey:
    """The fate of all examined files."""

    created: Sequence[tuple[int, int]]
    """The creation time of each kept version, the oldest first."""
    counts: Counter[FileFate]
    quarantined: Going
    purged: Going
    unknown_paths: tuple[str, ...]
    """The first unknown files."""
    notes: tuple[str, ...]
    """Notes about manifests that cannot be read, and about damaged versions in quarantine."""


class Surveyor(Protocol):
    def reach(self, store: Store, rules: NodeRules, *, definitions: bool, progress: Progress) -> Reach:
        """Return the collector for the files in use."""
        ...

    def survey(self, planner: Planner, sweep: Sweep, roots: KeptRoots, files: Going | None = None) -> Survey:
        """Read all files in use, then apply the sweep to each listed file and to each file of a manifest. Raise Damaged
        if a file in use is damaged.

        With `files`, the files to delete of an earlier plan, apply it only to these.
        """
        ...


class LocalSurveyor:
    """Examines the files in this process."""

    def reach(self, store: Store, rules: NodeRules, *, definitions: bool, progress: Progress) -> Reach:
        return Reach(store, rules, definitions=definitions, progress=progress)

    def survey(self, planner: Planner, sweep: Sweep, roots: KeptRoots, files: Going | None = None) -> Survey:
        """Files to mark or delete are named in the result, the others only counted."""
        created = follow_kept(planner, roots)
        sweep, recallable, notes = follow_resting(planner, sweep)
        known_files = KnownFiles(planner.reach, recallable)
        if files is None:
            notes += known_files.read_manifests(planner, sweep)
        counts: Counter[FileFate] = Counter()
        quarantined: list[Doomed] = []
        purged: list[Doomed] = []
        unknown: list[str] = []
        for file, size in _files(planner, sweep, known_files, files):
            fate = sweep.fate(file)
            counts[fate] += 1
            if fate in (FileFate.QUARANTINED, FileFate.PURGED):
                going = quarantined if fate is FileFate.QUARANTINED else purged
                going.append(Doomed(file.path, size, file.kind.value))
            elif fate is FileFate.UNKNOWN:
                insort(unknown, file.path)
                del unknown[SHOWN:]
        return Survey(created, counts, in_order(quarantined), in_order(purged), tuple(unknown), tuple(notes))


LOCAL = LocalSurveyor()


def _files(
    planner: Planner, sweep: Sweep, known_files: KnownFiles, files: Going | None
) -> Iterator[tuple[FileFacts, int]]:
    """Yield the facts and the size of each file: the listed ones, and those of manifests to purge."""
    if files is None:
        planner.progress.phase("listing files" if sweep.kinds else "listing all files")
        for folder in [_FOLDERS[kind] for kind in sweep.kinds] or [""]:
            for listed in planner.store.list(folder, temporary=True):
                planner.progress.advance()
                named = known_files.leaving.pop(listed.path, None)
                size = listed.size if named is None else named.bytes
                yield known_files.of(listed.path, listed.modified_at_millis, leaving=named is not None), size
    for file in known_files.leaving.values() if files is None else files:
        yield known_files.of(file.path, None, leaving=True), file.bytes


@dataclass(slots=True)
class KnownFiles:
    """The facts from versions and manifests, to be looked up by file. For most files only a short digest is kept."""

    reach: Reach
    recallable: set[bytes] = field(default_factory=set)
    """Files that only versions in quarantine reach."""
    resting: set[bytes] = field(default_factory=set)
    leaving: dict[str, Doomed] = field(default_factory=dict)
    """The files of manifests to purge, each as the last manifest names it."""

    def read_manifests(self, planner: Planner, sweep: Sweep) -> list[str]:
        """Read the manifests, and return notes about unreadable ones. The next mark finds their files again.

        Raise Damaged if a manifest to purge names a file that must not be deleted.
        """
        notes = []
        for path in sweep.manifests:
            try:
                manifest = read_manifest(planner.store, check_pointer(path, planner.head.root.catalog_def))
            except Damaged as error:
                notes.append(unread(error))
                continue
            if path in sweep.leaving:
                check_deletable(manifest.files, sweep.purged, path)
                self.leaving |= {file.path: file for file in manifest.files}
            else:
                self.resting.update(path_digest(file.path) for file in manifest.files)
        return notes

    def of(self, path: str, modified_at_millis: int | None, *, leaving: bool = False) -> FileFacts:
        digest = path_digest(path)
        recallable = digest in self.recallable
        reached = not recallable and self.reach.has(digest)
        resting = digest in self.resting
        return FileFacts(path, file_kind(path), modified_at_millis, reached, recallable, resting, leaving)


# Only the following functions walk trees


def follow_kept(planner: Planner, roots: KeptRoots) -> list[tuple[int, int]]:
    """Read all files that kept versions, live transactions and sharing exports need. Return the creation time of each
    version.

    A damaged version is not followed: the sweep assumes that it may reach any file.
    """
    planner.progress.phase("reading kept versions")
    created: list[tuple[int, int]] = []
    try:
        planner.reach.add(_noting(planner, roots, created))
    except Damaged as error:
        hint = "find the damage; damage of older versions does not stop an expire once it is acknowledged"
        raise Damaged(error.code, error.path, error.reason, hint=hint, command=_LOOK) from error
    for pin in planner.pins():
        try:
            planner.reach.add([(pin.path, _read(planner, pin.path))])
        except Damaged as error:
            raise pin.needs(error) from error
    return created


def follow_more(planner: Planner, versions: range) -> Iterator[list[str]]:
    """Read the files of more versions. Yield the new paths in portions."""
    return planner.reach.each(_roots(planner, versions))


def follow_resting(planner: Planner, sweep: Sweep) -> tuple[Sweep, set[bytes], list[str]]:
    """Read the files of versions that stay in quarantine during a purge. Return the sweep, digests of files that only
    these reach, and notes.

    Damage there stops nothing. As the damaged version may reach any file, the returned sweep deletes no node and no
    definition.
    """
    recallable: set[bytes] = set()
    try:
        for new in follow_more(planner, sweep.resting_versions):
            recallable.update(map(path_digest, new))
    except Damaged as error:
        if planner.is_overtaken():
            raise
        newest = sweep.resting_versions[-1]
        effect = "until it is purged, no node and no definition is deleted"
        note = f"a version in quarantine is damaged: {error.message}: {effect}"
        return replace(sweep, damaged=max(sweep.damaged, newest)), recallable, [note]
    return sweep, recallable, []


def _noting(planner: Planner, roots: KeptRoots, created: list[tuple[int, int]]) -> Iterator[tuple[str, bytes]]:
    for version, path, data in roots:
        if version in planner.damaged:
            # the version stays; its time is only for display: if its root cannot be read, show that of the version
            # before
            with suppress(Damaged):
                created_at = decode_root(data if isinstance(data, bytes) else b"", path).created_at_millis
                created.append((version, created_at))
                continue
            created.append((version, created[-1][1] if created else 0))
        elif isinstance(data, PathMissing):
            raise Damaged("F101", path, f"version {version} is missing")
        elif isinstance(data, Exception):
            raise data
        else:
            created.append((version, decode_root(data, path).created_at_millis))
            yield path, data


def _read(planner: Planner, path: str) -> bytes:
    try:
        return planner.store.read(path)
    except PathMissing:
        raise Damaged("F201", path, "a copy of a root is missing") from None


def _roots(planner: Planner, versions: range) -> Iterator[tuple[str, bytes]]:
    whole = (version for version in versions if version not in planner.damaged)
    for path, data in planner.store.read_many(root_path(version) for version in whole):
        if isinstance(data, PathMissing):
            raise Damaged("F101", path, f"version {parse_root_path(path)} is missing")
        if isinstance(data, Exception):
            raise data
        yield path, data
