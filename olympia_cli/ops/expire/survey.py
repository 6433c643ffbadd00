"""The survey of a catalog's files: the facts about each file, and the sweep, which decides about each.

A surveyor is an engine: it distributes work and never decides. This one runs in this process. A sweep and the
facts about a file are plain values. So the decision for mark and purge can be made on any machine.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from enum import Enum
from itertools import repeat
from typing import Protocol

from olympia_cli.catalog.snapshot import Snapshot
from olympia_cli.errors import Damaged, PathMissing, StoreError
from olympia_cli.format.codec import decode_root
from olympia_cli.format.node import Root
from olympia_cli.format.paths import (
    FileKind,
    check_pointer,
    file_kind,
    is_foreign_root,
    parse_root_path,
    parse_transaction_path,
    root_path,
)
from olympia_cli.ops.expire.facts import CatalogFacts
from olympia_cli.ops.expire.manifest import Doomed, Going, check_deletable, in_order, read_manifest, unread
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk import NodeRules, ReachedFiles, batches, path_digest
from olympia_cli.storage.protocol import Store


class FileFate(Enum):
    """The decision about a file, with the reason."""

    STAYS = "it is in use, or an expire never deletes such files"
    UNKNOWN = "it is not a file of this format: it is never touched"
    YOUNG = "it seems unused, but it is still within the grace period"
    QUARANTINED = "it is unused: it goes into quarantine"
    RESTS = "it is unused, and in quarantine already"
    PURGED = "it was in quarantine, or never part of history, and is unused: it is deleted"
    RESCUED = "it was in quarantine, and is used again"
    GONE = "an unfinished purge has deleted it"


@dataclass(frozen=True, slots=True)
class FileFacts:
    """The facts about one file."""

    path: str
    kind: FileKind
    modified_at_millis: int | None
    """By the store's clock. None if the file was not listed."""
    reached: bool = False
    """A kept version or a pin reaches it."""
    recallable: bool = False
    """A version that stays in quarantine reaches it."""
    resting: bool = False
    """A manifest names it."""
    leaving: bool = False
    """A manifest names it, and the purge deletes that manifest's files."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """The rules: keep the versions from `oldest` to `latest`, and all files that they and the pins reach."""

    oldest: int
    latest: int
    pins: tuple[str, ...]
    """Copies of roots that live transactions and sharing exports need."""
    live_transactions: frozenset[str]
    store_now_millis: int
    grace_millis: int
    manifests: tuple[str, ...] = ()
    """Manifests of files that are in quarantine, or about to be deleted."""
    leaving: frozenset[str] = frozenset()
    """The manifests whose files are to be deleted."""
    purged: int = 0
    """Versions below it cannot be restored after the purge."""
    unfinished: bool = False
    """True if an earlier purge has deleted some of these files."""
    kinds: tuple[FileKind, ...] = ()
    """The kinds of files to list. All kinds if empty."""
    damaged: int = -1
    """The newest version known to be damaged. The nodes and definitions that it reaches are unknown."""

    @property
    def resting_versions(self) -> range:
        """Versions that stay in quarantine during a purge. They can be restored, so their files are kept."""
        return range(self.purged, self.oldest) if self.leaving else range(0)

    def fate(self, file: FileFacts) -> FileFate:
        version = parse_root_path(file.path) if file.kind is FileKind.ROOT else None
        is_foreign = version is not None and is_foreign_root(file.path, version)
        if file.kind is FileKind.UNKNOWN or file.path.startswith("def/dtxn/") or is_foreign:
            return FileFate.UNKNOWN
        if file.kind is FileKind.DATA:
            return FileFate.STAYS
        listed, old = file.modified_at_millis is not None, self.is_old(file.modified_at_millis or 0)
        if file.leaving:
            # a reused id of a transaction gives a young save with an old name
            if self.needs(file) or (file.kind is FileKind.TRANSACTION and listed and not old):
                return FileFate.RESCUED
            return FileFate.PURGED if listed or not self.unfinished else FileFate.GONE
        if not listed or not self._is_dead(file, version):
            return FileFate.STAYS
        if version is not None and version < self.purged and old and not self.needs(file):
            # written by a process that was suspended, and never part of history
            return FileFate.PURGED
        if file.resting:
            return FileFate.RESTS
        return FileFate.QUARANTINED if old else FileFate.YOUNG

    def needs(self, file: FileFacts) -> bool:
        """Return whether a kept or restorable version, a pin or a transaction needs a file that is to be deleted."""
        if file.kind is FileKind.TRANSACTION:
            return self._is_alive(file.path)
        return file.reached or file.recallable or self._may_reach(file, self.purged if self.leaving else self.oldest)

    def _is_dead(self, file: FileFacts, version: int | None) -> bool:
        """Return whether no kept version, pin or transaction needs the file."""
        if file.kind in (FileKind.NODE, FileKind.DEFINITION):
            return not (file.reached or self._may_reach(file, self.oldest))
        if file.kind is FileKind.ROOT:
            return version is not None and version < self.oldest
        if file.kind is FileKind.TRANSACTION:
            return not self._is_alive(file.path)
        return file.kind is FileKind.TEMPORARY

    def _may_reach(self, file: FileFacts, first: int) -> bool:
        """Return whether a damaged version from `first` on may reach the file."""
        return self.damaged >= first and file.kind in (FileKind.NODE, FileKind.DEFINITION)

    def _is_alive(self, path: str) -> bool:
        """Return whether the file belongs to a live transaction."""
        parsed = parse_transaction_path(path)
        return parsed is None or parsed[0] in self.live_transactions

    def is_old(self, modified_at_millis: int) -> bool:
        """Return whether the file is older than the grace period."""
        return has_age(self.store_now_millis, modified_at_millis, self.grace_millis)


def has_age(now_millis: int, since_millis: int, least_millis: int) -> bool:
    # some stores round times to seconds, others to milliseconds
    return least_millis == 0 or now_millis - since_millis >= least_millis


# The facts about the files.

SHOWN = 20
"""The number of unknown files to name."""

FILES_AT_ONCE = 1024

KeptRoots = Iterable[tuple[int, str, bytes | Root | StoreError]]
"""Version, path and content of the kept roots, the oldest first, or the error of reading one."""

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
    resting_damage: Damaged | None = None
    """The damage of a version in quarantine. The next purge may have deleted its files."""


class Surveyor(Protocol):
    def reach(self, store: Store, rules: NodeRules, *, definitions: bool, progress: Progress) -> ReachedFiles:
        """Return the collector for the files in use."""
        ...

    def survey(
        self, facts: CatalogFacts, reach: ReachedFiles, sweep: Sweep, roots: KeptRoots, files: Going | None = None
    ) -> Survey:
        """Read all files in use, then apply the sweep to each listed file and to each file of a manifest. Raise Damaged
        if a file in use is damaged.

        With `files`, the files to delete of an earlier plan, apply it only to these.
        """
        ...


class LocalSurveyor:
    """Examines the files in this process."""

    def reach(self, store: Store, rules: NodeRules, *, definitions: bool, progress: Progress) -> ReachedFiles:
        return ReachedFiles(store, rules, definitions=definitions, progress=progress)

    def survey(
        self, facts: CatalogFacts, reach: ReachedFiles, sweep: Sweep, roots: KeptRoots, files: Going | None = None
    ) -> Survey:
        """Files to mark or delete are named in the result, the others only counted."""
        created = follow_kept(facts, reach, roots)
        resting = follow_resting(facts, reach, sweep)
        sweep, notes = resting.sweep, list(resting.notes)
        known_files = KnownFacts(reach, resting.recallable)
        if files is None:
            notes += known_files.read_manifests(facts.head, sweep)
        counts: Counter[FileFate] = Counter()
        quarantined: list[Doomed] = []
        purged: list[Doomed] = []
        unknown: list[str] = []
        for batch in _files(facts.store, reach.progress, sweep, known_files, files):
            for file, size in batch:
                fate = sweep.fate(file)
                counts[fate] += 1
                if fate in (FileFate.QUARANTINED, FileFate.PURGED):
                    going = quarantined if fate is FileFate.QUARANTINED else purged
                    going.append(Doomed(file.path, size, file.kind.value))
                elif fate is FileFate.UNKNOWN:
                    insort(unknown, file.path)
                    del unknown[SHOWN:]
        going_files = in_order(quarantined), in_order(purged)
        return Survey(created, counts, *going_files, tuple(unknown), tuple(notes), resting.damage)


LOCAL = LocalSurveyor()


def _files(
    store: Store, progress: Progress, sweep: Sweep, known_files: KnownFacts, files: Going | None
) -> Iterator[Iterable[tuple[FileFacts, int]]]:
    """Yield the facts and the size of each file in batches: the listed ones, then those of manifests to purge."""
    if files is None:
        progress.phase("listing files" if sweep.kinds else "listing all files")
        for folder in [_FOLDERS[kind] for kind in sweep.kinds] or [""]:
            for listed in batches(store.list(folder, temporary=True), FILES_AT_ONCE):
                progress.advance(len(listed))
                named = [known_files.leaving.pop(file.path, None) for file in listed]
                times = [file.modified_at_millis for file in listed]
                facts = known_files.of([file.path for file in listed], times, [doomed is not None for doomed in named])
                yield [
                    (file_facts, file.size if doomed is None else doomed.bytes)
                    for file_facts, file, doomed in zip(facts, listed, named, strict=True)
                ]
    for rest in batches(known_files.leaving.values() if files is None else files, FILES_AT_ONCE):
        unlisted = known_files.of([file.path for file in rest], repeat(None), repeat(True))
        yield zip(unlisted, [file.bytes for file in rest], strict=True)


@dataclass(slots=True)
class KnownFacts:
    """The facts from versions and manifests, to be looked up by file. For most files only a short digest is kept."""

    reach: ReachedFiles
    recallable: set[bytes] = field(default_factory=set)
    """Files that only versions in quarantine reach."""
    resting: set[bytes] = field(default_factory=set)
    leaving: dict[str, Doomed] = field(default_factory=dict)
    """The files of manifests to purge, each as the last manifest names it."""

    def read_manifests(self, head: Snapshot, sweep: Sweep) -> list[str]:
        """Read the manifests, and return notes about unreadable ones. The next mark finds their files again.

        Raise Damaged if a manifest to purge names a file that must not be deleted.
        """
        notes = []
        for path in sweep.manifests:
            try:
                manifest = read_manifest(head.store, check_pointer(path, head.root.catalog_def))
            except Damaged as error:
                notes.append(unread(error))
                continue
            if path in sweep.leaving:
                check_deletable(manifest.files, sweep.purged, path)
                self.leaving |= {file.path: file for file in manifest.files}
            else:
                self.resting.update(path_digest(file.path) for file in manifest.files)
        return notes

    def of(
        self, paths: Sequence[str], modified_at_millis: Iterable[int | None], leaving: Iterable[bool]
    ) -> list[FileFacts]:
        """Return the facts about files, given their times, and whether a manifest to purge names them."""
        kinds, digests = map(file_kind, paths), list(map(path_digest, paths))
        recallable = [digest in self.recallable for digest in digests]
        reached = [not recall and self.reach.has(digest) for digest, recall in zip(digests, recallable, strict=True)]
        resting = [digest in self.resting for digest in digests]
        columns = (paths, kinds, modified_at_millis, reached, recallable, resting, leaving)
        return [FileFacts(*facts) for facts in zip(*columns, strict=False)]


# The walk over the trees, for every surveyor.


def follow_kept(facts: CatalogFacts, reach: ReachedFiles, roots: KeptRoots) -> list[tuple[int, int]]:
    """Read all files that kept versions, live transactions and sharing exports need. Return the creation time of each
    version.

    A damaged version is not followed: the sweep assumes that it may reach any file.
    """
    reach.progress.phase("reading kept versions")
    created: list[tuple[int, int]] = []
    try:
        reach.add(_noting(facts.damaged, roots, created))
    except Damaged as error:
        hint = "find the damage; damage of older versions does not stop an expire once it is acknowledged"
        raise Damaged(error.code, error.path, error.reason, hint=hint, command=_LOOK) from error
    for pin in facts.holders.pins():
        try:
            reach.add([(pin.path, _read(facts.store, pin.path))])
        except Damaged as error:
            raise pin.needs(error) from error
    return created


def follow_more(facts: CatalogFacts, reach: ReachedFiles, versions: range) -> Iterator[list[str]]:
    """Read the files of more versions. Yield the new paths in portions."""
    return reach.each(_roots(facts, versions))


@dataclass(frozen=True, slots=True)
class Resting:
    """The files of the versions that stay in quarantine during a purge."""

    sweep: Sweep
    """The sweep, which deletes no node and no definition if one of the versions is damaged."""
    recallable: set[bytes]
    """Digests of the files that only these versions reach."""
    damage: Damaged | None = None

    @property
    def notes(self) -> tuple[str, ...]:
        if self.damage is None:
            return ()
        effect = "until it is purged, no node and no definition is deleted"
        return (f"a version in quarantine is damaged: {self.damage.message}: {effect}",)


def follow_resting(facts: CatalogFacts, reach: ReachedFiles, sweep: Sweep) -> Resting:
    """Read the files of versions that stay in quarantine during a purge.

    Damage there stops nothing. As the damaged version may reach any file, the sweep then deletes no node and no
    definition.
    """
    recallable: set[bytes] = set()
    if not sweep.resting_versions:
        return Resting(sweep, recallable)
    try:
        for new in follow_more(facts, reach, sweep.resting_versions):
            recallable.update(map(path_digest, new))
    except Damaged as error:
        newest = sweep.resting_versions[-1]
        return Resting(replace(sweep, damaged=max(sweep.damaged, newest)), recallable, error)
    return Resting(sweep, recallable)


def _noting(damaged: Container[int], roots: KeptRoots, created: list[tuple[int, int]]) -> Iterator[tuple[str, Root]]:
    for version, path, data in roots:
        if version in damaged:
            # the version stays; its time is only for display: if its root cannot be read, show that of the version
            # before
            with suppress(Damaged):
                created.append((version, _decoded(data, path).created_at_millis))
                continue
            created.append((version, created[-1][1] if created else 0))
        elif isinstance(data, PathMissing):
            raise Damaged("F101", path, f"version {version} is missing")
        elif isinstance(data, Exception):
            raise data
        else:
            root = _decoded(data, path)
            created.append((version, root.created_at_millis))
            yield path, root


def _decoded(root: bytes | Root | StoreError, path: str) -> Root:
    return root if isinstance(root, Root) else decode_root(root if isinstance(root, bytes) else b"", path)


def _read(store: Store, path: str) -> bytes:
    try:
        return store.read(path)
    except PathMissing:
        raise Damaged("F201", path, "a copy of a root is missing") from None


def _roots(facts: CatalogFacts, versions: range) -> Iterator[tuple[str, bytes]]:
    whole = (version for version in versions if version not in facts.damaged)
    for path, data in facts.store.read_many(root_path(version) for version in whole):
        if isinstance(data, PathMissing):
            raise Damaged("F101", path, f"version {parse_root_path(path)} is missing")
        if isinstance(data, Exception):
            raise data
        yield path, data
