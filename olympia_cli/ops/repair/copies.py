"""The full exports of a damaged catalog, compared with it: what a promotion or an import of one would lose."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.clock import Clock
from olympia_cli.catalog.repair_commit import Built, Repair
from olympia_cli.catalog.retained import FULL, ExportRecord, read_exports
from olympia_cli.catalog.versions import read_hints
from olympia_cli.errors import OlympiaError, StorageFailed
from olympia_cli.format import definitions
from olympia_cli.format.definitions import sizes_of
from olympia_cli.format.keys import KeyCodec
from olympia_cli.format.node import Node
from olympia_cli.format.pb.objects_pb2 import CatalogDef
from olympia_cli.ops.fsck import list_versions
from olympia_cli.ops.progress import Progress, Within
from olympia_cli.ops.repair.content import is_same, newest_catalog
from olympia_cli.ops.repair.files import RepairFiles
from olympia_cli.ops.repair.holes import Ancestry, Value, read_range
from olympia_cli.ops.repair.promote import Copy, PromotePlan, open_copy, plan_promotion
from olympia_cli.ops.repair.salvage import left_definition
from olympia_cli.storage.protocol import Store

MOST_EXPORTS = 3
"""The largest number of exports to compare: the newest ones."""

SECONDS = 20
"""The time to compare one export."""

OpenStore = Callable[[str], Store]


def full_exports(store: Store) -> list[ExportRecord]:
    """Return the records of full exports that share no file with the catalog, the newest version first."""
    files = RepairFiles(store, tolerant=True)
    versions, _ = list_versions(store)
    latest = files.latest(versions) if versions else None
    former = None if latest is None else newest_catalog(files, latest.chain.existing, latest)
    definition = left_definition(files) if former is None else former.definition
    records = () if definition is None else read_exports(definition).values()
    full = [record for record in records if isinstance(record, ExportRecord) and record.mode == FULL]
    return sorted((record for record in full if not record.shares_files), key=lambda record: -record.version)


class Deadline(Within):
    """Progress that raises StorageFailed when the time is over."""

    def __init__(self, progress: Progress, clock: Clock, seconds: float = SECONDS) -> None:
        super().__init__(progress)
        self._clock, self._seconds = clock, seconds
        self._until = clock.elapsed_millis() + seconds * 1000

    def advance(self, count: int = 1) -> None:
        super().advance(count)
        if self._clock.elapsed_millis() > self._until:
            raise StorageFailed(f"it was not read within {self._seconds} seconds")


def plan_copy(store: Store, copy: Store, progress: Progress) -> PromotePlan:
    """Plan the promotion of a copy, within a time. Raise OlympiaError if the copy cannot be promoted."""
    clock = Catalog(store).clock
    progress.phase(f"comparing {copy.uri}")
    deadline = Deadline(progress, clock)
    return plan_promotion(store, open_copy(copy, store, clock, deadline), clock, deadline)


@dataclass(frozen=True, slots=True)
class Loss:
    """The objects that are missing, older or undone after a command; None if the latest content is not known.
    `objects` is the number of objects afterwards that are not known to be older.
    """

    loses: int | None
    objects: int


@dataclass(frozen=True, slots=True)
class ComparedExport:
    """An export that can be promoted. `latest` is the catalog's latest content, by the export and the log since; None
    if the log does not tell all.
    """

    record: ExportRecord
    plan: PromotePlan
    entries: Mapping[str, str]
    latest: Mapping[str, Value] | None
    files: RepairFiles

    def promoted(self) -> Loss:
        """Return the loss of a promotion. Changed settings of the catalog count as one object."""
        older = sum(change.change == "altered" for change in self.plan.changes)
        loss = self._loss(self.entries, self.plan.objects - older)
        return loss if loss.loses is None else replace(loss, loses=loss.loses + bool(self.plan.catalog_changes))

    def repaired(self, repair: Repair) -> Loss:
        """Return the loss of a repair."""
        entries = self._after(repair)
        return self._loss(entries, len(entries))

    def brought_back(self, repair: Repair) -> Loss | None:
        """Return the loss of a repair and an import of the export. None if the import brings nothing."""
        entries = self._after(repair)
        missing = {key: path for key, path in self.entries.items() if key not in entries}
        return self._loss({**entries, **missing}, len(entries) + len(missing)) if missing else None

    def _after(self, repair: Repair) -> Mapping[str, Value]:
        tree = repair.tree
        if isinstance(tree, Node):
            return dict(read_range(self.files, tree, "", None) or {})
        assert isinstance(tree, Built), "a repair is an older tree or a built one"
        return tree.entries

    def _loss(self, after: Mapping[str, Value], objects: int) -> Loss:
        if self.latest is None:
            return Loss(None, objects)
        other = sum(not self._is_same(key, value, after.get(key)) for key, value in self.latest.items())
        return Loss(other + len(after.keys() - self.latest.keys()), objects)

    def _is_same(self, key: str, value: Value, after: Value | None) -> bool:
        if value == after or after is None:
            return after is not None
        if isinstance(value, bytes):
            return isinstance(after, str) and is_same(self.files, key, value, after)
        name = self.plan.copy.snapshot.keys.decode(key, "")
        found = self.plan.copy.snapshot.get(name)
        return isinstance(after, bytes) and found is not None and definitions.body(found.definition) == after


def compare_exports(
    store: Store, records: list[ExportRecord], opens: OpenStore, progress: Progress
) -> Iterator[tuple[ExportRecord, ComparedExport | OlympiaError]]:
    """Yield the newest exports, each compared with the catalog, or the reason why it could not be compared. An export
    that is promoted already is left out.
    """
    for record in records[:MOST_EXPORTS]:
        try:
            compared = _compare(store, record, opens(record.location), progress)
        except OlympiaError as error:
            yield record, error
            continue
        if not compared.plan.is_done:
            yield record, compared


def _compare(store: Store, record: ExportRecord, there: Store, progress: Progress) -> ComparedExport:
    plan = plan_copy(store, there, progress)
    files = RepairFiles(store, progress=Deadline(progress, Catalog(store).clock))
    entries = dict(plan.copy.entries())
    return ComparedExport(record, plan, entries, _latest(files, plan.copy, record, entries), files)


def _latest(
    files: RepairFiles, copy: Copy, record: ExportRecord, entries: Mapping[str, str]
) -> Mapping[str, Value] | None:
    """Return the latest content of the catalog, if the log since the export tells it."""
    versions, _ = list_versions(files.store)
    if copy.snapshot.version != record.version or not versions:
        return None
    latest = files.latest(versions)
    hint = read_hints(files.store).latest
    # the log does not tell a commit that is lost
    if latest.chain.latest != versions[-1] or (hint is not None and hint > versions[-1]):
        return None
    definition: CatalogDef = copy.snapshot.definition
    return Ancestry(files, versions, KeyCodec.of(sizes_of(definition))).after(record.version, entries)
