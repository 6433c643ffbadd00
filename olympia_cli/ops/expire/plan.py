"""What an expire would do: which versions and files go into quarantine, and which leave it for good. Nothing is written
here but a probe of the store's clock.
"""

from __future__ import annotations

from bisect import insort
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import check_writable
from olympia_cli.catalog.quarantine import Mark, purged_before, read_purging, read_quarantine
from olympia_cli.catalog.snapshot import EXPIRE_OLDEST, expired_before
from olympia_cli.catalog.versions import read_hints
from olympia_cli.errors import CommitConflict, Damaged, PathMissing, Refused
from olympia_cli.format.node_file import decode_root
from olympia_cli.format.paths import (
    MAX_VERSION,
    FileKind,
    check_pointer,
    file_kind,
    parse_root_path,
    parse_transaction_path,
    root_path,
)
from olympia_cli.ops.expire.files import in_order
from olympia_cli.ops.expire.holders import Holders
from olympia_cli.ops.expire.leaving import Leaving, left_behind, unread
from olympia_cli.ops.expire.manifest import FOLDER, Doomed, Manifest, check_deletable, read_manifest
from olympia_cli.ops.expire.retention import Counted, Limits, Policy, Versions, explain_kept, why_kept
from olympia_cli.ops.expire.store_clock import store_now_millis
from olympia_cli.ops.expire.sweep import Fate, Sweep, has_age, is_foreign_root
from olympia_cli.ops.expire.values import FLOOR_MILLIS, ExpirePlan, Floors, Kept, MarkPlan, PurgePlan
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.reach import Reach, path_digest
from olympia_cli.storage.protocol import FileInfo, Store

SHOWN = 20


class Planner:
    """Looks at a catalog once, for one plan: each file that is kept is read once."""

    def __init__(
        self,
        catalog: Catalog,
        floors: Floors,
        *,
        probe: bool = True,
        definitions: bool = True,
        progress: Progress = SILENT,
    ) -> None:
        """`probe` is whether a file may be written to learn the store's time; without, this machine's clock must do.
        `definitions` is whether the definitions of objects are read too, as they must be before anything is done.
        """
        self._catalog = catalog
        self.store: Store = catalog.store
        self.head = catalog.snapshot()
        check_writable(self.head)
        self.definition = self.head.definition
        self.marks = read_quarantine(self.definition)
        self._floors = floors
        self._progress = progress
        self._notes: dict[str, str] = {}
        self._leaving: Leaving | None = None
        now = catalog.clock.now_millis()
        self.store_now = store_now_millis(self.store) if probe else now
        # of two clocks the one that makes everything younger; with no writer about, ages may be below its resolution
        self.now = now if floors.offline else min(now, self.store_now)
        self._written = self._list_roots()
        self.oldest = self._oldest()
        self.purged = min(purged_before(self.definition), self.oldest)
        self._reach = Reach(self.store, definitions=definitions, progress=progress)
        self._holders = Holders(self.head, self.now, self.store_now)

    # Plans

    def expire(self, policy: Policy, not_beyond: int = MAX_VERSION) -> ExpirePlan:
        """Both halves from one walk: what the policy keeps first, then what is in quarantine and stays there.

        Versions from `not_beyond` on are kept whatever the policy says.
        """
        with self.overtaken():
            self._progress.phase("looking for what may go")
            versions, limits, oldest = self._choose(policy, not_beyond)
            created: list[tuple[int, int]] = []
            self._progress.phase("reading what is kept")
            self._reach.add(_noting(versions.kept(), created))
            self._add_pins()
            kept = tuple(explain_kept(created, policy, limits))
            mark = self._mark_plan(oldest, kept, self.resting())
            return ExpirePlan(self.head.version, mark, self._purge_plan(oldest))

    def purge(self) -> PurgePlan:
        """What leaves quarantine now."""
        with self.overtaken():
            if not self.leaving.is_empty:
                self.walk_from(self.oldest)
            return self._purge_plan(self.oldest)

    # What whoever follows the roots and lists the files elsewhere needs to know

    def choose(self, policy: Policy, not_beyond: int = MAX_VERSION) -> tuple[int, Limits]:
        """The oldest version that stays, and what the reasons for it and for those after it are taken from."""
        with self.overtaken():
            self._progress.phase("looking for what may go")
            _, limits, oldest = self._choose(policy, not_beyond)
            return oldest, limits

    def sweep(self, policy: Policy, not_beyond: int = MAX_VERSION) -> Sweep:
        """What decides about each file under a policy."""
        return self.sweep_from(self.choose(policy, not_beyond)[0])

    def sweep_from(self, oldest: int) -> Sweep:
        """What decides about each file when the versions from this one on stay."""
        return self._sweep(oldest, self._manifests_at_rest())

    @contextmanager
    def overtaken(self) -> Iterator[None]:
        """What is missing because another expire deletes it meanwhile is not damage."""
        try:
            yield
        except (Damaged, PathMissing) as error:
            if purged_before(self._catalog.snapshot().definition) <= purged_before(self.definition):
                raise
            raise CommitConflict(f"another expire was first: {error.message}", hint="run it again") from error

    def walk_from(self, version: int) -> None:
        """Read all that the versions from this one on, live transactions and sharing exports need."""
        self._progress.phase("reading what is kept")
        self._reach.add((path, data) for _, path, data in Versions(self.head, version).kept())
        self._add_pins()

    def walk_between(self, first: int, end: int | None) -> None:
        """Read what the versions from `first` on need; those from `end` on have been walked before."""
        if end is None:
            self.walk_from(first)
        else:
            self._reach.add(self._roots(first, end))

    def oldest_kept(self, policies: Sequence[Policy]) -> list[int]:
        """The oldest version that each of several policies keeps."""
        counted = Counted(self.head, self.oldest)
        limits = [self._limits(counted.first_of_last(policy.keep_last), MAX_VERSION) for policy in policies]
        pasts = list(Versions(self.head, self.oldest, counted.known, self._written).pasts())
        return [
            next((past.version for past in pasts if why_kept(past, policy, limit)), self.head.version)
            for policy, limit in zip(policies, limits, strict=True)
        ]

    def is_old(self, file: FileInfo) -> bool:
        """Whether a file is past the grace period."""
        return self._has_age(file.modified_at_millis, self._floors.grace_millis)

    def is_reached(self, digest: bytes) -> bool:
        return self._reach.has(digest)

    def is_live(self, path: str) -> bool:
        parsed = parse_transaction_path(path)
        return parsed[0] in self._holders.live_ids if parsed is not None else path in self._reach

    # Which versions there are

    def _list_roots(self) -> dict[int, int]:
        """The versions that have a root, and when it was written by the store's clock.

        Refuses to act when there may be versions that nobody has looked at: all that they reach would seem dead.
        """
        head = self.head.version
        found = {}
        for file in self.store.list("vn/"):
            version = parse_root_path(file.path)
            if version is not None and not is_foreign_root(file.path, version):
                found[version] = file.modified_at_millis
        last = max([head, *found])
        for version in range(head + 1, last):
            # a listing takes its time, and may show one version that is committed meanwhile without the one before
            if version not in found and not self.store.exists(root_path(version)):
                raise Damaged(
                    "F101", root_path(version), f"version {version} is missing, but there is a version {last}"
                )
        hint = self.head.file.hint
        if hint is not None and hint > last:
            raise Refused(
                f"vn/latest names version {hint}, but the last root is that of version {head}: one may be lost",
                hint="look with fsck; fsck --repair corrects the hint",
            )
        return found

    def _oldest(self) -> int:
        """The oldest version that counts, whether or not its root is there.

        Readers take a hint for it where no expire has run yet. Nothing is deleted on a hint's word.
        """
        if EXPIRE_OLDEST in self.definition.properties:
            oldest = expired_before(self.definition)
        else:
            oldest = read_hints(self.store).oldest or 0
            if before := [version for version in self._written if version < oldest]:
                raise Refused(
                    f"vn/oldest says {oldest}, but no expire has run, and version {min(before)} is there",
                    hint="look with fsck; fsck --repair corrects the hint",
                )
        if oldest > self.head.version:
            raise Refused(f"the oldest version is said to be {oldest}, beyond the latest", hint="look with fsck")
        return oldest

    # What is kept

    def _choose(self, policy: Policy, not_beyond: int) -> tuple[Versions, Limits, int]:
        """The versions from the first that stays on, and which that is."""
        counted = Counted(self.head, self.oldest)
        limits = self._limits(counted.first_of_last(policy.keep_last), not_beyond)
        versions = Versions(self.head, self.oldest, counted.known, self._written)
        return versions, limits, versions.first_kept(policy, limits)

    def _limits(self, counted_from: int, not_beyond: int) -> Limits:
        return Limits(
            counted_from=counted_from,
            transactions_from=self._holders.transactions_from,
            exports_from=self._holders.exports_from,
            plan_from=not_beyond,
            now_millis=self.now,
            store_now_millis=self.store_now,
        )

    def _add_pins(self) -> None:
        """Read what live transactions and sharing exports need."""
        for pin in self._holders.pins():
            try:
                self._reach.add([(pin.path, self._read(pin.path, "a copy of a root"))])
            except Damaged as error:
                raise Damaged(error.code, error.path, f"{error.reason}; {pin.who} needs it", hint=pin.hint) from error

    def _read(self, path: str, what: str) -> bytes:
        try:
            return self.store.read(path)
        except PathMissing:
            raise Damaged("F201", path, f"{what} is missing") from None

    def _roots(self, first: int, end: int) -> Iterator[tuple[str, bytes]]:
        for path, data in self.store.read_many(root_path(version) for version in range(first, end)):
            if isinstance(data, PathMissing):
                raise Damaged("F101", path, f"version {parse_root_path(path)}, which is in quarantine, is missing")
            if isinstance(data, Exception):
                raise data
            yield path, data

    def _has_age(self, since_millis: int, least_millis: int) -> bool:
        return has_age(self.store_now, since_millis, least_millis)

    # What goes into quarantine

    def _mark_plan(self, oldest: int, kept: tuple[Kept, ...], resting: set[bytes]) -> MarkPlan:
        self._progress.phase("listing all files")
        doomed: list[Doomed] = []
        unknown_paths: list[str] = []
        unknown = young = 0
        sweep = self._sweep(oldest)
        for file in self.store.list(temporary=True):
            self._progress.advance()
            kind = file_kind(file.path)
            fate = sweep.fate(file.path, kind)
            if fate is Fate.UNKNOWN:
                unknown += 1
                insort(unknown_paths, file.path)
                del unknown_paths[SHOWN:]
            elif (fate is Fate.GOES or (fate is Fate.UNLESS_REACHED and file.path not in self._reach)) and path_digest(
                file.path
            ) not in resting:
                if self.is_old(file):
                    doomed.append(Doomed(file.path, file.size, kind.value))
                else:
                    young += 1
        return MarkPlan(oldest, self.oldest, kept, in_order(doomed), young, unknown, tuple(unknown_paths))

    def _sweep(self, oldest: int, manifests: Sequence[str] = ()) -> Sweep:
        return Sweep(
            oldest=oldest,
            latest=self.head.version,
            pins=tuple(pin.path for pin in self._holders.pins()),
            live_transactions=frozenset(self._holders.live_ids),
            manifests=tuple(manifests),
            store_now_millis=self.store_now,
            grace_millis=self._floors.grace_millis,
        )

    def _manifests_at_rest(self) -> list[str]:
        return [*(mark.manifest for mark in self.marks), *self.leaving.unfinished]

    def resting(self) -> set[bytes]:
        """The files that are in quarantine, or about to go for good, as digests."""
        found: set[bytes] = set()
        for path in self._manifests_at_rest():
            manifest = self._manifest(path)
            found.update(path_digest(file.path) for file in (manifest.files if manifest is not None else ()))
        return found

    # What leaves it for good

    def _rested(self) -> list[Mark]:
        """The marks that have rested long enough, from the first on."""
        rested: list[Mark] = []
        for mark in self.marks:
            # itself gone with an older purge when it has no root any more
            old = self._has_age(self._written.get(mark.version, 0), self._floors.quarantine_millis)
            # an export may have been recorded since the mark was planned
            if not old or mark.oldest > self._holders.exports_from:
                break
            rested.append(mark)
        return rested

    @property
    def leaving(self) -> Leaving:
        """What is to leave quarantine, before anybody has looked at the files."""
        # not a cached_property: up to Python 3.11 one planner would wait for the listing of another
        if self._leaving is None:
            self._leaving = self._look_for_leaving()
        return self._leaving

    def _look_for_leaving(self) -> Leaving:
        rested = self._rested()
        manifests = [mark.manifest for mark in rested]
        least = 0 if self._floors.offline else FLOOR_MILLIS
        left = left_behind(
            self.store.list(FOLDER),
            resting=[mark.manifest for mark in self.marks],
            leaving=manifests,
            purging=read_purging(self.definition),
            old_enough=lambda file: self._has_age(file.modified_at_millis, least),
        )
        return Leaving(
            purged=max([self.purged, *(mark.oldest for mark in rested)]),
            # a catalog may begin at a later version than the first
            former_purged=max([self.purged, *(mark.former_oldest for mark in rested[:1])]),
            manifests=tuple(manifests),
            unfinished=left.unfinished,
            abandoned=left.abandoned,
            parts=left.parts,
        )

    def _manifest(self, path: str) -> Manifest | None:
        """A manifest, or None: what one that is lost would have named is found again by the next mark."""
        try:
            return read_manifest(self.store, check_pointer(path, self.head.root.catalog_def))
        except Damaged as error:
            self._notes[path] = unread(error)
            return None

    def _purge_plan(self, walked_from: int) -> PurgePlan:
        """What the rested marks free, given that the versions from `walked_from` on have been walked."""
        leaving = self.leaving
        if leaving.is_empty:
            return leaving.plan(in_order(()))
        purged = leaving.purged
        # versions that stay in quarantine can be brought back, so all that they reach is kept too
        self._reach.add(self._roots(purged, walked_from))
        files = {file.path: file for file in self._leftovers(purged)}
        rescued = 0
        left = self._still_there() if leaving.unfinished else None
        young = {file.path for file in self.store.list("dtxn/") if not self.is_old(file)}
        for path in leaving.all_manifests:
            manifest = self._manifest(path)
            if manifest is None:
                continue
            check_deletable(manifest.files, purged, manifest.path)
            for file in manifest.files:
                # an id that was used again has a young save at an old name
                if self.is_live(file.path) or file.path in young:
                    rescued += 1
                elif left is None or path_digest(file.path) in left:
                    files[file.path] = file
        return leaving.plan(in_order(files.values()), rescued, tuple(self._notes.values()))

    def _still_there(self) -> set[bytes]:
        """All files there are: an earlier purge got to delete some of those that its manifest names."""
        return {path_digest(file.path) for file in self.store.list(temporary=True)}

    def _leftovers(self, purged: int) -> Iterable[Doomed]:
        """Roots below what is purged that no manifest names: written by one that slept, and never part of history."""
        for file in self.store.list("vn/"):
            version = parse_root_path(file.path)
            if (
                version is not None
                and version < purged
                and self.is_old(file)
                and not is_foreign_root(file.path, version)
                and not self.is_live(file.path)
            ):
                yield Doomed(file.path, file.size, FileKind.ROOT.value)


def _noting(roots: Iterable[tuple[int, str, bytes]], created: list[tuple[int, int]]) -> Iterator[tuple[str, bytes]]:
    """The roots, with the time noted at which each was made."""
    for version, path, data in roots:
        created.append((version, decode_root(data, path).created_at_millis))
        yield path, data
