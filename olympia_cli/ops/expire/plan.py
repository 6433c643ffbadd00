"""What an expire would do: which versions and files go into quarantine, and which leave it for good. Nothing is written
here but a probe of the store's clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import check_writable
from olympia_cli.catalog.known_damage import damaged_versions
from olympia_cli.catalog.protection import kept_aside_before, names_lost
from olympia_cli.catalog.quarantine import QuarantineMark, purged_before, read_purging, read_quarantine
from olympia_cli.catalog.references import behind_gap
from olympia_cli.catalog.snapshot import EXPIRE_OLDEST, expired_before
from olympia_cli.catalog.versions import read_hints
from olympia_cli.errors import CommitConflict, Damaged, PathMissing, Refused, StorageFull
from olympia_cli.format.paths import MAX_VERSION, FileKind, file_kind, parse_root_path, root_path
from olympia_cli.ops.expire.files import Going, Listed
from olympia_cli.ops.expire.holders import Holders, PinnedRoot, store_now_millis
from olympia_cli.ops.expire.manifest import FOLDER, left_behind
from olympia_cli.ops.expire.retention import CountedVersions, Limits, Policy, Versions, explain_kept, why_kept
from olympia_cli.ops.expire.survey import LOCAL, Survey, Surveyor
from olympia_cli.ops.expire.sweep import FileFacts, FileFate, Sweep, has_age, is_foreign_root
from olympia_cli.ops.expire.values import FLOOR_MILLIS, ExpirePlan, Floors, MarkPlan, PurgePlan
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk.facts import NodeRules
from olympia_cli.storage.protocol import Store

MAKE_ROOM, OFFLINE = "free some space, or stop all writers and let a purge make room", ("expire", "purge", "--offline")


def without_room(error: StorageFull) -> StorageFull:
    """The error of a full store, where something is in quarantine."""
    return StorageFull(error.message, hint=MAKE_ROOM, command=OFFLINE)


class Planner:
    """Looks at a catalog once, for one plan: each file that is kept is read once."""

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
        """`surveyor` goes through the files, here or elsewhere. `probe` is whether a file may be written to learn the
        store's time; without, this machine's clock must do. `definitions` is whether the definitions of objects are
        read too, as they must be before anything is done. `forgets` lets the versions go that a promotion kept aside.
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
        # of two clocks the one that makes everything younger; with no writer about, ages may be below its resolution
        self.now = now if floors.offline else min(now, self.store_now)
        self._written = self._list_roots()
        self.oldest = self._oldest()
        self.purged = min(purged_before(self.definition), self.oldest)
        keeps_aside = self.oldest < kept_aside_before(self.definition) and not forgets
        self._aside_from = self.oldest if keeps_aside else MAX_VERSION
        self.damaged = damaged_versions(self.definition, self.purged, self.head.version - 1)
        """Versions that are kept or can be brought back, and are known to be damaged or may be."""
        self.reach = surveyor.reach(self.store, NodeRules.of(self.head), definitions=definitions, progress=progress)
        self._holders = Holders(self.head, self.now, self._written)

    def _probed(self, now: int) -> int:
        """The time by the store's clock. Where a full store takes no probe, and no writer is running, this machine's
        clock must do."""
        try:
            return store_now_millis(self.store)
        except StorageFull as error:
            if self.floors.offline:
                return now
            raise without_room(error) if self.marks else error from error

    # Plans

    def expire(self, policy: Policy, not_beyond: int = MAX_VERSION) -> ExpirePlan:
        """Both halves from one walk: what the policy keeps first, then what is in quarantine and stays there.

        Versions from `not_beyond` on are kept whatever the policy says.
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
        """What leaves quarantine now."""
        with self.overtaken():
            leaving = self.leaving
            if leaving.is_empty:
                return leaving
            # what an unfinished purge has left to delete is seen in a listing of everything
            kinds = () if leaving.unfinished else (FileKind.ROOT, FileKind.TRANSACTION)
            sweep = replace(self._sweep(self.oldest), manifests=leaving.all_manifests, kinds=kinds)
            return self._purge(self.surveyor.survey(self, sweep, Versions(self.head, self.oldest).kept()))

    def _purge(self, survey: Survey) -> PurgePlan:
        if self.leaving.is_empty:
            return self.leaving
        rescued = survey.counts[FileFate.RESCUED]
        return replace(self.leaving, files=survey.purged, rescued=rescued, notes=survey.notes)

    def still_dead(self, plan: PurgePlan) -> Going:
        """Those of a plan's files that nothing needs by now, given that the versions which it leaves can come back."""
        leaving = frozenset(plan.all_manifests)
        sweep = replace(self._bare_sweep(self.oldest), leaving=leaving, purged=plan.purged)
        return self.surveyor.survey(self, sweep, Versions(self.head, self.oldest).kept(), plan.files).purged

    # What decides about each file

    def sweep_at_rest(self, oldest: int) -> Sweep:
        """What decides when the versions from this one on stay, and nothing leaves quarantine."""
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
        """Those of some files that something needs, as far as this planner has looked."""
        needs = self._bare_sweep(self.oldest).needs
        files = (FileFacts(path, file_kind(path), None, reached=path in self.reach) for path in paths)
        return (file.path for file in files if needs(file))

    def pins(self) -> Iterator[PinnedRoot]:
        """The roots that live transactions and sharing exports need."""
        return self._holders.pins()

    @contextmanager
    def overtaken(self) -> Iterator[None]:
        """What is missing because another expire deletes it meanwhile is not damage."""
        try:
            yield
        except (Damaged, PathMissing) as error:
            if not self.is_overtaken():
                raise
            raise CommitConflict(f"another expire was first: {error.message}", hint="run it again") from error

    def is_overtaken(self) -> bool:
        """Whether another expire has purged versions since this planner looked."""
        return purged_before(self.catalog.snapshot().definition) > purged_before(self.definition)

    def oldest_kept(self, policies: Sequence[Policy]) -> list[int]:
        """The oldest version that each of several policies keeps."""
        counted = CountedVersions(self.head, self.oldest)
        limits = [self._limits(counted.first_of_last(policy.keep_last), MAX_VERSION) for policy in policies]
        pasts = list(Versions(self.head, self.oldest, counted.known_roots, self._written).pasts())
        return [
            next((past.version for past in pasts if why_kept(past, policy, limit)), self.head.version)
            for policy, limit in zip(policies, limits, strict=True)
        ]

    # Which versions there are

    def _list_roots(self) -> dict[int, int]:
        """The versions that have a root, and when it was written by the store's clock.

        Refuses to act when there may be versions that nobody has looked at: all that they reach would seem dead.
        """
        head = self.head.version
        written = {}
        for file in self.store.list("vn/"):
            version = parse_root_path(file.path)
            if version is not None and not is_foreign_root(file.path, version):
                written[version] = file.modified_at_millis
        last = max([head, *written])
        for version in range(head + 1, last):
            # a listing takes its time, and may show one version that is committed meanwhile without the one before
            if version not in written and not self.store.exists(root_path(version)):
                raise behind_gap(self.head, version, last)
        hint = self.head.file.hint
        if names_lost(hint, last, self.definition):
            raise Refused(
                f"vn/latest names version {hint}, but the last root is that of version {head}: one may be lost",
                hint="see what a repair would correct",
                command=("fsck", "--repair", "--dry-run"),
            )
        return written

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
                    hint="see what a repair would correct",
                    command=("fsck", "--repair", "--dry-run"),
                )
        if oldest > self.head.version:
            raise Refused(
                f"the oldest version is said to be {oldest}, beyond the latest", hint="look at it", command=("fsck",)
            )
        return oldest

    # What is kept

    def _choose(self, policy: Policy, not_beyond: int) -> tuple[Versions, Limits, int]:
        """The versions from the first that stays on, and which that is."""
        self.progress.phase("looking for what may go")
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
        """The marks that have rested long enough, from the first on."""
        rested: list[QuarantineMark] = []
        for mark in self.marks:
            old = has_age(self.store_now, self._written_at(mark.version), self.floors.quarantine_millis)
            # an export may have been recorded since the mark was planned
            if not old or mark.oldest > self._holders.exports_from:
                break
            rested.append(mark)
        return rested

    def _written_at(self, version: int) -> int:
        """When a root was written; 0 when it is gone itself with an older purge."""
        if version not in self._written:
            # or a listing lags, and the root is too young to be in it
            with suppress(PathMissing):
                return self.store.stat(root_path(version)).modified_at_millis
        return self._written.get(version, 0)

    @property
    def leaving(self) -> PurgePlan:
        """What is to leave quarantine, before anybody has looked at the files."""
        # not a cached_property: up to Python 3.11 one planner would wait for the listing of another
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
            # a catalog may begin at a later version than the first
            former_purged=max([self.purged, *(mark.former_oldest for mark in rested[:1])]),
            manifests=manifests,
            unfinished=unfinished,
            files=Listed(),
            abandoned=abandoned,
            parts=parts,
        )
