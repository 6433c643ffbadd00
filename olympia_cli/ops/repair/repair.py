"""Repair a catalog by rolling forward: a plan to show first, then one new version, and the hints.

A repair overwrites only the hints `vn/latest` and `vn/oldest`. It removes only stray roots, and keeps copies of them. A
damaged version stays in the history unchanged; the version on top of it is sound.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from itertools import islice, pairwise
from typing import Any, Literal

from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.commit import Author, written_by_java
from olympia_cli.catalog.properties import EXPIRE_OLDEST, EXPIRE_PURGED
from olympia_cli.catalog.repair_commit import Built, Repair, check_head, commit_repair
from olympia_cli.catalog.retained import (
    QuarantineMark,
    keep_protection,
    lost_versions,
    purged_before,
    read_quarantine,
    write_quarantine,
)
from olympia_cli.catalog.snapshot import check_supported, expired_before, marked_oldest
from olympia_cli.catalog.versions import Hints, catalog_not_found, read_hints, what_remains
from olympia_cli.errors import CommitConflict, InvalidOption, OlympiaError, PartlyDone, PathMissing, Refused
from olympia_cli.format.definitions import sizes_of
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.paths import JAVA_WIDTH, LATEST, OLDEST, aside_path, root_path
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.names import Kind, ObjectName
from olympia_cli.ops.fsck import (
    SALVAGE,
    ChainRoot,
    LatestVersion,
    begins_as_export,
    describe_object_name,
    latest_ahead,
    list_versions,
    replaceable,
    true_oldest,
)
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.repair.content import (
    FormerCatalog,
    LostRange,
    VersionContent,
    is_same,
    name_order,
    newest_catalog,
    put_together,
)
from olympia_cli.ops.repair.files import RepairFiles
from olympia_cli.ops.repair.holes import read_range
from olympia_cli.ops.walk import failures_pass
from olympia_cli.storage.protocol import Store

# The plan of a repair, as values with their JSON forms.


@dataclass(frozen=True, slots=True)
class RepairStep:
    """A step of a repair: `set aside`, `hint latest`, `hint oldest`, `rollback` or `rebuild`.

    `loses` are the objects that are missing afterwards, `reverts` those that return to an older state. `lost_ranges`
    are ranges of keys with possible losses. `details` describe the damage, and the sources of the rest, line by line.
    """

    kind: str
    text: str
    loses: tuple[ObjectName, ...] = ()
    reverts: tuple[ObjectName, ...] = ()
    lost_ranges: tuple[LostRange, ...] = ()
    details: tuple[str, ...] = ()
    returns: tuple[ObjectName, ...] = ()
    """The objects of `reverts` that do not exist now."""
    doubtful: tuple[ObjectName, ...] = ()
    """The objects that are known only from leftover files."""
    objects: int = 0
    """The number of objects afterwards. A `rollback` counts no object that it returns to an older state."""
    leaves_versions: int = 0
    """The number of versions that nothing can bring back afterwards: lost ones, and those that leave quarantine."""

    @property
    def cost(self) -> tuple[bool, int, int]:
        """The loss, for comparisons. A range of unknown content weighs most."""
        unknown = any(lost.as_of is None for lost in self.lost_ranges)
        return unknown, len(self.loses) + len(self.reverts), len(self.lost_ranges)

    def describe(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "text": self.text,
            "loses": [describe_object_name(name) for name in self.loses],
            "reverts": [describe_object_name(name) for name in self.reverts],
            "lost_ranges": [lost.describe() for lost in self.lost_ranges],
            "details": list(self.details),
            "doubtful": [describe_object_name(name) for name in self.doubtful],
            "leaves_versions": self.leaves_versions,
        }


NO_COST = (False, 0, 0)


@dataclass(frozen=True, slots=True)
class Aside:
    """A file to be moved: its path, the path of its copy, and its content."""

    path: str
    copy_path: str
    data: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class RepairPlan:
    """The steps of a repair of the version `head`, and the alternatives."""

    uri: str
    head: int
    steps: tuple[RepairStep, ...] = ()
    alternatives: tuple[RepairStep, ...] = ()
    unmended: tuple[str, ...] = ()
    """Damage that no repair can fix."""
    repair: Repair | None = None
    hints: tuple[tuple[str, int], ...] = ()
    """The hints to write, each with its version."""
    asides: tuple[Aside, ...] = ()

    @property
    def leaves_versions(self) -> int:
        return sum(step.leaves_versions for step in self.steps)

    @property
    def nothing_to_do(self) -> bool:
        return not self.steps

    @property
    def loses(self) -> tuple[ObjectName, ...]:
        return tuple(name for step in self.steps for name in step.loses)

    def describe(self) -> dict[str, Any]:
        return {
            "head": self.head,
            "nothing_to_do": self.nothing_to_do,
            "steps": [step.describe() for step in self.steps],
            "alternatives": [step.describe() for step in self.alternatives],
            "unmended": list(self.unmended),
        }


# The repair of the hints.


def plan_hints(
    store: Store, hints: Hints, versions: Sequence[int], catalog: FormerCatalog, commits: bool
) -> tuple[list[RepairStep], list[tuple[str, int]], list[str]]:
    """Return the steps and the writes for wrong hints, and texts for hints that cannot be written.

    With `commits`, the repair commits, which also writes `vn/latest`.
    """
    stays = {path: error for path, error in hints.unread.items() if not replaceable(error)}
    head, steps, writes = versions[-1], [], []
    # an unfinished promotion still needs the number
    waits = (
        hints.latest is not None and hints.latest > head and not lost_versions(hints.latest, head, catalog.definition)
    )
    if hints.latest not in (head, head + commits) and LATEST not in stays and not waits:
        steps.append(RepairStep("hint latest", _step(store, hints, LATEST, hints.latest, head + commits)))
        writes.append((LATEST, head + commits))
    marked = marked_oldest(catalog.definition)
    truth = min(versions[0] if marked is None else marked, head)
    exists = hints.oldest is not None or OLDEST in hints.unread or store.exists(OLDEST)
    leads = hints.oldest is not None and hints.oldest > truth
    # the hint may lag, and may be missing before the first expire
    lags = (hints.oldest or 0) < truth
    is_lost = lags and (not exists if marked is not None else begins_as_export(store, catalog.definition, truth))
    is_wrong = leads or (exists and hints.oldest is None) or is_lost
    if is_wrong and OLDEST not in stays:
        steps.append(RepairStep("hint oldest", _step(store, hints, OLDEST, hints.oldest, truth)))
        writes.append((OLDEST, truth))
    return steps, writes, [f"{error.message}: move it away" for error in stays.values()]


def _step(store: Store, hints: Hints, path: str, was: int | None, version: int) -> str:
    if path in hints.unread:
        return f"{hints.unread[path].message}: write {version} in its place"
    if was is not None:
        return f"{path} says {was}: write {version}"
    return f"{path} is {'not a version number' if store.exists(path) else 'missing'}: write {version}"


# Move stray roots aside: this frees their names, and keeps the files.


def plan_aside(strays: Sequence[ChainRoot], latest: int) -> tuple[list[RepairStep], tuple[Aside, ...]]:
    """Return a step for each stray root, and the moves."""
    asides = tuple(map(_aside, strays))
    steps = [
        RepairStep(
            "set aside",
            f"move the root of v{stray.version}, which is no part of history after v{latest}, to {aside.copy_path}",
        )
        for stray, aside in zip(strays, asides, strict=True)
    ]
    return steps, asides


def set_aside(store: Store, asides: Sequence[Aside]) -> None:
    """Move files, each in this order:

    1. Create the copy, exclusively.
    2. Check that the file is unchanged: another repair may have freed the name, and a writer may have taken it.
    3. Delete the file.

    After a crash the file is still in place, and the move can be repeated.
    """
    for aside in asides:
        store.create(aside.copy_path, aside.data)
        try:
            data = store.read(aside.path)
        except PathMissing:
            continue
        if data != aside.data:
            raise CommitConflict(f"{aside.path} changed since this was planned", hint="it was left alone; plan again")
        store.delete_many([aside.path])


def _aside(stray: ChainRoot) -> Aside:
    assert stray.data is not None, "a stray root has been read"
    return Aside(stray.path, aside_path(stray.version, sha256(stray.data).hexdigest()[:16]), stray.data)


Prefer = Literal["auto", "rollback", "rebuild"]


def _refused(text: str) -> Refused:
    """Return the refusal of a repair that a salvage must replace."""
    return Refused(text, hint="write what can be read into a new catalog", command=tuple(SALVAGE.split()))


def plan_repair(
    store: Store, *, prefer: Prefer = "auto", alternatives: bool = False, progress: Progress = SILENT
) -> RepairPlan:
    """Plan the repair of the latest version and the hints. This only reads.

    With `alternatives`, find alternatives even if the chosen way loses nothing. Raise Refused if versions are missing
    between others: a commit into the gap would join two histories.
    """
    if prefer not in ("auto", "rollback", "rebuild"):
        raise InvalidOption(f"{prefer!a} is not a way to repair", hint="use auto, rollback or rebuild")
    files = RepairFiles(store, progress=progress)
    progress.phase("reading versions")
    # before the listing: a hint is written after its root, so a hint that is ahead proves that a root is lost
    hints = read_hints(store)
    latest = files.latest(existing_versions(store))
    every, head = latest.chain.existing, latest.chain.latest
    errors = latest.errors()
    catalog = newest_catalog(files, every, latest)
    if catalog is None:
        raise _refused("no version has a catalog definition that can be read")
    check_supported(catalog.definition, catalog.path or root_path(catalog.version))
    versions = _counting(every, catalog, hints)
    codec, content = KeyCodec.of(sizes_of(catalog.definition)), VersionContent()
    lost = lost_versions(hints.latest, head, catalog.definition)
    last_lost = last_lost_version(latest, hints.latest, catalog.definition)
    if errors or last_lost is not None:
        progress.phase("reading what the latest version holds")
        # versions in quarantine can be read, and their logs record what was written
        resting = min(purged_before(catalog.definition), versions[0])
        readable = [version for version in every if version >= resting]

        def last_sound() -> int | None:
            return latest.last_sound(versions[0])

        content = put_together(files, readable, codec, catalog.definition, last_lost, errors, last_sound)
        if content.lost_commits is not None:
            # a change of the catalog's definition would have left a definition file
            catalog = replace(catalog, exact=content.brought_back and not content.lost_ranges)
        if catalog.path is None:
            origin = f"v{catalog.version} and the log have it" if catalog.exact else f"v{catalog.version} has it"
            content.notes.insert(0, f"the catalog definition is taken as {origin}")
    catalog, quarantine = _settled(store, catalog, every, versions[0], hints)
    # if two objects have one id, a person must decide which of them stays
    damaged = last_lost is not None or any(error.code != "F305" for error in errors)
    hint_steps, writes, stays = plan_hints(store, hints, versions, catalog, damaged)
    aside_steps, asides = plan_aside(latest.chain.strays, head)
    steps, unmended = (*aside_steps, *hint_steps), (*content.unmended, *stays)
    plan = RepairPlan(store.uri, head, steps, unmended=unmended, hints=tuple(writes), asides=asides)
    if not damaged:
        return plan
    problems = [*([latest_ahead(lost)] if lost else []), *errors]
    damage = tuple(f"{error.path}: {error.message}" if error.path else error.message for error in problems)
    roots = () if content.lost_commits is None else tuple(map(root_path, content.lost_commits.versions))
    answers = tuple(dict.fromkeys([*(error.path for error in errors if error.path), *roots]))
    ahead = lost[-1] if lost else None
    mending = _Mending(files, versions, latest, catalog, content, damage, ahead, answers, quarantine)
    return mending.choose(prefer, alternatives, plan)


def apply_repair(
    store: Store, clock: Clock, plan: RepairPlan, author: Author, progress: Progress = SILENT
) -> int | None:
    """Apply the plan. Return the new version, or None if only hints were written. The order:

    1. Move stray roots aside.
    2. Commit the repaired version.
    3. Write the hints.

    Raise CommitConflict if another process has committed since the plan; then no version and no hint has changed. Raise
    PartlyDone at the end if a hint could not be written.
    """
    set_aside(store, plan.asides)
    version = None
    if plan.repair is not None:
        progress.phase("writing the repaired version")
        version = commit_repair(store, clock, plan.repair, author)
    else:
        check_head(store, plan.head)
    done = "all else is done" if version is None else f"v{version} is the repaired version"
    hints = ((path, version if path == LATEST and version is not None else value) for path, value in plan.hints)
    write_hints(store, hints, [], done, "repair again")
    return version


def write_hints(
    store: Store, hints: Iterable[tuple[str, int]], problems: Sequence[str], done: str, advice: str
) -> None:
    """Write hints, after the rest is `done`. Raise PartlyDone with the `problems`, or if one cannot be written."""
    unwritten = list(problems)
    for path, version in hints:
        try:
            store.overwrite(path, str(version).encode())
        except OlympiaError as error:
            unwritten.append(error.message)
    if unwritten:
        text = f"{done}, but a hint could not be written: {'; '.join(unwritten)}"
        raise PartlyDone(text, hint=f"readers work without it; remove the cause, then {advice}")


def existing_versions(store: Store) -> list[int]:
    """Return every version with a root, ascending, from a listing: probes would stop at a gap."""
    versions, width = list_versions(store)
    if versions and width == JAVA_WIDTH:
        raise written_by_java(store.uri)
    if versions:
        return versions
    if what_remains(store):
        raise _refused(f"{store.uri} has no root of any version")
    raise catalog_not_found(store)


def last_lost_version(latest: LatestVersion, hint: int | None, definition: CatalogDef) -> int | None:
    """Return the last version whose root is lost, as `vn/latest` names it.

    Without a hint, a copy of another root may have overwritten the root of a commit. Then return the version after the
    latest, if a stray root has its name.
    """
    if lost := lost_versions(hint, latest.chain.latest, definition):
        return lost[-1]
    after = latest.chain.latest + 1
    return after if hint is None and any(stray.version == after for stray in latest.chain.strays) else None


def missing_versions(versions: Sequence[int], most: int) -> tuple[list[int], int]:
    """Return the first versions that are missing between others, and the number of all."""
    gaps = [range(before + 1, after) for before, after in pairwise(versions)]
    return list(islice(itertools.chain.from_iterable(gaps), most)), sum(map(len, gaps))


def _counting(every: Sequence[int], catalog: FormerCatalog, hints: Hints) -> list[int]:
    """Return the versions that count. Raise Refused if one is missing between others."""
    head = every[-1]
    oldest = true_oldest(every, catalog.definition, catalog.exact, hints.oldest)
    counting = [version for version in every if version >= min(oldest, head)]
    missing, count = missing_versions(counting, 5)
    if missing:
        shown = ", ".join(map(str, missing)) + (", …" if count > len(missing) else "")
        raise _refused(
            f"{'version' if count == 1 else 'versions'} {shown} of up to {head} "
            f"{'is' if count == 1 else 'are'} missing: the highest root is {root_path(head)}, and the "
            "next commit could land in the gap"
        )
    return counting


def _settled(
    store: Store, catalog: FormerCatalog, every: Sequence[int], first: int, hints: Hints
) -> tuple[FormerCatalog, KeptQuarantine]:
    """Return the definition and its quarantine. In an older definition, only whole marks stay."""
    if catalog.exact:
        return catalog, KeptQuarantine()
    definition = CatalogDef()
    definition.CopyFrom(catalog.definition)
    oldest = expired_before(definition)
    if first - 1 not in every and hints.oldest is not None and hints.oldest >= first:
        # the roots are gone, and by the hint an expire has deleted them
        oldest = max(oldest, first)
    quarantine = settle_quarantine(store, definition, every, oldest, every[-1] + 1)
    return replace(catalog, definition=definition), quarantine


@dataclass(frozen=True, slots=True)
class KeptQuarantine:
    """The versions that `expire undo` can bring back after a repair, and the existing ones that it no longer can."""

    kept: tuple[int, ...] = ()
    lost: tuple[int, ...] = ()


def settle_quarantine(
    store: Store, definition: CatalogDef, existing: Sequence[int], oldest: int, version: int
) -> KeptQuarantine:
    """Keep the marks of an older definition up to version `oldest` if all their roots and manifests exist. They rest
    again from `version` on, the version of the repair.

    A later commit, which is lost, may have purged or undone them, or needed their files. The new age leaves the whole
    time of a quarantine to find that out and to undo. Files of forgotten marks stay until the next expire.
    """
    kept: list[QuarantineMark] = []
    versions, purged = set(existing), oldest
    for mark in reversed(read_quarantine(definition)):
        resting = range(mark.former_oldest, mark.oldest)
        if mark.oldest != purged or not versions.issuperset(resting) or not store.exists(mark.manifest):
            break
        kept.insert(0, replace(mark, version=version))
        purged = mark.former_oldest
    before = min((mark.former_oldest for mark in read_quarantine(definition)), default=oldest)
    if oldest or EXPIRE_OLDEST in definition.properties:
        definition.properties[EXPIRE_OLDEST], definition.properties[EXPIRE_PURGED] = str(oldest), str(purged)
    write_quarantine(definition, kept)
    lost = tuple(version for version in existing if before <= version < purged)
    return KeptQuarantine(tuple(version for version in existing if purged <= version < oldest), lost)


def _rest(quarantine: KeptQuarantine) -> str:
    """Return what becomes of the versions in quarantine, as the end of a sentence."""
    kept, lost = (
        f"v{numbers[0]} to v{numbers[-1]}" if numbers else "" for numbers in (quarantine.kept, quarantine.lost)
    )
    stay = f"; {kept} stay in quarantine" if kept else ""
    return f"{stay}; {lost} leave quarantine, and no undo can bring them back" if lost else stay


# Which way


@dataclass(frozen=True, slots=True)
class _Mending:
    """A damaged version, and the readable information about its content."""

    files: RepairFiles
    versions: Sequence[int]
    latest: LatestVersion
    catalog: FormerCatalog
    content: VersionContent
    damage: tuple[str, ...]
    """The damage of the version, in the words of fsck."""
    ahead: int | None
    """The version that `vn/latest` names, if it is later than the last root."""
    answers: tuple[str, ...]
    """The damaged files."""
    quarantine: KeptQuarantine

    @property
    def codec(self) -> KeyCodec:
        return KeyCodec.of(sizes_of(self.catalog.definition))

    def choose(self, prefer: Prefer, alternatives: bool, plan: RepairPlan) -> RepairPlan:
        rebuild = self._rebuild_step()
        chosen, others, repair = rebuild, [], self._rebuild()
        if prefer == "rollback" or (prefer == "auto" and (alternatives or rebuild.cost > NO_COST)):
            self.files.progress.phase("looking for the last sound version")
            with failures_pass():
                target = self.latest.last_sound(self.versions[0])
            if target is None and prefer == "rollback":
                raise Refused("there is no sound version to go back to", hint="repair with --prefer rebuild")
            if target is not None:
                rollback = self._rollback_step(target)
                if prefer == "rollback" or rollback.cost < rebuild.cost:
                    chosen, others, repair = rollback, [rebuild], self._rollback(rollback, target)
                else:
                    others = [rollback]
        # damage that only a rebuild would leave does not apply to the rollback
        left = () if chosen is rebuild else self.content.unmended
        unmended = tuple(text for text in plan.unmended if text not in left)
        return replace(plan, steps=(chosen, *plan.steps), alternatives=tuple(others), unmended=unmended, repair=repair)

    @property
    def _origin(self) -> str:
        lost = self.content.lost_commits
        if lost is not None and self.content.brought_back:
            return f"v{lost.base.version} and what {lost.named} left"
        return f"what can be read of v{self.versions[-1]}"

    def _rebuild_step(self) -> RepairStep:
        head, content = self.versions[-1], self.content
        lost = tuple(sorted(set(content.lost), key=name_order))
        text = f"build v{head + 1} from {self._origin}: {len(content.entries):,} objects"
        nothing = "none known to be lost" if content.lost_ranges else "none lost"
        text += f", {len(lost):,} lost" if lost else f", {nothing}"
        if content.lost_keys:
            text += f"; {len(content.lost_keys):,} keys that no object can have are dropped"
        text += _rest(self.quarantine)
        stale, doubtful = (tuple(sorted(set(names), key=name_order)) for names in (content.stale, content.doubtful))
        doubts = [f"doubtful: {name.kind.word} {name}: {content.doubtful[name]}" for name in doubtful]
        commits = [] if content.lost_commits is None else content.lost_commits.versions
        gone = [f"the log of {content.lost_commits.named} is gone"] if content.lost_commits else []
        if commits[1:]:
            gone.append(f"only the last of {len(commits)} lost versions comes back, and their numbers are used again")
        details, unsure = (*self.damage, *content.notes, *gone, *doubts), tuple(content.lost_ranges)
        # the repaired version has the content of the last lost one
        left = len(commits[1:]) + len(self.quarantine.lost)
        return RepairStep("rebuild", text, lost, stale, unsure, details, (), doubtful, len(content.entries), left)

    def _rollback_step(self, target: int) -> RepairStep:
        root, content, codec = self.files.root(target).root, self.content, self.codec
        entries = read_range(self.files, root.node, "", None) if root is not None else None
        assert entries is not None, "it was read before"
        now = content.entries
        loses = {codec.decode(key, "") for key in now if key not in entries}
        loses |= {name for name in content.lost if codec.encode(name) not in entries}
        # objects of uncertain state are uncertain there too
        reverts = {
            codec.decode(key, "") for key, path in entries.items() if not is_same(self.files, key, now.get(key), path)
        }
        returns = {codec.decode(key, "") for key in entries if key not in now} - set(content.lost)
        reverts |= set(content.stale)
        unsure = tuple(replace(lost, after=None, before=None, as_of=target) for lost in content.lost_ranges[:1])
        clauses = (_objects(len(loses), "lost"), _objects(len(reverts), f"as v{target} has {{}}"))
        text = (
            f"go back to v{target}, the last sound version: {', '.join(filter(None, clauses)) or 'no object changes'}"
            f"{'' if content.lost_commits is None else f'; {content.lost_commits.named} is taken back'}"
            f"{_rest(self.quarantine)}"
        )
        lost, older = tuple(sorted(loses, key=name_order)), tuple(sorted(reverts, key=name_order))
        back = tuple(sorted(returns, key=name_order))
        # an object that comes back may have been dropped on purpose, and counts half
        current = len(entries) - len(reverts - returns) - len(returns) // 2
        commits = () if content.lost_commits is None else content.lost_commits.versions
        # an object that comes back undoes the drop of the latest version
        left = (len(commits) or bool(back)) + len(self.quarantine.lost)
        return RepairStep(
            "rollback", text, lost, older, unsure, self.damage, back, objects=current, leaves_versions=left
        )

    def _rebuild(self) -> Repair:
        content, head = self.content, self.versions[-1]
        names = {key: self.codec.decode(key, "") for key, value in content.entries.items() if isinstance(value, bytes)}
        lost = [self.codec.encode(name) for name in sorted(set(content.lost), key=name_order)]
        return Repair(
            head=head,
            tree=Built(content.entries, names),
            catalog=self.catalog.definition,
            not_before_millis=self._newest_time(),
            description=f"tree rebuilt from {self._origin}: " + _summary(self.damage),
            lost_keys=lost + content.lost_keys,
            named_latest=self.ahead,
            answers=self.answers,
        )

    def _rollback(self, step: RepairStep, target: int) -> Repair:
        root = self.files.root(target).root
        assert root is not None, "it was read before"
        definition = self.files.definition(Kind.CATALOG, root.catalog_def)
        assert isinstance(definition, CatalogDef), "it was read before"
        return Repair(
            head=self.versions[-1],
            tree=root.node,
            catalog=keep_protection(definition, self.catalog.definition),
            not_before_millis=self._newest_time(),
            description=f"content of v{target}, the last sound version: " + _summary(step.details),
            lost_keys=[self.codec.encode(name) for name in step.loses],
            named_latest=self.ahead,
            answers=self.answers,
        )

    def _newest_time(self) -> int:
        """Return the time of the newest readable version. Times never decrease."""
        roots = (self.files.root(version).root for version in reversed(self.versions))
        return next((root.created_at_millis for root in roots if root is not None), 0)


def _objects(count: int, what: str) -> str:
    """Return `1 object is lost` or `3 objects are lost`; an empty string for none."""
    if not count:
        return ""
    singular = count == 1
    return f"{count:,} {'object is' if singular else 'objects are'} {what.format('it' if singular else 'them')}"


def _summary(damage: Sequence[str]) -> str:
    return "; ".join(damage[:3]) + (f"; and {len(damage) - 3:,} more" if len(damage) > 3 else "")
