"""Put a copy in the place of a catalog: a plan to show first, then one new version on top of the former catalog.

Stores cannot rename folders, and a catalog is identified by the roots at its location. So the copy's content is written
to that location, and the next version after the highest root names it. The creation of that root is the switch: it
takes the only name to which writers of the former catalog could commit. The former versions stay readable by number
until `promote --forget`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice, pairwise
from typing import Any, cast
from urllib.parse import unquote

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import DAY_MILLIS, Catalog
from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.commit import HALF_AN_HOUR_MILLIS, Author
from olympia_cli.catalog.distributed import Saved, TransactionState
from olympia_cli.catalog.properties import EXPIRE_OLDEST, EXPIRE_PURGED
from olympia_cli.catalog.repair_commit import (
    NewDefinition,
    Repair,
    RepairSource,
    commit_promoted,
    keep_lost_names,
    pad_versions,
)
from olympia_cli.catalog.retained import (
    Promotion,
    keep_protection,
    read_exports,
    read_promotion,
    without_protection,
    write_promotion,
)
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot, read_object
from olympia_cli.catalog.versions import Hints, read_hints, read_root
from olympia_cli.errors import (
    CatalogNotFound,
    Damaged,
    InvalidLocation,
    Refused,
    Unsupported,
    VersionNotFound,
)
from olympia_cli.format import definitions
from olympia_cli.format.definitions import CLASSES, Digest, check_digest, sizes_of
from olympia_cli.format.paths import MAX_VERSION, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, RepairDef
from olympia_cli.format.pb.objects_pb2 import CatalogDef, TableDef, ViewDef
from olympia_cli.names import AtVersion, ObjectName, time_text
from olympia_cli.ops.expire import ExpirePlanner, Floors, MarkPlan, Policy
from olympia_cli.ops.export import ExportFiles, check_apart, read_note, verify_export
from olympia_cli.ops.fsck import Finding, FsckRequest, Level, fsck, list_versions, of_the_past, true_oldest
from olympia_cli.ops.inspect import ObjectChange, changed_fields, changes_of
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.repair.content import FormerCatalog, newest_catalog
from olympia_cli.ops.repair.files import RepairFiles
from olympia_cli.ops.repair.lost_commits import NEAR
from olympia_cli.ops.repair.repair import KeptQuarantine, plan_hints, settle_quarantine, write_hints
from olympia_cli.ops.repair.salvage import gather, left_definition
from olympia_cli.ops.walk import Flaw, failures_pass
from olympia_cli.storage.protocol import Store
from olympia_cli.tree.search import scan

MOST_LOST = 10_000
"""The largest number of names of lost versions to keep. A wider gap means that the root behind it is a stray."""

AT_ONCE = 1024

Objects = dict[ObjectName, CatalogObject[ObjectDefinition]]


# The copy


@dataclass(frozen=True, slots=True)
class Copy:
    """The version of a copy to promote, found sound. Its snapshot reads files at the copy and at the catalog."""

    uri: str
    snapshot: Snapshot

    @property
    def source(self) -> RepairSource:
        return RepairSource(self.uri, self.snapshot.version, sha256(self.snapshot.file.data).hexdigest())

    def entries(self) -> Iterator[tuple[str, str]]:
        """Yield keys and the paths of their definitions, in order."""
        return scan(self.snapshot.reader, self.snapshot.root.node)

    def holds(self, location: str) -> bool:
        """Return whether a file of a table is at the copy's own location."""
        return _path(location).startswith(f"{_path(self.uri).rstrip('/')}/")


def _path(location: str) -> str:
    """Return the path of a location, or its bucket and key, without its scheme."""
    scheme, separator, rest = location.partition(":")
    if not separator or "/" in scheme:
        return location
    path = rest.removeprefix("//")
    return unquote(path) if scheme == "file" else path


def open_copy(store: Store, place: Store, clock: Clock, progress: Progress = SILENT) -> Copy:
    """Open a copy, and read all of it. Raise Damaged if it is not sound.

    An export that shares files with its catalog needs the files at `place`.
    """
    if store.uri == place.uri:
        raise InvalidLocation(f"{store.uri} is the catalog itself", hint="name a copy of it")
    check_apart(place.uri, store.uri)
    note = read_note(store)
    if note is not None and note.scope.shares:
        _check_none(store, verify_export(store, note, place, progress).errors)
        files = ExportFiles(note.scope, store, place, progress)
        # a snapshot uses only the reads of a store
        return Copy(store.uri, Snapshot(cast(Store, files), read_root(store, note.version)))
    try:
        report = fsck(store, FsckRequest(Level.FULL, clock=clock, progress=progress))
    except CatalogNotFound:
        raise CatalogNotFound(f"there is no catalog at {store.uri}", hint="name a copy of this one") from None
    if report.read_only:
        raise Unsupported(
            f"{store.uri} was written by the Java SDK", hint="import it", command=("import", "olympia", store.uri)
        )
    # damage of older versions does not matter, as only the latest one is promoted
    _check_none(
        store,
        [
            finding
            for finding in report.findings
            if finding.is_damage and not of_the_past(finding, report.latest, report.oldest)
        ],
    )
    assert report.version is not None, "a sound catalog has a version"
    return Copy(store.uri, Catalog(store, clock).snapshot(AtVersion(report.version)))


def _check_none(store: Store, errors: Sequence[Finding]) -> None:
    if not errors:
        return
    error = errors[0]
    damage = Damaged(error.code, error.path or store.uri, f"the copy {store.uri} is not sound: {error.message}")
    damage.advice, damage.command = "repair it, or name another copy", ("-c", store.uri, "fsck")
    raise damage


# The plan


@dataclass(frozen=True, slots=True)
class PromotePlan:
    """The effects of a promotion. The former catalog has the versions from `first` on."""

    store: Store
    copy: Copy
    first: int
    existing: frozenset[int]
    """The versions that have a root, or a file that keeps its name."""
    promotion: Promotion
    is_done: bool
    """True if the copy is in place already. An interrupted promotion is then completed."""
    catalog: CatalogDef
    objects: int
    changes: tuple[ObjectChange, ...] = ()
    """The changes from the readable part of the former catalog to the copy."""
    catalog_changes: Mapping[str, tuple[Any, Any]] = field(default_factory=dict)
    unread: tuple[str, ...] = ()
    """The unreadable parts of the former catalog, which are not compared."""
    live: frozenset[str] = frozenset()
    """Definitions that the former catalog needs, so that no expire deletes them. The copy may share them."""
    definitions: int = 0
    bytes: int = 0
    in_copy: int = 0
    """The number of tables and views with metadata at the copy's own location."""
    transactions: tuple[str, ...] = ()
    """Open transactions, which can no longer be committed."""
    stop_writers: bool = False
    """True if no file names the number of the last version. Then a writer of the former catalog could still commit."""
    not_before_millis: int = 0
    leaves_versions: int = 0
    """The number of versions in quarantine that no undo can bring back afterwards."""

    @property
    def version(self) -> int:
        """The version that the copy has, or will have, in this catalog."""
        return self.promotion.version

    @property
    def lost(self) -> list[int]:
        """Versions of the former catalog without a root."""
        return [version for version in range(self.first, self.version) if version not in self.existing]

    @property
    def loses(self) -> list[ObjectChange]:
        """The readable objects of the catalog that are missing or different in the copy."""
        return [change for change in self.changes if change.change in ("dropped", "altered")]

    @property
    def exports(self) -> list[str]:
        return list(read_exports(self.catalog))

    def describe(self) -> dict[str, Any]:
        aside = range(self.first, self.version)
        return {
            "version": self.version,
            "copy": self.copy.uri,
            "copy_version": self.copy.snapshot.version,
            "in_place": self.is_done,
            "objects": self.objects,
            "changes": [change.describe() for change in self.changes],
            "loses": len(self.loses),
            "not_compared": list(self.unread),
            "definitions": self.definitions,
            "bytes": self.bytes,
            "kept_aside": {"first": aside[0], "last": aside[-1]} if aside else None,
            "lost_versions": self.lost,
            "passed_versions": list(range(self.version + 1, self.promotion.through + 1)),
            "exports": self.exports,
            "transactions": list(self.transactions),
            "stays_in_copy": self.in_copy,
            "stop_writers": self.stop_writers,
            "leaves_versions": self.leaves_versions,
        }


@failures_pass()
def plan_promotion(store: Store, copy: Copy, clock: Clock, progress: Progress = SILENT) -> PromotePlan:
    """Plan a promotion. This only reads."""
    if (done := _in_place(store, copy)) is not None:
        return done
    # before the comparison: every later commit takes the number planned for the copy
    hints, (versions, _) = read_hints(store), list_versions(store)
    files = RepairFiles(store, tolerant=True, progress=progress)
    gathered = gather(files)
    former = _former(files, versions)
    transactions = [saved for saved in distributed.saved_transactions(store) if isinstance(saved, Saved)]
    promotion = _next_numbers(versions, hints, transactions)
    first = _first(versions, former, hints, promotion.version)
    progress.phase("comparing")
    live = {value for value in gathered.content.entries.values() if isinstance(value, str)}
    comparison = _Comparison(files, copy, live)
    # a recreated namespace is not a readable object of the former catalog
    made_anew = set(gathered.content.recreated)
    old = {name: value for name, value in gathered.values.items() if name not in made_anew}
    comparison.run(old, {copy.snapshot.keys.decode(key, ""): path for key, path in copy.entries()})
    changes = comparison.changes()
    if former is not None:
        _check_same_catalog(store, copy, former.definition, comparison)
    catalog, quarantine = _definition(store, former, versions, copy, first, promotion)
    return PromotePlan(
        store=store,
        copy=copy,
        first=first,
        existing=frozenset(versions),
        promotion=promotion,
        is_done=False,
        catalog=catalog,
        objects=comparison.objects,
        changes=tuple(changes),
        catalog_changes={}
        if former is None
        else changed_fields(without_protection(former.definition), without_protection(catalog)),
        unread=tuple(str(lost_range) for lost_range in gathered.content.lost_ranges),
        live=frozenset(live),
        definitions=sum(path not in live for _, path in copy.entries()),
        bytes=sum(size for path, size in comparison.sizes.items() if path not in live),
        in_copy=comparison.in_copy,
        stop_writers=not versions and (hints.latest is None or hints.latest >= promotion.version),
        transactions=tuple(saved.id for saved in transactions if saved.state(clock) is TransactionState.OPEN),
        not_before_millis=_newest_time(files, gathered.versions),
        leaves_versions=len(quarantine.lost),
    )


def _former(files: RepairFiles, versions: Sequence[int]) -> FormerCatalog | None:
    """Return the definition of the former catalog, as far as it is known."""
    if versions:
        latest = files.latest(versions)
        if (newest := newest_catalog(files, latest.chain.existing, latest)) is not None:
            return newest
    left = left_definition(files)
    return None if left is None else FormerCatalog(left, -1, False, None)


def _newest_time(files: RepairFiles, versions: Sequence[int]) -> int:
    """Return the time of the newest readable version. Times never decrease."""
    roots = (files.root(version).root for version in reversed(versions))
    return next((root.created_at_millis for root in roots if root is not None), 0)


def _in_place(store: Store, copy: Copy) -> PromotePlan | None:
    """Return the plan to complete an interrupted promotion of this copy. None if the copy was not promoted."""
    try:
        latest = Catalog(store).snapshot()
        promotion = read_promotion(latest.definition)
        if promotion is None:
            return None
        actions = Snapshot(store, read_root(store, promotion.version), latest).actions()
    except (CatalogNotFound, VersionNotFound, Damaged):
        return None
    repairs = [action.parse_payload(RepairDef) for action in actions if action.type == ActionType.CATALOG_REPAIR]
    if copy.source.root not in [repair.source_root for repair in repairs]:
        return None
    versions, _ = list_versions(store)
    former = FormerCatalog(latest.definition, latest.version, True, latest.root.catalog_def)
    first = _first(versions, former, read_hints(store), promotion.version)
    objects = sum(1 for _ in copy.entries())
    return PromotePlan(store, copy, first, frozenset(versions), promotion, True, latest.definition, objects)


# Which numbers


def _next_numbers(versions: Sequence[int], hints: Hints, transactions: Sequence[Saved]) -> Promotion:
    """Return the number of the promoted version, and the last number that empty versions must fill.

    Otherwise a writer that has read a lost root would find the next name free. Hints and the beginnings of transactions
    name lost roots.
    """
    numbers = [hints.latest, hints.oldest, *(saved.began_at_version for saved in transactions)]
    named = max((number for number in numbers if number is not None and number < MAX_VERSION - NEAR), default=-1)
    if not versions:
        # at least one version is kept aside: as long as it is, no expire takes the files that are left
        return Promotion(max(named, 0) + 1, max(named, 0) + 1)
    version = versions[-1] + 1
    # a hint far ahead is garbage that happens to be a number
    return Promotion(version, max(version, named + 1) if named <= versions[-1] + NEAR else version)


def _first(versions: Sequence[int], former: FormerCatalog | None, hints: Hints, version: int) -> int:
    """Return the oldest version of the former catalog whose name must not be reused."""
    oldest = hints.oldest or 0
    if versions and former is not None:
        oldest = true_oldest(versions, former.definition, former.exact, hints.oldest)
    # without a version, the one before the promoted one is kept aside, whatever the hint says
    first = min([oldest, version, *versions[:1]]) if versions else min(oldest, version - 1)
    lost = version - first - sum(first <= existing < version for existing in versions)
    if lost <= MOST_LOST:
        return first
    widest = max(pairwise([-1, *versions]), key=lambda pair: pair[1] - pair[0], default=(-1, version))
    if versions and widest[0] >= 0:
        raise Refused(
            f"{lost:,} versions are missing below {root_path(widest[1])}, too many to be lost",
            hint="see whether that root is part of history",
            command=("fsck",),
        )
    return max(first, (versions[0] if versions else version) - MOST_LOST)


# What the new version says of the catalog


def _definition(
    store: Store, former: FormerCatalog | None, versions: Sequence[int], copy: Copy, first: int, promotion: Promotion
) -> tuple[CatalogDef, KeptQuarantine]:
    """Return the copy's definition, with the id, the exports and the expired versions of the catalog that it
    replaces, and what becomes of the quarantine.
    """
    quarantine, own = KeptQuarantine(), copy.snapshot.definition
    if former is None:
        catalog = without_protection(own)
    else:
        catalog = keep_protection(own, former.definition)
        catalog.id = former.definition.id
    is_told = former is not None and former.exact and EXPIRE_OLDEST in catalog.properties
    if former is None or not former.exact or (first and not is_told):
        quarantine = settle_quarantine(store, catalog, versions, first, promotion.version)
        catalog.properties[EXPIRE_OLDEST] = str(first)
        if not quarantine.kept:
            catalog.properties[EXPIRE_PURGED] = str(first)
    write_promotion(catalog, promotion)
    return catalog, quarantine


def _check_same_catalog(store: Store, copy: Copy, former: CatalogDef, comparison: _Comparison) -> None:
    """Raise Refused unless the copy has the same sizes as the former catalog, and is a copy of it."""
    own = copy.snapshot.definition
    if sizes_of(own) != sizes_of(former):
        raise Refused(
            f"{copy.uri} has another order or other name sizes than {store.uri}, which are fixed for a catalog's life",
            hint="import its objects",
            command=("import", "olympia", copy.uri),
        )
    if own.id != former.id and comparison.had_objects and not comparison.is_related:
        raise Refused(
            f"{copy.uri} is a copy of another catalog: it has another id, and no object of {store.uri}",
            hint="check which copy it is, or import its objects",
            command=("import", "olympia", copy.uri),
        )


class _Comparison:
    """Compares the readable part of the former catalog with the copy. Equal objects are not kept in memory."""

    def __init__(self, files: RepairFiles, copy: Copy, live: Set[str]) -> None:
        """`live` are the definitions that are not brought."""
        self._files = files
        self._copy = copy
        self._live = live
        self._gone: Objects = {}
        self._come: Objects = {}
        self._both: dict[ObjectName, tuple[CatalogObject[ObjectDefinition], CatalogObject[ObjectDefinition]]] = {}
        self.objects = 0
        self.had_objects = False
        self.is_related = False
        """True if the former catalog and the copy have an object in common."""
        self.sizes: dict[str, int] = {}
        self.in_copy = 0

    def run(self, old: Mapping[ObjectName, str | bytes], new: Mapping[ObjectName, str]) -> None:
        self.objects, self.had_objects = len(new), bool(old)
        self._gone = {found.name: found for found in self._former((name, old[name]) for name in old if name not in new)}
        self._come = {found.name: found for found in self._new((name, new[name]) for name in new if name not in old)}
        others = [name for name in new if name in old and old[name] != new[name]]
        self.is_related = len(others) < sum(name in old for name in new)
        pairs = zip(
            self._former((name, old[name]) for name in others),
            self._new((name, new[name]) for name in others),
            strict=True,
        )
        for older, newer in pairs:
            self.is_related |= older.id == newer.id
            if older.id != newer.id or changed_fields(older.definition, newer.definition):
                self._both[older.name] = older, newer
        # a leftover definition of the same path is brought under a new name, so its size is needed
        leftover = ((name, path) for name, path in new.items() if old.get(name) == path and path not in self._live)
        for _ in self._new(leftover):
            pass

    def changes(self) -> list[ObjectChange]:
        changes = changes_of(self._gone, self._come, self._both)
        self.is_related |= any(change.change == "renamed" for change in changes)
        return changes

    def _former(self, entries: Iterable[tuple[ObjectName, str | bytes]]) -> Iterator[CatalogObject[ObjectDefinition]]:
        entries = iter(entries)
        while batch := list(islice(entries, AT_ONCE)):
            read = dict(self._files.read_all({value for _, value in batch if isinstance(value, str)}))
            for name, value in batch:
                data = value if isinstance(value, bytes) else read[value]
                if isinstance(data, Flaw):
                    raise data.error(str(value))
                yield CatalogObject(name, "", cast(ObjectDefinition, CLASSES[name.kind].FromString(data)))

    def _new(self, entries: Iterable[tuple[ObjectName, str]]) -> Iterator[CatalogObject[ObjectDefinition]]:
        for name, path, data in _read_copy(self._copy, entries):
            self.sizes[path] = len(data)
            found = read_object(name, path, data)
            if isinstance(found.definition, TableDef | ViewDef):
                self.in_copy += self._copy.holds(found.definition.iceberg_metadata_location)
            yield found


def _read_copy(copy: Copy, entries: Iterable[tuple[ObjectName, str]]) -> Iterator[tuple[ObjectName, str, bytes]]:
    """Yield definitions of the copy, read in parallel. Raise Damaged if one has disappeared since the copy was
    opened.
    """
    entries = iter(entries)
    while batch := list(islice(entries, AT_ONCE)):
        contents = copy.snapshot.store.read_many(path for _, path in batch)
        for (name, path), (_, data) in zip(batch, contents, strict=True):
            if not isinstance(data, bytes):
                raise Damaged("F301", path, f"the copy had the definition of {name}, and has it no more") from data
            yield name, path, data


# Doing it


@failures_pass()
def apply_promotion(plan: PromotePlan, clock: Clock, author: Author, progress: Progress = SILENT) -> int:
    """Promote the copy, and return the latest version. An interrupted promotion can be repeated. The order:

    1. The copy's content, the names of lost versions, and the switch: see `commit_promoted`.
    2. The names of lost versions, if there was no root to stop readers before them.
    3. Empty versions, up to the number that a lost root may have had.
    4. The hints.

    Raise CommitConflict if another process has committed since the plan; then the former catalog is still in place.
    Raise PartlyDone at the end if a hint could not be written.
    """
    store, version = plan.store, plan.version
    if not plan.is_done:
        progress.phase("copying definitions", plan.objects)
        repair = Repair(
            head=version - 1,
            tree=_Content(plan, progress),
            catalog=plan.catalog,
            not_before_millis=plan.not_before_millis,
            description=f"v{plan.copy.snapshot.version} of {plan.copy.uri} took the catalog's place",
            source=plan.copy.source,
        )
        lost_between = plan.lost if any(plan.first <= existing < version for existing in plan.existing) else []
        commit_promoted(store, clock, repair, author, lost_between)
    progress.phase("finishing")
    versions, _ = list_versions(store)
    keep_lost_names(store, sorted(set(range(plan.first, version)).difference(versions)))
    latest = pad_versions(store, clock, version, plan.promotion.through, author)
    definition = FormerCatalog(plan.catalog, latest, True, None)
    _, writes, unwritten = plan_hints(store, read_hints(store), [plan.first, latest], definition, False)
    write_hints(store, writes, unwritten, f"v{version} is the copy", "run it again")
    return latest


@dataclass(frozen=True, slots=True)
class _Content:
    """The content of the new tree. Definitions that the former catalog also needs, byte for byte, are shared.

    Other definitions get new names, because an expire may be about to delete files that only the copy would use.
    """

    plan: PromotePlan
    progress: Progress

    def items(self) -> Iterator[tuple[str, str | NewDefinition]]:
        copy, store, live = self.plan.copy, self.plan.store, self.plan.live
        entries = copy.entries()
        while batch := list(islice(entries, AT_ONCE)):
            here = dict(store.read_many({path for _, path in batch if path in live}))
            named = ((copy.snapshot.keys.decode(key, ""), path) for key, path in batch)
            for (key, _), (name, path, data) in zip(batch, _read_copy(copy, named), strict=True):
                found = read_object(name, path, data)
                shared = here.get(path) == data and check_digest(data, path) is Digest.VERIFIED
                yield key, path if shared else NewDefinition(name, definitions.body(found.definition))
            self.progress.advance(len(batch))


# Letting the former catalog go


def plan_forget(
    catalog: Catalog, *, offline: bool = False, probe: bool = True, progress: Progress = SILENT
) -> tuple[ExpirePlanner, MarkPlan | None]:
    """Plan an expire that also takes the versions kept aside. The plan is None if there are none.

    `offline` means that no writer is running. Raise Refused while one of these versions may be needed.
    """
    planner = ExpirePlanner(catalog, Floors(DAY_MILLIS, DAY_MILLIS), probe=probe, forgets=True, progress=progress)
    promotion = read_promotion(planner.facts.definition)
    if promotion is None or planner.facts.oldest >= promotion.version:
        return planner, None
    policy = Policy(1, planner.facts.now_millis, "now", offline)
    mark = planner.expire(policy, not_beyond=promotion.version).mark
    if mark.oldest < promotion.version:
        kept = mark.kept_versions[0]
        promoted = planner.facts.store.stat(root_path(promotion.version)).modified_at_millis
        until = promoted + planner.facts.definition.txn_ttl_millis + HALF_AN_HOUR_MILLIS
        wait = f"run it again after {time_text(until)}, or pass --offline if no writer is running"
        commands = {"transaction": ("txn", "ls"), "export": ("export", "ls")}
        raise Refused(
            f"v{kept.version} of the former catalog may still be needed: {kept.detail}",
            hint="abort it if it is of no use" if kept.reason in commands else wait,
            command=commands.get(kept.reason, ()),
        )
    return planner, mark


def describe_forget(planner: ExpirePlanner, mark: MarkPlan | None) -> dict[str, Any]:
    if mark is None:
        return {"oldest": planner.facts.oldest, "expired_versions": [], "files": 0, "bytes": 0}
    totals = mark.files.totals
    return {
        "oldest": mark.oldest,
        "expired_versions": list(mark.expired),
        "files": totals.files,
        "bytes": totals.bytes,
    }
