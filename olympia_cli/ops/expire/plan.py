"""Expire plans: the versions and files to move into quarantine, and those to delete. This module writes nothing but a
probe of the store's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import check_writable
from olympia_cli.catalog.references import behind_gap
from olympia_cli.catalog.retained import (
    QuarantineMark,
    damaged_versions,
    kept_aside_before,
    names_lost,
    purged_before,
    read_purging,
    read_quarantine,
)
from olympia_cli.catalog.snapshot import EXPIRE_OLDEST, expired_before
from olympia_cli.catalog.versions import read_hints
from olympia_cli.errors import CommitConflict, Damaged, PathMissing, Refused, StorageFull
from olympia_cli.format.paths import MAX_VERSION, FileKind, file_kind, parse_root_path, root_path
from olympia_cli.ops.expire.holders import Holders, PinnedRoot, store_now_millis
from olympia_cli.ops.expire.manifest import FOLDER, left_behind
from olympia_cli.ops.expire.retention import (
    FLOOR_MILLIS,
    CountedVersions,
    ExpirePlan,
    Floors,
    Limits,
    MarkPlan,
    Policy,
    PurgePlan,
    Versions,
    explain_kept,
    read_policy,
    why_kept,
)
from olympia_cli.ops.expire.survey import LOCAL, Going, KnownFiles, Listed, Survey, Surveyor, follow_kept, follow_more
from olympia_cli.ops.expire.sweep import FileFacts, FileFate, Sweep, has_age, is_foreign_root
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk import NodeRules
from olympia_cli.storage.protocol import Store

MAKE_ROOM, OFFLINE = "free some space, or stop all writers and let a purge free space", ("expire", "purge", "--offline")


def without_room(error: StorageFull) -> StorageFull:
    """Return the error of a full store, with the advice for a catalog with files in quarantine."""
    return StorageFull(error.message, hint=MAKE_ROOM, command=OFFLINE)


class Planner:
    """Reads a catalog for one plan. Each file in use is read once."""

    def __init__(
        self,
        catalog: Catalog,
        floors: Floors,
        surveyor: Surveyor = LOCAL,
        *,
        probe: bool = True,
        definitions: bool = True,
        forgets: bool = False,
        progress: Progress = SILENT,
    ) -> None:
        """`surveyor` examines the files, in this process or elsewhere. With `probe`, a file is written to learn the
        store's time; without, this machine's clock is used. With `definitions`, definitions of objects are read, as
        every deletion requires. With `forgets`, versions may go that a promotion has kept aside.
        """
        self.catalog = catalog = catalog.anew()
        self.surveyor = surveyor
        self.store: Store = catalog.store
        self.head = catalog.snapshot()
        check_writable(self.head)
        self.definition = self.head.definition
        self.marks = read_quarantine(self.definition)
        self.floors = floors
        self.progress = progress
        self._leaving: PurgePlan | None = None
        now = catalog.clock.now_millis()
        self.store_now = self._probed(now) if probe else now
        # the earlier of both clocks makes files appear younger; offline, ages may be below its resolution
        self.now = now if floors.offline else min(now, self.store_now)
        self._written = self._list_roots()
        self.oldest = self._oldest()
        self.purged = min(purged_before(self.definition), self.oldest)
        keeps_aside = self.oldest < kept_aside_before(self.definition) and not forgets
        self._aside_from = self.oldest if keeps_aside else MAX_VERSION
        self.damaged = damaged_versions(self.definition, self.purged, self.head.version - 1)
        """Versions that are kept or can be restored, and may be damaged."""
        self.reach = surveyor.reach(self.store, NodeRules.of(self.head), definitions=definitions, progress=progress)
        self._holders = Holders(self.head, self.now, self._written)

    def _probed(self, now: int) -> int:
        """Return the time by the store's clock. If a full store takes no probe and no writer is running, use this
        machine's clock.
        """
        try:
            return store_now_millis(self.store)
        except StorageFull as error:
            if self.floors.offline:
                return now
            raise without_room(error) if self.marks else error from error

    # Plans

    def expire(self, policy: Policy, not_beyond: int = MAX_VERSION) -> ExpirePlan:
        """Plan the mark and the purge from one walk: first the versions that the policy keeps, then those that stay in
        quarantine.

        Versions from `not_beyond` on are kept in any case.
        """
        with self.overtaken():
            versions, limits, oldest = self._choose(policy, not_beyond)
            survey = self.surveyor.survey(self, self._sweep(oldest), versions.kept())
            mark = MarkPlan(
                oldest=oldest,
                former_oldest=self.oldest,
                kept_versions=tuple(explain_kept(survey.created, policy, limits)),
                files=survey.quarantined,
                young=survey.counts[FileFate.YOUNG],
                unknown=survey.counts[FileFate.UNKNOWN],
                unknown_paths=survey.unknown_paths,
                damaged=tuple(sorted(version for version in self.damaged if version >= oldest)),
                aside_before=kept_aside_before(self.definition),
            )
            return ExpirePlan(self.head.version, mark, self._purge(survey))

    def purge(self) -> PurgePlan:
        """Plan a purge alone."""
        with self.overtaken():
            leaving = self.leaving
            if leaving.is_empty:
                return leaving
            # only a full listing shows the remaining files of an unfinished purge
            kinds = () if leaving.unfinished else (FileKind.ROOT, FileKind.TRANSACTION)
            sweep = replace(self._sweep(self.oldest), manifests=leaving.all_manifests, kinds=kinds)
            return self._purge(self.surveyor.survey(self, sweep, Versions(self.head, self.oldest).kept()))

    def _purge(self, survey: Survey) -> PurgePlan:
        if self.leaving.is_empty:
            return self.leaving
        rescued = survey.counts[FileFate.RESCUED]
        return replace(self.leaving, files=survey.purged, rescued=rescued, notes=survey.notes)

    def still_dead(self, plan: PurgePlan) -> Going:
        """Return the planned files that are still unused. The versions that stay in quarantine count as users."""
        leaving = frozenset(plan.all_manifests)
        sweep = replace(self._bare_sweep(self.oldest), leaving=leaving, purged=plan.purged)
        return self.surveyor.survey(self, sweep, Versions(self.head, self.oldest).kept(), plan.files).purged

    # What decides about each file

    def sweep_at_rest(self, oldest: int) -> Sweep:
        """Return the sweep for keeping versions from `oldest` on, without a purge."""
        manifests = (*(mark.manifest for mark in self.marks), *self.leaving.unfinished)
        return replace(self._bare_sweep(oldest), manifests=manifests)

    def _sweep(self, oldest: int) -> Sweep:
        sweep, leaving = self.sweep_at_rest(oldest), self.leaving
        if leaving.is_empty:
            return sweep
        manifests = frozenset(leaving.all_manifests)
        return replace(sweep, leaving=manifests, purged=leaving.purged, unfinished=bool(leaving.unfinished))

    def _bare_sweep(self, oldest: int) -> Sweep:
        return Sweep(
            oldest=oldest,
            latest=self.head.version,
            pins=tuple(pin.path for pin in self.pins()),
            live_transactions=frozenset(self._holders.live_ids),
            store_now_millis=self.store_now,
            grace_millis=self.floors.grace_millis,
            damaged=max(self.damaged, default=-1),
        )

    def needed(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the paths that are in use, as far as this planner knows."""
        needs = self._bare_sweep(self.oldest).needs
        files = (FileFacts(path, file_kind(path), None, reached=path in self.reach) for path in paths)
        return (file.path for file in files if needs(file))

    def pins(self) -> Iterator[PinnedRoot]:
        """Yield the roots that live transactions and sharing exports need."""
        return self._holders.pins()

    @contextmanager
    def overtaken(self) -> Iterator[None]:
        """Raise CommitConflict instead of Damaged for files that another expire has deleted in the meantime."""
        try:
            yield
        except (Damaged, PathMissing) as error:
            if not self.is_overtaken():
                raise
            raise CommitConflict(f"another expire was first: {error.message}", hint="run it again") from error

    def is_overtaken(self) -> bool:
        """Return whether another expire has purged versions since this planner was created."""
        return purged_before(self.catalog.snapshot().definition) > purged_before(self.definition)

    def oldest_kept(self, policies: Sequence[Policy]) -> list[int]:
        """Return the oldest version that each policy keeps."""
        counted = CountedVersions(self.head, self.oldest)
        limits = [self._limits(counted.first_of_last(policy.keep_last), MAX_VERSION) for policy in policies]
        pasts = list(Versions(self.head, self.oldest, counted.known_roots, self._written).pasts())
        return [
            next((past.version for past in pasts if why_kept(past, policy, limit)), self.head.version)
            for policy, limit in zip(policies, limits, strict=True)
        ]

    # Which versions there are

    def _list_roots(self) -> dict[int, int]:
        """Return the time of each version's root by the store's clock.

        Raise an error if there may be unknown versions, as their files would appear unused.
        """
        head = self.head.version
        written = {}
        for file in self.store.list("vn/"):
            version = parse_root_path(file.path)
            if version is not None and not is_foreign_root(file.path, version):
                written[version] = file.modified_at_millis
        last = max([head, *written])
        for version in range(head + 1, last):
            # a listing is not atomic: it may show a new version without the one before it
            if version not in written and not self.store.exists(root_path(version)):
                raise behind_gap(self.head, version, last)
        hint = self.head.file.hint
        if names_lost(hint, last, self.definition):
            raise Refused(
                f"vn/latest names version {hint}, but the last root is that of version {head}: one may be lost",
                hint="show what a repair would change",
                command=("fsck", "--repair", "--dry-run"),
            )
        return written

    def _oldest(self) -> int:
        """Return the oldest version, which need not have a root.

        Before the first expire, readers use the hint `vn/oldest`. No file is deleted because of a hint.
        """
        if EXPIRE_OLDEST in self.definition.properties:
            oldest = expired_before(self.definition)
        else:
            oldest = read_hints(self.store).oldest or 0
            if before := [version for version in self._written if version < oldest]:
                raise Refused(
                    f"vn/oldest says {oldest}, but no expire has run, and version {min(before)} is there",
                    hint="show what a repair would change",
                    command=("fsck", "--repair", "--dry-run"),
                )
        if oldest > self.head.version:
            raise Refused(
                f"the oldest version is given as {oldest}, later than the latest",
                hint="check the catalog",
                command=("fsck",),
            )
        return oldest

    # What is kept

    def _choose(self, policy: Policy, not_beyond: int) -> tuple[Versions, Limits, int]:
        """Return the kept versions, the limits, and the oldest kept version."""
        self.progress.phase("selecting versions to expire")
        counted = CountedVersions(self.head, self.oldest)
        limits = self._limits(counted.first_of_last(policy.keep_last), not_beyond)
        versions = Versions(self.head, self.oldest, counted.known_roots, self._written)
        return versions, limits, versions.first_kept(policy, limits)

    def _limits(self, counted_from: int, not_beyond: int) -> Limits:
        return Limits(
            counted_from=counted_from,
            transactions_from=self._holders.transactions_from,
            exports_from=self._holders.exports_from,
            plan_from=not_beyond,
            aside_from=self._aside_from,
            now_millis=self.now,
            store_now_millis=self.store_now,
        )

    # What leaves quarantine

    def _rested(self) -> list[QuarantineMark]:
        """Return the marks that have been in quarantine long enough, up to the first that has not."""
        rested: list[QuarantineMark] = []
        for mark in self.marks:
            old = has_age(self.store_now, self._written_at(mark.version), self.floors.quarantine_millis)
            # an export may have been recorded after the mark was planned
            if not old or mark.oldest > self._holders.exports_from:
                break
            rested.append(mark)
        return rested

    def _written_at(self, version: int) -> int:
        """Return the time of a root, or 0 if an older purge has deleted it."""
        if version not in self._written:
            # a listing that lags may lack a young root
            with suppress(PathMissing):
                return self.store.stat(root_path(version)).modified_at_millis
        return self._written.get(version, 0)

    @property
    def leaving(self) -> PurgePlan:
        """The purge without its files, which are not yet examined."""
        # not a cached_property: up to Python 3.11 its lock would block other planners during the listing
        if self._leaving is None:
            self._leaving = self._look_for_leaving()
        return self._leaving

    def _look_for_leaving(self) -> PurgePlan:
        rested = self._rested()
        manifests = tuple(mark.manifest for mark in rested)
        least = 0 if self.floors.offline else FLOOR_MILLIS
        unfinished, abandoned, parts = left_behind(
            self.store.list(FOLDER),
            resting=[mark.manifest for mark in self.marks],
            leaving=manifests,
            purging=read_purging(self.definition),
            old_enough=lambda file: has_age(self.store_now, file.modified_at_millis, least),
        )
        return PurgePlan(
            purged=max([self.purged, *(mark.oldest for mark in rested)]),
            # the first version of a catalog may be greater than 0
            former_purged=max([self.purged, *(mark.former_oldest for mark in rested[:1])]),
            manifests=manifests,
            unfinished=unfinished,
            files=Listed(),
            abandoned=abandoned,
            parts=parts,
        )


# The space that each of several policies would free, from one walk over all versions.

KEEP_LAST = (1, 10, 100)
AGES = ("3d", "7d", "30d", "90d")
_BY_POLICY = (FileKind.ROOT, FileKind.NODE, FileKind.DEFINITION)
"""Files of other kinds go, or stay, under every policy."""


@dataclass(frozen=True, slots=True)
class PolicyOutcome:
    """The versions and files that a policy would take out of history."""

    policy: str
    oldest: int
    versions: int
    files: int
    bytes: int


def simulate(planner: Planner, own: Policy) -> list[PolicyOutcome]:
    """Return the outcome of the given policy and of some others. Each other policy changes one of the catalog's two
    limits.
    """
    definition, now = planner.definition, planner.now
    policies = [("as asked", own)]
    for age in AGES:
        # an age below a transaction's lifetime is refused
        with suppress(Refused):
            policy = read_policy(definition, now, older_than=age, offline=own.offline)
            policies.append((f"--older-than {age}", policy))
    for number in KEEP_LAST:
        policy = read_policy(definition, now, keep_last=number, offline=own.offline)
        policies.append((f"--keep-last {number}", policy))
    oldest = planner.oldest_kept([policy for _, policy in policies])
    known_files = KnownFiles(planner.reach)
    known_files.read_manifests(planner, planner.sweep_at_rest(planner.oldest))
    going = [file for file in planner.store.list() if file_kind(file.path) in _BY_POLICY]
    freed: dict[int, tuple[int, int]] = {}
    # more versions use more files: so each file is read once, and counted until a version uses it
    for version in sorted(set(oldest), reverse=True):
        if freed:
            for _ in follow_more(planner, range(version, min(freed))):
                pass
        else:
            follow_kept(planner, Versions(planner.head, version).kept())
        fate = planner.sweep_at_rest(version).fate
        going = [
            file for file in going if fate(known_files.of(file.path, file.modified_at_millis)) is FileFate.QUARANTINED
        ]
        freed[version] = len(going), sum(file.size for file in going)
    return [
        PolicyOutcome(name, version, version - planner.oldest, *freed[version])
        for (name, _), version in zip(policies, oldest, strict=True)
    ]
