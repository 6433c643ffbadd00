"""Expire plans: the versions and files to move into quarantine, and those to delete.

The survey reads the facts. A plan is a pure function of facts and policy. This module writes nothing but a probe of the
store's clock.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import repeat
from typing import Any

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.retained import (
    QuarantineMark,
    kept_aside_before,
    purged_before,
    read_purging,
    read_quarantine,
)
from olympia_cli.catalog.snapshot import Snapshot, expired_before
from olympia_cli.errors import CommitConflict, Damaged, InvalidOption, PathMissing, Refused, quoted
from olympia_cli.format.paths import MAX_VERSION, FileKind, file_kind
from olympia_cli.format.strict_json import read_request
from olympia_cli.names import time_text
from olympia_cli.ops.expire.facts import CatalogFacts, read_facts
from olympia_cli.ops.expire.manifest import Doomed, Going, Listed, left_behind, manifest_of
from olympia_cli.ops.expire.retention import (
    FLOOR_MILLIS,
    CountedVersions,
    Floors,
    KeptVersion,
    Limits,
    Policy,
    Versions,
    explain_kept,
    read_policy,
    why_kept,
)
from olympia_cli.ops.expire.survey import (
    LOCAL,
    FileFacts,
    FileFate,
    KeptRoots,
    KnownFacts,
    Survey,
    Surveyor,
    Sweep,
    follow_kept,
    follow_more,
    has_age,
)
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.walk import NodeRules

# The parts of a plan.


@dataclass(frozen=True, slots=True)
class MarkPlan:
    """The versions and files to move into quarantine: versions below `oldest`, and unused files."""

    oldest: int
    former_oldest: int
    kept_versions: tuple[KeptVersion, ...]
    files: Going
    young: int
    """The number of unused files that are still within the grace period."""
    unknown: int
    unknown_paths: tuple[str, ...]
    damaged: tuple[int, ...] = ()
    """Kept versions known to be damaged. They may reach any file, so no node and no definition goes."""
    aside_before: int = 0
    """Versions below it belong to a former catalog, are kept aside, and count as damaged."""

    @property
    def expired(self) -> range:
        return range(self.former_oldest, self.oldest)

    @property
    def is_empty(self) -> bool:
        return not self.expired and not self.files.totals.files


@dataclass(frozen=True, slots=True)
class PurgePlan:
    """The versions and files to delete: versions below `purged`, and unused files of the manifests."""

    purged: int
    former_purged: int
    manifests: tuple[str, ...]
    """The manifests of marks that have been in quarantine long enough."""
    unfinished: tuple[str, ...]
    """The manifests of an earlier purge that did not finish."""
    files: Going
    abandoned: tuple[str, ...] = ()
    """The manifests of marks that were undone or never committed. They are deleted, but not the files that
    they name.
    """
    parts: tuple[str, ...] = ()
    """The parts of the manifests."""
    rescued: int = 0
    """The number of files in the manifests that are used again."""
    notes: tuple[str, ...] = ()

    @property
    def is_empty(self) -> bool:
        return not self.all_manifests

    @property
    def all_manifests(self) -> tuple[str, ...]:
        """The manifests whose files are deleted."""
        return (*self.manifests, *self.unfinished)

    @property
    def versions(self) -> range:
        return range(self.former_purged, self.purged)

    def describe(self) -> dict[str, Any]:
        return {"versions": list(self.versions), **_described(self.files)}

    def summary(self) -> dict[str, Any]:
        """Return `describe` with numbers in place of lists."""
        return {"versions": len(self.versions), **_described(self.files)}


@dataclass(frozen=True, slots=True)
class ExpirePlan:
    head: int
    mark: MarkPlan
    purge: PurgePlan

    @property
    def is_empty(self) -> bool:
        return self.purge.is_empty and self.mark.is_empty

    def describe(self) -> dict[str, Any]:
        mark = self.mark
        return {
            "oldest": mark.oldest,
            "expired_versions": list(mark.expired),
            "kept_versions": [asdict(version) for version in mark.kept_versions],
            **_described(mark.files),
            "purged": self.purge.describe(),
            "young_files": mark.young,
            "unknown_files": {"count": mark.unknown, "paths": list(mark.unknown_paths)},
            "damaged_versions": list(mark.damaged),
        }

    def summary(self) -> dict[str, Any]:
        """Return `describe` with numbers in place of lists."""
        mark = self.mark
        return {
            "oldest": mark.oldest,
            "expired": len(mark.expired),
            **_described(mark.files),
            "purged": self.purge.summary(),
        }


@dataclass(frozen=True, slots=True)
class UndoPlan:
    """The versions that return from quarantine to history: from `oldest` to `former_oldest`."""

    marks: int
    oldest: int
    former_oldest: int
    first: int
    """The oldest version in quarantine."""

    @property
    def is_empty(self) -> bool:
        # a mark may hold files alone, without versions
        return not self.marks or (not self.versions and bool(self.left))

    @property
    def versions(self) -> range:
        return range(self.oldest, self.former_oldest)

    @property
    def left(self) -> range:
        """The versions that stay in quarantine, because some of their files, or of later versions, are missing."""
        return range(self.first, self.oldest)


def _described(files: Going) -> dict[str, Any]:
    return {"files": files.totals.describe(), "bytes": files.totals.bytes}


# Plans are pure functions of the facts.


def plan_undo(head: Snapshot, back_to: int = 0) -> UndoPlan:
    """Plan the return of the versions in quarantine: all of them, or those from `back_to` on."""
    marks, oldest = read_quarantine(head.definition), expired_before(head.definition)
    first = marks[0].former_oldest if marks else oldest
    return UndoPlan(len(marks), min(max(first, back_to), oldest), oldest, first)


def rested(facts: CatalogFacts) -> list[QuarantineMark]:
    """Return the marks that have been in quarantine long enough, up to the first that has not."""
    marks: list[QuarantineMark] = []
    for mark in facts.marks:
        old = has_age(facts.store_now_millis, facts.marked_at[mark.version], facts.floors.quarantine_millis)
        # an export may have been recorded after the mark was planned
        if not old or mark.oldest > facts.holders.exports_from:
            break
        marks.append(mark)
    return marks


def plan_leaving(facts: CatalogFacts) -> PurgePlan:
    """Return the purge without its files, which are not yet examined."""
    marks = rested(facts)
    manifests = tuple(mark.manifest for mark in marks)
    least = 0 if facts.floors.offline else FLOOR_MILLIS
    unfinished, abandoned, parts = left_behind(
        facts.notes,
        resting=[mark.manifest for mark in facts.marks],
        leaving=manifests,
        purging=read_purging(facts.definition),
        old_enough=lambda file: has_age(facts.store_now_millis, file.modified_at_millis, least),
    )
    return PurgePlan(
        purged=max([facts.purged, *(mark.oldest for mark in marks)]),
        # the first version of a catalog may be greater than 0
        former_purged=max([facts.purged, *(mark.former_oldest for mark in marks[:1])]),
        manifests=manifests,
        unfinished=unfinished,
        files=Listed(),
        abandoned=abandoned,
        parts=parts,
    )


def sweep_at_rest(facts: CatalogFacts, oldest: int, leaving: PurgePlan) -> Sweep:
    """Return the sweep for keeping versions from `oldest` on, without a purge."""
    manifests = (*(mark.manifest for mark in facts.marks), *leaving.unfinished)
    return replace(_bare_sweep(facts, oldest), manifests=manifests)


def _sweep(facts: CatalogFacts, oldest: int, leaving: PurgePlan) -> Sweep:
    sweep = sweep_at_rest(facts, oldest, leaving)
    if leaving.is_empty:
        return sweep
    manifests = frozenset(leaving.all_manifests)
    return replace(sweep, leaving=manifests, purged=leaving.purged, unfinished=bool(leaving.unfinished))


def _bare_sweep(facts: CatalogFacts, oldest: int) -> Sweep:
    return Sweep(
        oldest=oldest,
        latest=facts.head.version,
        pins=tuple(pin.path for pin in facts.holders.pins()),
        live_transactions=facts.holders.live_ids,
        store_now_millis=facts.store_now_millis,
        grace_millis=facts.floors.grace_millis,
        damaged=max(facts.damaged, default=-1),
    )


def _plan_mark(facts: CatalogFacts, policy: Policy, limits: Limits, oldest: int, survey: Survey) -> MarkPlan:
    return MarkPlan(
        oldest=oldest,
        former_oldest=facts.oldest,
        kept_versions=tuple(explain_kept(survey.created, policy, limits)),
        files=survey.quarantined,
        young=survey.counts[FileFate.YOUNG],
        unknown=survey.counts[FileFate.UNKNOWN],
        unknown_paths=survey.unknown_paths,
        damaged=tuple(sorted(version for version in facts.damaged if version >= oldest)),
        aside_before=kept_aside_before(facts.definition),
    )


def _plan_purge(leaving: PurgePlan, survey: Survey) -> PurgePlan:
    if leaving.is_empty:
        return leaving
    return replace(leaving, files=survey.purged, rescued=survey.counts[FileFate.RESCUED], notes=survey.notes)


# From the catalog to its plan.


class ExpirePlanner:
    """Plan an expire: read the facts, choose the versions to keep, and survey the files. Each file in use is read once.

    `surveyor` examines the files, in this process or elsewhere. With `definitions`, definitions of objects are read,
    as every deletion requires. For `probe` and `forgets` see `read_facts`.
    """

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
        self.catalog = catalog.anew()
        self.facts = read_facts(self.catalog, floors, probe=probe, forgets=forgets)
        self.leaving = plan_leaving(self.facts)
        self.surveyor = surveyor
        rules = NodeRules.of(self.facts.head)
        self.reach = surveyor.reach(self.facts.store, rules, definitions=definitions, progress=progress)

    def expire(self, policy: Policy, not_beyond: int = MAX_VERSION) -> ExpirePlan:
        """Plan the mark and the purge from one walk: first the versions that the policy keeps, then those that stay in
        quarantine.

        Versions from `not_beyond` on are kept in any case.
        """
        facts = self.facts
        with self._conflict_if_purged():
            self.reach.progress.phase("selecting versions to expire")
            counted = CountedVersions(facts.head, facts.oldest)
            limits = facts.limits(counted.first_of_last(policy.keep_last), not_beyond)
            versions = Versions(facts.head, facts.oldest, counted.known_roots, facts.written)
            oldest = versions.first_kept(policy, limits)
            survey = self._survey(_sweep(facts, oldest, self.leaving), versions.kept())
            mark = _plan_mark(facts, policy, limits, oldest, survey)
            return ExpirePlan(facts.head.version, mark, _plan_purge(self.leaving, survey))

    def purge(self) -> PurgePlan:
        """Plan a purge alone."""
        facts, leaving = self.facts, self.leaving
        if leaving.is_empty:
            return leaving
        with self._conflict_if_purged():
            # only a full listing shows the remaining files of an unfinished purge
            kinds = () if leaving.unfinished else (FileKind.ROOT, FileKind.TRANSACTION)
            sweep = replace(_sweep(facts, facts.oldest, leaving), manifests=leaving.all_manifests, kinds=kinds)
            return _plan_purge(leaving, self._survey(sweep, Versions(facts.head, facts.oldest).kept()))

    def still_dead(self, plan: PurgePlan) -> Going:
        """Return the planned files that are still unused. The versions that stay in quarantine count as users."""
        facts, leaving = self.facts, frozenset(plan.all_manifests)
        sweep = replace(_bare_sweep(facts, facts.oldest), leaving=leaving, purged=plan.purged)
        return self._survey(sweep, Versions(facts.head, facts.oldest).kept(), plan.files).purged

    def needed(self, paths: Iterable[str]) -> Iterator[str]:
        """Yield the paths that are in use, as far as this planner knows."""
        needs = _bare_sweep(self.facts, self.facts.oldest).needs
        files = (FileFacts(path, file_kind(path), None, reached=path in self.reach) for path in paths)
        return (file.path for file in files if needs(file))

    def _survey(self, sweep: Sweep, roots: KeptRoots, files: Going | None = None) -> Survey:
        survey = self.surveyor.survey(self.facts, self.reach, sweep, roots, files)
        if survey.resting_damage is not None and self.purged_meanwhile():
            raise survey.resting_damage
        return survey

    @contextmanager
    def _conflict_if_purged(self) -> Iterator[None]:
        """Raise CommitConflict instead of Damaged for files that another expire has deleted in the meantime."""
        try:
            yield
        except (Damaged, PathMissing) as error:
            if not self.purged_meanwhile():
                raise
            raise CommitConflict(f"another expire was first: {error.message}", hint="run it again") from error

    def purged_meanwhile(self) -> bool:
        """Return whether another expire has purged versions since the facts were read."""
        return purged_before(self.catalog.snapshot().definition) > purged_before(self.facts.definition)


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


def simulate(planner: ExpirePlanner, own: Policy) -> list[PolicyOutcome]:
    """Return the outcome of the given policy and of some others. Each other policy changes one of the catalog's two
    limits.
    """
    facts = planner.facts
    definition, now = facts.definition, facts.now_millis
    policies = [("as asked", own)]
    for age in AGES:
        # an age below a transaction's lifetime is refused
        with suppress(Refused):
            policy = read_policy(definition, now, older_than=age, offline=own.offline)
            policies.append((f"--older-than {age}", policy))
    for number in KEEP_LAST:
        policy = read_policy(definition, now, keep_last=number, offline=own.offline)
        policies.append((f"--keep-last {number}", policy))
    oldest = _oldest_kept(facts, [policy for _, policy in policies])
    known_files = KnownFacts(planner.reach)
    known_files.read_manifests(facts.head, sweep_at_rest(facts, facts.oldest, planner.leaving))
    going = [file for file in facts.store.list() if file_kind(file.path) in _BY_POLICY]
    freed: dict[int, tuple[int, int]] = {}
    # more versions use more files: so each file is read once, and counted until a version uses it
    for version in sorted(set(oldest), reverse=True):
        if freed:
            for _ in follow_more(facts, planner.reach, range(version, min(freed))):
                pass
        else:
            follow_kept(facts, planner.reach, Versions(facts.head, version).kept())
        sweep = sweep_at_rest(facts, version, planner.leaving)
        times = [file.modified_at_millis for file in going]
        fates = [sweep.fate(file) for file in known_files.of([file.path for file in going], times, repeat(False))]
        going = [file for file, fate in zip(going, fates, strict=True) if fate is FileFate.QUARANTINED]
        freed[version] = len(going), sum(file.size for file in going)
    return [
        PolicyOutcome(name, version, version - facts.oldest, *freed[version])
        for (name, _), version in zip(policies, oldest, strict=True)
    ]


def _oldest_kept(facts: CatalogFacts, policies: Sequence[Policy]) -> list[int]:
    """Return the oldest version that each policy keeps."""
    counted = CountedVersions(facts.head, facts.oldest)
    every_limits = [facts.limits(counted.first_of_last(policy.keep_last)) for policy in policies]
    pasts = list(Versions(facts.head, facts.oldest, counted.known_roots, facts.written).pasts())
    return [
        next((past.version for past in pasts if why_kept(past, policy, limits)), facts.head.version)
        for policy, limits in zip(policies, every_limits, strict=True)
    ]


# Expire plans as files: written, reviewed, and applied later if the catalog still permits.


FORMAT = 1
MOVED = "make a new plan and review it"


@dataclass(frozen=True, slots=True)
class PlanFile:
    """The content of a plan file: the policy with its limits as points in time, and the files to mark and delete."""

    catalog: str
    policy: Policy
    floors: Floors
    oldest: int
    former_oldest: int
    marked: tuple[str, ...]
    purged: int
    manifests: tuple[str, ...]
    unfinished: tuple[str, ...]
    deleted: tuple[str, ...]


def encode_plan(facts: CatalogFacts, policy: Policy, plan: ExpirePlan) -> str:
    document = {
        "format": FORMAT,
        "catalog": facts.store.uri,
        "catalog_id": facts.definition.id,
        "version": plan.head,
        "created_at": time_text(facts.now_millis),
        "policy": asdict(policy),
        "floors": asdict(facts.floors),
        "mark": {
            "oldest": plan.mark.oldest,
            "former_oldest": plan.mark.former_oldest,
            "files": [asdict(file) for file in plan.mark.files],
        },
        "purge": {
            "purged": plan.purge.purged,
            "manifests": list(plan.purge.manifests),
            "unfinished": list(plan.purge.unfinished),
            "files": [asdict(file) for file in plan.purge.files],
        },
    }
    return json.dumps(document, indent=1, ensure_ascii=False) + "\n"


def decode_plan(text: str, name: str) -> PlanFile:
    try:
        document: Any = read_request(text)
        if document["format"] != FORMAT or int(document["policy"]["keep_last"]) < 1:
            raise ValueError
        policy, floors, mark, purge = document["policy"], document["floors"], document["mark"], document["purge"]
        offline = bool(policy["offline"]) and bool(floors["offline"])
        return PlanFile(
            catalog=str(document["catalog_id"]),
            policy=Policy(int(policy["keep_last"]), int(policy["cutoff_millis"]), str(policy["since"]), offline),
            floors=Floors(int(floors["grace_millis"]), int(floors["quarantine_millis"]), offline),
            oldest=int(mark["oldest"]),
            former_oldest=int(mark["former_oldest"]),
            marked=tuple(str(file["path"]) for file in mark["files"]),
            purged=int(purge["purged"]),
            manifests=tuple(str(path) for path in purge["manifests"]),
            unfinished=tuple(str(path) for path in purge["unfinished"]),
            deleted=tuple(str(file["path"]) for file in purge["files"]),
        )
    except (ValueError, KeyError, TypeError):
        raise InvalidOption(
            f"{quoted(name)} is not a plan of expire", hint="make one with expire --plan FILE"
        ) from None


def recompute(planner: ExpirePlanner, planned: PlanFile) -> ExpirePlan:
    """Return the plan for the present state, limited to the planned versions and files.

    Raise Refused if a planned version or file would now be kept. New commits alone are no obstacle.
    """
    if planned.catalog != planner.facts.definition.id:
        raise Refused("the plan is of another catalog", hint="check the location")
    if not planned.former_oldest <= planner.facts.oldest <= planned.oldest:
        raise Refused(f"the oldest version is now {planner.facts.oldest}", hint=MOVED)
    today = planner.expire(planned.policy, not_beyond=planned.oldest)
    if today.mark.oldest != planned.oldest:
        first = today.mark.kept_versions[0]
        raise Refused(f"version {first.version} would now be kept: {first.detail}", hint=MOVED)
    purge = today.purge
    if not set(planned.manifests) <= set(purge.manifests) or planned.purged > purge.purged:
        raise Refused("files to be purged are no longer in quarantine", hint=MOVED)
    unfinished = tuple(path for path in purge.unfinished if path in planned.unfinished)
    leaving = {*planned.manifests, *unfinished}
    return ExpirePlan(
        today.head,
        replace(today.mark, files=_still(planner, planned.marked, today.mark.files)),
        PurgePlan(
            purged=max(planned.purged, purge.former_purged),
            former_purged=purge.former_purged,
            # marks that have become old enough since the plan are left to the next run
            manifests=planned.manifests,
            unfinished=unfinished,
            parts=tuple(path for path in purge.parts if manifest_of(path) in leaving),
            files=_still(planner, planned.deleted, purge.files),
            rescued=purge.rescued,
            notes=purge.notes,
        ),
    )


def _still(planner: ExpirePlanner, planned: Sequence[str], today: Iterable[Doomed]) -> Listed:
    planned_paths, today = set(planned), list(today)
    needed_path = next(planner.needed(planned_paths.difference(file.path for file in today)), None)
    if needed_path is not None:
        raise Refused(f"{needed_path} was to be deleted and would now be kept", hint=MOVED)
    return Listed(file for file in today if file.path in planned_paths)
