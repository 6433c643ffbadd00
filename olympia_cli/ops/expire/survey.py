"""The survey of a catalog: the facts about the catalog and about each of its files, as values.

A surveyor is an engine: it distributes work and never decides. This one runs in this process.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Protocol

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import check_writable
from olympia_cli.catalog.references import behind_gap
from olympia_cli.catalog.retained import (
    QuarantineMark,
    damaged_versions,
    kept_aside_before,
    lost_versions,
    purged_before,
    read_quarantine,
)
from olympia_cli.catalog.snapshot import Snapshot, marked_oldest, stated_oldest
from olympia_cli.catalog.versions import read_hints
from olympia_cli.errors import Damaged, PathMissing, Refused, StorageFull, StoreError
from olympia_cli.format.codec import decode_root
from olympia_cli.format.paths import (
    MAX_VERSION,
    FileKind,
    check_pointer,
    file_kind,
    is_foreign_root,
    parse_root_path,
    root_path,
)
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.ops.expire.holders import Holders, store_now_millis
from olympia_cli.ops.expire.manifest import (
    FOLDER,
    Doomed,
    Going,
    check_deletable,
    frees_nothing,
    in_order,
    read_manifest,
    unread,
)
from olympia_cli.ops.expire.retention import Floors, Limits
from olympia_cli.ops.expire.sweep import FileFacts, FileFate, Sweep
from olympia_cli.ops.progress import Progress
from olympia_cli.ops.walk import NodeRules, Reach, path_digest
from olympia_cli.storage.protocol import FileInfo, Store

# The facts about the catalog.

MAKE_ROOM, OFFLINE = "free some space, or stop all writers and let a purge free space", ("expire", "purge", "--offline")


NOTHING_RESTS = (
    "free some space, for no file is in quarantine, and a purge frees nothing; when there is room for a mark, "
    "expire --grace 0s --offline takes young files, too"
)


def without_room(error: StorageFull, *, frees: bool = True) -> StorageFull:
    """Return the error of a full store, with the advice for a catalog with files in quarantine. `frees` is False if no
    file is there.
    """
    if not frees:
        return StorageFull(error.message, hint=NOTHING_RESTS)
    return StorageFull(error.message, hint=MAKE_ROOM, command=OFFLINE)


@dataclass(frozen=True, slots=True)
class CatalogFacts:
    """The facts about a catalog that its plan is made from, and the ages that its user confirmed."""

    head: Snapshot
    floors: Floors
    store_now_millis: int
    now_millis: int
    """The earlier of both clocks, so that files appear younger."""
    written: Mapping[int, int]
    """The time of each version's root by the store's clock."""
    marked_at: Mapping[int, int]
    """The time of each mark in quarantine, by the version of its commit; 0 if an older purge has deleted its root."""
    oldest: int
    purged: int
    aside_from: int
    """The oldest version that a promotion has kept aside."""
    damaged: frozenset[int]
    """Versions that are kept or can be restored, and may be damaged."""
    marks: tuple[QuarantineMark, ...]
    notes: tuple[FileInfo, ...]
    """The files of expire itself: manifests and their parts."""
    holders: Holders

    @property
    def store(self) -> Store:
        return self.head.store

    @property
    def definition(self) -> CatalogDef:
        return self.head.definition

    def limits(self, counted_from: int, not_beyond: int = MAX_VERSION) -> Limits:
        """Return the first version that each reason keeps. Versions from `not_beyond` on are kept in any case."""
        return Limits(
            counted_from=counted_from,
            transactions_from=self.holders.transactions_from,
            exports_from=self.holders.exports_from,
            plan_from=not_beyond,
            aside_from=self.aside_from,
            now_millis=self.now_millis,
            store_now_millis=self.store_now_millis,
        )


def read_facts(catalog: Catalog, floors: Floors, *, probe: bool = True, forgets: bool = False) -> CatalogFacts:
    """Read the facts about the latest version. Raise an error if there may be unknown versions.

    With `probe`, a file is written to learn the store's time; without, this machine's clock is used. With `forgets`,
    versions may go that a promotion has kept aside.
    """
    store, head = catalog.store, catalog.snapshot()
    check_writable(head)
    definition = head.definition
    marks = tuple(read_quarantine(definition))
    now = catalog.clock.now_millis()
    store_now = _probed(head, now, floors, resting=bool(marks)) if probe else now
    # offline, ages may be below the resolution of the store's clock
    earlier = now if floors.offline else min(now, store_now)
    written = _list_roots(head)
    oldest = _oldest(head, written)
    purged = min(purged_before(definition), oldest)
    keeps_aside = oldest < kept_aside_before(definition) and not forgets
    return CatalogFacts(
        head=head,
        floors=floors,
        store_now_millis=store_now,
        now_millis=earlier,
        written=written,
        marked_at={mark.version: _written_at(store, mark.version, written) for mark in marks},
        oldest=oldest,
        purged=purged,
        aside_from=oldest if keeps_aside else MAX_VERSION,
        damaged=damaged_versions(definition, purged, head.version - 1),
        marks=marks,
        notes=tuple(store.list(FOLDER)),
        holders=Holders(head, earlier, written),
    )


def _probed(head: Snapshot, now: int, floors: Floors, *, resting: bool) -> int:
    """Return the time by the store's clock. If a full store takes no probe and no writer is running, use this machine's
    clock.
    """
    try:
        return store_now_millis(head.store)
    except StorageFull as error:
        if floors.offline:
            return now
        raise without_room(error, frees=not frees_nothing(head, now)) if resting else error from error


def _list_roots(latest: Snapshot) -> dict[int, int]:
    """Return the time of each version's root by the store's clock.

    Raise an error if there may be unknown versions, as their files would appear unused.
    """
    store, head = latest.store, latest.version
    written = {}
    for file in store.list("vn/"):
        version = parse_root_path(file.path)
        if version is not None and not is_foreign_root(file.path, version):
            written[version] = file.modified_at_millis
    last = max([head, *written])
    for version in range(head + 1, last):
        # a listing is not atomic: it may show a new version without the one before it
        if version not in written and not store.exists(root_path(version)):
            raise behind_gap(latest, version, last)
    hint = latest.file.hint
    if lost_versions(hint, last, latest.definition):
        raise Refused(
            f"vn/latest names version {hint}, but the last root is that of version {head}: one may be lost",
            hint="show what a repair would change",
            command=("fsck", "--repair", "--dry-run"),
        )
    return written


def _oldest(latest: Snapshot, written: Mapping[int, int]) -> int:
    """Return the oldest version, which need not have a root.

    Before the first expire, readers use the hint `vn/oldest`. No file is deleted because of a hint.
    """
    oldest = stated_oldest(latest.definition, lambda: read_hints(latest.store).oldest)
    before = [version for version in written if version < oldest]
    if before and marked_oldest(latest.definition) is None:
        raise Refused(
            f"vn/oldest says {oldest}, but no expire has run, and version {min(before)} is there",
            hint="show what a repair would change",
            command=("fsck", "--repair", "--dry-run"),
        )
    if oldest > latest.version:
        raise Refused(
            f"the oldest version is given as {oldest}, later than the latest",
            hint="check the catalog",
            command=("fsck",),
        )
    return oldest


def _written_at(store: Store, version: int, written: Mapping[int, int]) -> int:
    """Return the time of a root, or 0 if an older purge has deleted it."""
    if version not in written:
        # a listing that lags may lack a young root
        with suppress(PathMissing):
            return store.stat(root_path(version)).modified_at_millis
    return written.get(version, 0)


# The facts about the files.

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
    resting_damage: Damaged | None = None
    """The damage of a version in quarantine. The next purge may have deleted its files."""


class Surveyor(Protocol):
    def reach(self, store: Store, rules: NodeRules, *, definitions: bool, progress: Progress) -> Reach:
        """Return the collector for the files in use."""
        ...

    def survey(
        self, facts: CatalogFacts, reach: Reach, sweep: Sweep, roots: KeptRoots, files: Going | None = None
    ) -> Survey:
        """Read all files in use, then apply the sweep to each listed file and to each file of a manifest. Raise Damaged
        if a file in use is damaged.

        With `files`, the files to delete of an earlier plan, apply it only to these.
        """
        ...


class LocalSurveyor:
    """Examines the files in this process."""

    def reach(self, store: Store, rules: NodeRules, *, definitions: bool, progress: Progress) -> Reach:
        return Reach(store, rules, definitions=definitions, progress=progress)

    def survey(
        self, facts: CatalogFacts, reach: Reach, sweep: Sweep, roots: KeptRoots, files: Going | None = None
    ) -> Survey:
        """Files to mark or delete are named in the result, the others only counted."""
        created = follow_kept(facts, reach, roots)
        resting = follow_resting(facts, reach, sweep)
        sweep, notes = resting.sweep, list(resting.notes)
        known_files = KnownFiles(reach, resting.recallable)
        if files is None:
            notes += known_files.read_manifests(facts.head, sweep)
        counts: Counter[FileFate] = Counter()
        quarantined: list[Doomed] = []
        purged: list[Doomed] = []
        unknown: list[str] = []
        for file, size in _files(facts.store, reach.progress, sweep, known_files, files):
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
    store: Store, progress: Progress, sweep: Sweep, known_files: KnownFiles, files: Going | None
) -> Iterator[tuple[FileFacts, int]]:
    """Yield the facts and the size of each file: the listed ones, and those of manifests to purge."""
    if files is None:
        progress.phase("listing files" if sweep.kinds else "listing all files")
        for folder in [_FOLDERS[kind] for kind in sweep.kinds] or [""]:
            for listed in store.list(folder, temporary=True):
                progress.advance()
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

    def of(self, path: str, modified_at_millis: int | None, *, leaving: bool = False) -> FileFacts:
        digest = path_digest(path)
        recallable = digest in self.recallable
        reached = not recallable and self.reach.has(digest)
        resting = digest in self.resting
        return FileFacts(path, file_kind(path), modified_at_millis, reached, recallable, resting, leaving)


# The walk over the trees, for every surveyor.


def follow_kept(facts: CatalogFacts, reach: Reach, roots: KeptRoots) -> list[tuple[int, int]]:
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


def follow_more(facts: CatalogFacts, reach: Reach, versions: range) -> Iterator[list[str]]:
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


def follow_resting(facts: CatalogFacts, reach: Reach, sweep: Sweep) -> Resting:
    """Read the files of versions that stay in quarantine during a purge.

    Damage there stops nothing. As the damaged version may reach any file, the sweep then deletes no node and no
    definition.
    """
    recallable: set[bytes] = set()
    try:
        for new in follow_more(facts, reach, sweep.resting_versions):
            recallable.update(map(path_digest, new))
    except Damaged as error:
        newest = sweep.resting_versions[-1]
        return Resting(replace(sweep, damaged=max(sweep.damaged, newest)), recallable, error)
    return Resting(sweep, recallable)


def _noting(damaged: Container[int], roots: KeptRoots, created: list[tuple[int, int]]) -> Iterator[tuple[str, bytes]]:
    for version, path, data in roots:
        if version in damaged:
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
