"""What an expire would do: which versions and files go into quarantine, and which leave it for good. Nothing is written
here but a probe of the store's clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS, check_writable
from olympia_cli.catalog.distributed import Saved
from olympia_cli.catalog.exports import ExportRecord, read_exports
from olympia_cli.catalog.quarantine import Mark, purged_before, read_quarantine
from olympia_cli.catalog.references import oldest_version
from olympia_cli.errors import CommitConflict, Damaged, PathMissing, Refused
from olympia_cli.format.node_file import decode_root
from olympia_cli.format.paths import (
    MAX_VERSION,
    WIDTH,
    FileKind,
    check_pointer,
    file_kind,
    parse_root_path,
    parse_transaction_path,
    root_path,
    transaction_save_path,
)
from olympia_cli.ops.expire_manifest import FOLDER, Doomed, Manifest, check_deletable, read_manifest
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.reach import Reach, path_digest
from olympia_cli.ops.retention import Counted, Past, Policy, Versions, why_kept
from olympia_cli.ops.store_clock import store_now_millis
from olympia_cli.storage.protocol import FileInfo, Store

HOUR_MILLIS = 3_600_000
FLOOR_MILLIS = HOUR_MILLIS
"""Neither grace nor quarantine is shorter while writers may be running."""

SHOWN = 20


@dataclass(frozen=True, slots=True)
class Kept:
    """A version that stays, and the first reason for it."""

    version: int
    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """What goes into quarantine: versions below `oldest`, and files that nothing kept reaches."""

    oldest: int
    former_oldest: int
    kept: tuple[Kept, ...]
    files: tuple[Doomed, ...]
    young: int
    """Files that nothing reaches and that are too young to say so for sure."""
    unknown: int
    unknown_paths: tuple[str, ...]

    @property
    def expired(self) -> range:
        return range(self.former_oldest, self.oldest)

    @property
    def is_empty(self) -> bool:
        return not self.expired and not self.files


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """What leaves quarantine for good: versions below `purged`, and the files of the manifests that nothing reaches."""

    purged: int
    former_purged: int
    manifests: tuple[str, ...]
    """Of marks that have rested long enough."""
    unfinished: tuple[str, ...]
    """Manifests of an earlier purge that did not get to its end."""
    files: tuple[Doomed, ...]
    abandoned: tuple[str, ...] = ()
    """Manifests of marks that were undone, or never committed: they go, and nothing that they name."""
    rescued: int = 0
    """Files of the manifests that something reaches again."""
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.manifests and not self.unfinished


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    head: int
    mark: MarkPlan
    purge: PurgePlan


def count(files: Iterable[Doomed]) -> dict[str, int]:
    """How many files of each kind."""
    counted = Counter(file.kind for file in files)
    kinds = (FileKind.ROOT, FileKind.NODE, FileKind.DEFINITION, FileKind.TRANSACTION, FileKind.TEMPORARY)
    return {
        kind.value + "s" if kind is not FileKind.TEMPORARY else "temporaries": counted[kind.value] for kind in kinds
    }


@dataclass(frozen=True, slots=True)
class Floors:
    """How old a file must be to go, and how long a mark rests."""

    grace_millis: int
    quarantine_millis: int
    offline: bool = False

    def __post_init__(self) -> None:
        if self.offline:
            return
        for what, millis in (("grace period", self.grace_millis), ("quarantine", self.quarantine_millis)):
            if millis < FLOOR_MILLIS:
                raise Refused(
                    f"a {what} below one hour could take files that a writer is about to use",
                    hint="choose 1h or more, or say --offline when no writer is running",
                )


class Planner:
    """Looks at a catalog once, for one plan: each file that is kept is read once."""

    def __init__(self, catalog: Catalog, floors: Floors, *, probe: bool = True, progress: Progress = SILENT) -> None:
        """`probe` is whether a file may be written to learn the store's time; without, this machine's clock must do."""
        self._catalog = catalog
        self.store: Store = catalog.store
        self.head = catalog.snapshot()
        check_writable(self.head)
        self.definition = self.head.definition
        self.oldest = oldest_version(self.head)
        self.marks = read_quarantine(self.definition)
        self.purged = min(purged_before(self.definition), self.oldest)
        self._floors = floors
        self._progress = progress
        self._notes: dict[str, str] = {}
        now = catalog.clock.now_millis()
        self.store_now = store_now_millis(self.store) if probe else now
        # of two clocks the one that makes everything younger; with no writer about, ages may be below its resolution
        self.now = now if floors.offline else min(now, self.store_now)
        self._reach = Reach(self.store, definitions=True, progress=progress)
        alive = self._live_transactions()
        self._open = [saved for saved in alive if _is_running(saved)]
        # the last save of an aborted one is all that tells a process that holds an older save; so it stays as long
        self._live_ids = {saved.id for saved in alive}

    # Plans

    def expire(self, policy: Policy, not_beyond: int = MAX_VERSION) -> ExpirePlan:
        """Both halves from one walk: what the policy keeps first, then what is in quarantine and stays there.

        Versions from `not_beyond` on are kept whatever the policy says.
        """
        with self._overtaken():
            return self._expire(policy, not_beyond)

    def _expire(self, policy: Policy, not_beyond: int) -> ExpirePlan:
        self._progress.phase("looking for what may go")
        pinned = min(self._pinned(), not_beyond)
        counted = Counted(self.head, self.oldest)
        counted_from = counted.first_of_last(policy.keep_last)
        versions = Versions(self.head, self.oldest, counted.known, self._written())
        oldest = versions.first_kept(policy, counted_from, pinned, self.now, self.store_now)
        kept: list[Kept] = []
        self._progress.phase("reading what is kept")
        self._reach.add(self._explained(versions.kept(), policy, counted_from, pinned, kept))
        self._add_pins()
        mark = self._mark_plan(oldest, tuple(kept), self.resting())
        return ExpirePlan(self.head.version, mark, self._purge_plan(oldest))

    def purge(self) -> PurgePlan:
        """What leaves quarantine now."""
        with self._overtaken():
            return self._purge()

    def _purge(self) -> PurgePlan:
        if not self._rested() and not self._left_behind()[0]:
            return PurgePlan(self.purged, self.purged, (), (), ())
        self.walk_from(self.oldest)
        return self._purge_plan(self.oldest)

    @contextmanager
    def _overtaken(self) -> Iterator[None]:
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

    def oldest_kept(self, policies: Sequence[Policy]) -> list[int]:
        """The oldest version that each of several policies keeps."""
        counted = Counted(self.head, self.oldest)
        limits = [counted.first_of_last(policy.keep_last) for policy in policies]
        pasts = list(Versions(self.head, self.oldest, counted.known, self._written()).pasts())
        pinned = self._pinned()
        return [
            next(
                (past.version for past in pasts if why_kept(past, limit, policy, pinned, self.now, self.store_now)),
                self.head.version,
            )
            for policy, limit in zip(policies, limits, strict=True)
        ]

    def walk_between(self, first: int, end: int | None) -> None:
        """Read what the versions from `first` on need; those from `end` on have been walked before."""
        if end is None:
            self.walk_from(first)
        else:
            self._reach.add(self._roots(first, end))

    def is_old(self, file: FileInfo) -> bool:
        """Whether a file is past the grace period."""
        return self._has_age(file.modified_at_millis, self._floors.grace_millis)

    def _has_age(self, since_millis: int, least_millis: int) -> bool:
        # stores tell times to the second in one place and to the millisecond in another
        return least_millis == 0 or self.store_now - since_millis >= least_millis

    def is_reached(self, digest: bytes) -> bool:
        return self._reach.has(digest)

    # What is kept

    def _written(self) -> dict[int, int]:
        """When the roots were written, by the store's clock. A writer that slept has put an older time into its own."""
        found = {}
        for file in self.store.list("vn/") if not self._floors.offline else ():
            version = parse_root_path(file.path)
            if version is not None and not _is_foreign_root(file.path, version):
                found[version] = file.modified_at_millis
        return found

    def _explained(
        self,
        roots: Iterator[tuple[int, str, bytes]],
        policy: Policy,
        counted_from: int,
        pinned: int,
        kept: list[Kept],
    ) -> Iterator[tuple[str, bytes]]:
        """The roots, with a reason noted for each."""
        before: int | None = None
        for version, path, data in roots:
            created = decode_root(data, path).created_at_millis
            if before is not None:
                kept.append(self._reason(Past(before, created, 0, 0), policy, counted_from, pinned))
            before = version
            yield path, data
        kept.append(Kept(self.head.version, "latest", "the latest version"))

    def _reason(self, past: Past, policy: Policy, counted_from: int, pinned: int) -> Kept:
        reason = why_kept(past, counted_from, policy, pinned, self.now, self.store_now)
        details = {
            "keep-last": f"one of the last {policy.keep_last}",
            "age": f"it was current {policy.since}",
            "transaction": f"a live transaction began at version {pinned}",
        }
        if reason in details:
            return Kept(past.version, reason, details[reason])
        return Kept(past.version, "in-use", "a transaction that began at it, or at an older kept version, may commit")

    def _live_transactions(self) -> list[Saved]:
        """The distributed transactions that are within their lifetime, whatever became of them."""
        return [
            saved
            for saved in distributed.saved_transactions(self.store)
            if self.now <= saved.definition.expire_at_millis + HALF_AN_HOUR_MILLIS
        ]

    def _add_pins(self) -> None:
        """Read what live transactions and sharing exports need."""
        for saved in self._open:
            holder = transaction_save_path(saved.id, saved.save)
            path = check_pointer(saved.definition.running_root_node_file_path, holder)
            what = f"the transaction {saved.id}"
            self._add_pin(path, what, f"if it cannot be committed any more, give it up: txn abort {saved.id}")
        for export in self._sharing_exports():
            if export.pin:
                path = check_pointer(export.pin, self.head.root.catalog_def)
                self._add_pin(path, f"the export {export.name!a}", "if it is of no use any more: export drop")

    def _add_pin(self, path: str, what: str, hint: str) -> None:
        try:
            self._reach.add([(path, self._read(path, "a copy of a root"))])
        except Damaged as error:
            raise Damaged(error.path, f"{error.reason}; {what} needs it", hint=hint) from error

    def _pinned(self) -> int:
        """The oldest version that a live transaction began at, or that an export shares without a pin of its own."""
        return min([*(saved.began_at_version for saved in self._open), self._unpinned_export()])

    def _unpinned_export(self) -> int:
        """The oldest version of a sharing export that another program recorded without a pin: it is kept whole."""
        return min((export.version for export in self._sharing_exports() if not export.pin), default=MAX_VERSION)

    def _sharing_exports(self) -> Iterator[ExportRecord]:
        for name, export in read_exports(self.definition).items():
            if export is None:
                raise Damaged(
                    self.head.root.catalog_def,
                    f"the record of the export {name!a} cannot be read, so nobody knows what it needs",
                    hint="drop the export, or record it again",
                )
            if export.mode != "full" and not export.expired(self.now - HALF_AN_HOUR_MILLIS):
                yield export

    def _read(self, path: str, what: str) -> bytes:
        try:
            return self.store.read(path)
        except PathMissing:
            raise Damaged(path, f"{what} is missing") from None

    # What goes

    def _mark_plan(self, oldest: int, kept: tuple[Kept, ...], resting: set[bytes]) -> MarkPlan:
        self._progress.phase("listing all files")
        doomed: list[Doomed] = []
        unknown_paths: list[str] = []
        later: list[int] = []
        unknown = young = 0
        for file in self.store.list(temporary=True):
            self._progress.advance()
            kind = file_kind(file.path)
            version = parse_root_path(file.path)
            if kind is FileKind.UNKNOWN or file.path.startswith("def/dtxn/") or _is_foreign_root(file.path, version):
                unknown += 1
                if len(unknown_paths) < SHOWN:
                    unknown_paths.append(file.path)
            elif version is not None and version > self.head.version:
                later.append(version)
            elif self._may_go(file, kind, version, oldest) and path_digest(file.path) not in resting:
                if self.is_old(file):
                    doomed.append(Doomed(file.path, file.size, kind.value))
                else:
                    young += 1
        self._check_end(sorted(later))
        return MarkPlan(oldest, self.oldest, kept, in_order(doomed), young, unknown, tuple(unknown_paths))

    def _may_go(self, file: FileInfo, kind: FileKind, version: int | None, oldest: int) -> bool:
        if kind is FileKind.ROOT:
            return version is not None and version < oldest
        if kind in (FileKind.NODE, FileKind.DEFINITION):
            return file.path not in self._reach
        if kind is FileKind.TRANSACTION:
            parsed = parse_transaction_path(file.path)
            return parsed is not None and parsed[0] not in self._live_ids
        return kind is FileKind.TEMPORARY

    def _check_end(self, later: list[int]) -> None:
        """Refuse to act when there may be versions that nobody has looked at: all they reach would seem dead."""
        head = self.head.version
        last = later[-1] if later else head
        listed = set(later)
        for version in range(head + 1, last):
            # a listing takes its time, and may show one version that is committed meanwhile without the one before
            if version not in listed and not self.store.exists(root_path(version)):
                raise Damaged(root_path(version), f"version {version} is missing, but there is a version {last}")
        hint = self.head.file.hint
        if hint is not None and hint > last:
            raise Refused(
                f"vn/latest names version {hint}, but the last root is that of version {head}: one may be lost",
                hint="look with fsck; fsck --repair corrects the hint",
            )

    # Purge

    def _rested(self) -> list[Mark]:
        """The marks that have rested long enough, from the first on."""
        rested: list[Mark] = []
        # one may have been recorded since the mark was planned
        unpinned = self._unpinned_export()
        for mark in self.marks:
            try:
                marked_at = self.store.stat(root_path(mark.version)).modified_at_millis
            except PathMissing:
                marked_at = 0  # itself gone with an older purge
            if not self._has_age(marked_at, self._floors.quarantine_millis) or mark.oldest > unpinned:
                break
            rested.append(mark)
        return rested

    def _left_behind(self) -> tuple[list[Manifest], list[str]]:
        """Manifests that no mark in quarantine names: of purges that were committed and did not end, and the paths of
        those whose mark was undone or never committed. A young one may be a mark about to be committed.
        """
        resting = {mark.manifest for mark in self.marks}
        least = 0 if self._floors.offline else FLOOR_MILLIS
        unfinished, abandoned = [], []
        for file in self.store.list(FOLDER):
            old = self._has_age(file.modified_at_millis, least)
            if file_kind(file.path) is FileKind.OPERATION and file.path not in resting and old:
                manifest = self._manifest(file.path)
                if manifest is not None and manifest.oldest <= self.purged:
                    unfinished.append(manifest)
                elif manifest is not None:
                    abandoned.append(file.path)
        return unfinished, abandoned

    def _manifest(self, path: str) -> Manifest | None:
        """A manifest, or None: what one that is lost would have named is found again by the next mark."""
        try:
            return read_manifest(self.store, check_pointer(path, self.head.root.catalog_def))
        except Damaged as error:
            self._notes[path] = f"{error.message}; the next expire finds again what it named"
            return None

    def resting(self) -> set[bytes]:
        """The files that are in quarantine, or about to go for good, as digests."""
        marked = [found for mark in self.marks if (found := self._manifest(mark.manifest)) is not None]
        return {path_digest(file.path) for manifest in marked + self._left_behind()[0] for file in manifest.files}

    def _purge_plan(self, walked_from: int) -> PurgePlan:
        """What the rested marks free, given that the versions from `walked_from` on have been walked."""
        rested, (unfinished, abandoned) = self._rested(), self._left_behind()
        if not rested and not unfinished:
            return PurgePlan(self.purged, self.purged, (), (), ())
        purged = max([self.purged, *(mark.oldest for mark in rested)])
        # versions that stay in quarantine can be brought back, so all that they reach is kept too
        self._reach.add(self._roots(purged, walked_from))
        chosen = [found for mark in rested if (found := self._manifest(mark.manifest)) is not None] + unfinished
        files = {file.path: file for file in self._leftovers(purged)}
        rescued = 0
        gone = self._gone(unfinished)
        for manifest in chosen:
            check_deletable(manifest.files, purged, manifest.path)
            for file in manifest.files:
                if self.is_live(file.path):
                    rescued += 1
                elif file.path not in gone:
                    files[file.path] = file
        return PurgePlan(
            purged=purged,
            former_purged=self.purged,
            manifests=tuple(mark.manifest for mark in rested),
            unfinished=tuple(manifest.path for manifest in unfinished),
            abandoned=tuple(abandoned),
            files=in_order(files.values()),
            rescued=rescued,
            notes=tuple(self._notes.values()),
        )

    def _gone(self, unfinished: Iterable[Manifest]) -> set[str]:
        """What an earlier purge got to delete of its files."""
        named = {file.path for manifest in unfinished for file in manifest.files}
        if named:
            named.difference_update(file.path for file in self.store.list(temporary=True))
        return named

    def is_live(self, path: str) -> bool:
        parsed = parse_transaction_path(path)
        if parsed is not None:
            return parsed[0] in self._live_ids
        return path in self._reach

    def _roots(self, first: int, end: int) -> Iterator[tuple[str, bytes]]:
        for path, data in self.store.read_many(root_path(version) for version in range(first, end)):
            if isinstance(data, PathMissing):
                raise Damaged(path, f"version {parse_root_path(path)}, which is in quarantine, is missing")
            if isinstance(data, Exception):
                raise data
            yield path, data

    def _leftovers(self, purged: int) -> Iterator[Doomed]:
        """Roots below what is purged that no manifest names: written by one that slept, and never part of history."""
        for file in self.store.list("vn/"):
            version = parse_root_path(file.path)
            if (
                version is not None
                and version < purged
                and self.is_old(file)
                and not _is_foreign_root(file.path, version)
            ):
                yield Doomed(file.path, file.size, FileKind.ROOT.value)


def _is_running(saved: Saved) -> bool:
    """Whether a distributed transaction is neither committed nor aborted."""
    return bool(saved.definition.running_root_node_file_path) and saved.committed_version is None


def in_order(files: Iterable[Doomed]) -> tuple[Doomed, ...]:
    """Whatever leads to other files before those: roots, the oldest first, transactions, then nodes and definitions."""
    return tuple(sorted(files, key=lambda file: (_ORDER[file.kind], parse_root_path(file.path) or 0, file.path)))


_ORDER = {
    kind.value: at
    for at, kind in enumerate(
        (FileKind.ROOT, FileKind.TRANSACTION, FileKind.NODE, FileKind.DEFINITION, FileKind.TEMPORARY)
    )
}


def _is_foreign_root(path: str, version: int | None) -> bool:
    """Whether it is named like a root of another program's catalogs."""
    return version is not None and len(path) != len("vn/") + WIDTH
