"""Advice after fsck: commands to run next, the one with the smallest loss first.

Each command is planned before it is advised, so that its effect and its loss are known. Without damage nothing is
planned.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, islice

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.repair_commit import Repair, RepairSource
from olympia_cli.catalog.replay import touched
from olympia_cli.catalog.retained import ExportRecord
from olympia_cli.catalog.snapshot import CatalogObject, ObjectDefinition, Snapshot
from olympia_cli.errors import (
    Damaged,
    OlympiaError,
    Refused,
    StorageDenied,
    StorageFailed,
    Unsupported,
    command_words,
)
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.objects_pb2 import TableDef, ViewDef
from olympia_cli.names import AtVersion, NamespaceName, ObjectName, TableName, ViewName, plural
from olympia_cli.ops.export import read_note, resume_words
from olympia_cli.ops.fsck import (
    REPAIR,
    SALVAGE,
    DataChecks,
    Finding,
    Level,
    Report,
    Severity,
    inside,
    list_versions,
    of_the_past,
    with_data,
)
from olympia_cli.ops.inspect import diff, history, last_changes
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.repair.content import MOST_VERSIONS
from olympia_cli.ops.repair.copies import (
    MOST_EXPORTS,
    ComparedExport,
    Loss,
    OpenStore,
    compare_exports,
    full_exports,
    plan_copy,
)
from olympia_cli.ops.repair.repair import Prefer, RepairPlan, RepairStep, plan_repair
from olympia_cli.ops.repair.salvage import SalvageReport, plan_salvage, salvaged_from
from olympia_cli.storage.open import open_store
from olympia_cli.storage.protocol import Store

MOST_NODES = 2000
"""A plan reads all files of the latest version. If it has more nodes than this, the command is advised without
a plan.
"""

MOST_ADVICE = 5
MOST_LOCATIONS = 50
"""The largest number of older metadata files of a table to check."""

_NOT_PLANNED = "what it loses is known when it is planned: add --dry-run"
_LOOKS = ("dump-node", "table history")

LOOK = ("fsck",)
"""Checks an export that could not be compared."""


@dataclass(frozen=True, slots=True)
class Advice:
    """A command, as words after the program and the catalog's location.

    `loses` is the number of present objects that are missing or older afterwards; None if unknown. `catalog` is the
    location if the command runs on another catalog.
    """

    words: tuple[str, ...]
    loses: int | None
    why: str
    leaves_versions: int = 0
    """The number of older versions that a new catalog, or the repaired history, lacks."""
    catalog: str | None = None
    objects: int = 0
    """The number of objects afterwards, if it is known and the loss is not."""
    at_the_end: Loss | None = None
    """The loss if an import of an export follows, which decides about the order."""


@dataclass(frozen=True, slots=True)
class Places:
    """A free location for a new catalog, and the finished salvages beside it, each with its source."""

    empty: str
    salvages: Mapping[str, RepairSource]


def advise(
    store: Store,
    report: Report,
    looked: Sequence[str],
    places: Callable[[], Places],
    progress: Progress = SILENT,
    data: DataChecks | None = None,
    opens: OpenStore = open_store,
) -> list[Advice]:
    """Return advice: first for the latest version, the best command first, then for other damage.

    `looked` are the options of this fsck. `places` finds locations for a new catalog, `data` checks older metadata of
    tables, and `opens` opens the location of an export.
    """
    if report.read_only:
        return []
    if report.version is None and report.latest is None:
        return [*_unfinished(store), *sorted(_planned(store, report, places, progress, data, opens), key=_cost)]
    damage = [finding for finding in report.findings if finding.is_damage]
    past = [finding for finding in damage if of_the_past(finding, report.latest, report.oldest)]
    advice: list[Advice] = []
    if past and report.version != report.latest:
        # unknown whether the latest version is damaged too, which decides about the repair
        depth = () if report.level is Level.STRUCTURE else ("--level", str(report.level))
        why = f"v{report.version} alone was checked: this checks all versions, and names the next step"
        return [Advice(("fsck", *depth, "--all-versions"), 0, why)]
    if past and len(past) == len(damage):
        why = f"v{report.latest} is sound; damaged older versions stay in history, and raise no more alarm"
        advice.append(Advice(("fsck", *looked, "--acknowledge"), 0, why))
    elif not damage and report.latest is not None and any(map(_is_answered, report.findings)):
        looked = [*(word for word in looked if word != "--all-versions"), "--all-versions"]
        why = f"v{report.latest} is sound; a check of all versions raises an alarm about damaged older ones"
        advice.append(Advice(("fsck", *looked, "--acknowledge"), 0, why))
    if len(past) < len(damage) or any(map(_is_hint, report.findings)):
        advice += sorted(_planned(store, report, places, progress, data, opens), key=_cost)
    return [*advice, *_own(damage)]


def _cost(advice: Advice) -> tuple[bool, bool, int]:
    """Return the loss, for comparisons. Among unknown losses, the command that keeps most objects comes first, and a
    command that only looks comes last.
    """
    loss = advice.at_the_end or Loss(advice.loses, advice.objects)
    looks = advice.words == LOOK
    return (looks, True, -loss.objects) if loss.loses is None else (looks, False, loss.loses)


def _unfinished(store: Store) -> Iterator[Advice]:
    """Yield the command that completes an unfinished export or salvage at this location."""
    with suppress(Damaged):
        if (note := read_note(store)) is not None:
            words = tuple(shlex.split(resume_words(note.name, store.uri)))
            why = f"this place holds a part of the export {note.name!a}, which this finishes"
            yield Advice(words, 0, why, catalog=note.source)
    if (source := salvaged_from(store)) is not None:
        why = f"this place holds a part of a salvage of {source}, which this finishes"
        yield Advice((*SALVAGE.split()[:-1], store.uri), None, why, catalog=source)


def _is_answered(finding: Finding) -> bool:
    return finding.mended_in is not None and not finding.acknowledged


def _is_hint(finding: Finding) -> bool:
    return finding.severity is Severity.WARNING and finding.hint == REPAIR


def _planned(
    store: Store,
    report: Report,
    places: Callable[[], Places],
    progress: Progress,
    data: DataChecks | None,
    opens: OpenStore,
) -> Iterator[Advice]:
    is_large = report.checked["nodes"] > MOST_NODES or (_root_is_lost(report) and _kept(report) > MOST_VERSIONS)
    if report.level is Level.HINTS or not report.complete or is_large:
        yield Advice(tuple(REPAIR.split()), None, _NOT_PLANNED)
        with suppress(OlympiaError):
            for record in full_exports(store)[:MOST_EXPORTS]:
                yield Advice(("promote", record.location), None, f"{_export(record)}; {_NOT_PLANNED}")
        return
    try:
        plan = plan_repair(store, alternatives=True, progress=progress)
    except Refused as refused:
        yield from _salvage(store, refused.message, places(), opens, progress)
        yield from _exports(store, opens, progress)[0]
        return
    except (StorageFailed, StorageDenied) as error:
        # the findings are still reported
        yield Advice(tuple(REPAIR.split()), None, f"it could not be planned: {error.message}")
        return
    except Unsupported:
        return  # the program that wrote it may be able to repair it
    if plan.steps:
        advice, exports = _exports(store, opens, progress) if _lost(plan.steps) != 0 else ([], [])
        yield from advice
        objects = sum(step.objects for step in plan.steps)
        first = Advice(tuple(REPAIR.split()), _lost(plan.steps), _why(plan), plan.leaves_versions, objects=objects)
        yield _with_import(first, plan.repair, exports)
        for step in plan.alternatives:
            other = Advice(
                (*REPAIR.split(), "--prefer", step.kind),
                _lost([step]),
                step.text,
                step.leaves_versions,
                objects=step.objects,
            )
            prefer: Prefer = "rollback" if step.kind == "rollback" else "rebuild"
            yield _with_import(other, plan_repair(store, prefer=prefer).repair if exports else None, exports)
        if any(step.lost_ranges for step in plan.steps):
            yield from _salvage(store, "a repair leaves something open", places(), opens, progress)
    elif any(finding.hint == SALVAGE for finding in report.findings):
        yield from _salvage(store, "a repair does not close a gap", places(), opens, progress)
    else:
        yield from _same_ids(store, report)
        yield from _tables(store, report, data)
        # after an acknowledgement, the latest version is newer than the checked one
        if report.last_sound_version is not None and report.last_sound_version != report.latest:
            yield from _rollback(store, report.last_sound_version, data)


# The exports of the catalog


def _export(record: ExportRecord) -> str:
    return f"the full export {record.name} of v{record.version}"


def _exports(store: Store, opens: OpenStore, progress: Progress) -> tuple[list[Advice], list[ComparedExport]]:
    """Return the promotions of full exports, and a look at each export that cannot be compared; and the others."""
    advice, exports = [], []
    try:
        records = full_exports(store)
    except OlympiaError:
        return [], []
    for record, compared in compare_exports(store, records, opens, progress):
        if isinstance(compared, ComparedExport):
            exports.append(compared)
            loss = compared.promoted()
            why = f"{_export(record)}, {plural(compared.plan.objects, 'object')}, takes the catalog's place"
            if compared.plan.catalog_changes:
                why += f" with its settings: {', '.join(compared.plan.catalog_changes)}"
            advice.append(Advice(("promote", record.location), loss.loses, why, objects=loss.objects))
        else:
            why = f"{_export(record)} could not be compared: {compared.message}; run this fsck again when it can be"
            advice.append(Advice(LOOK, 0, why, catalog=record.location))
    unread = records[MOST_EXPORTS:]
    for record in unread[:1]:
        why = f"{_export(record)}{f' and {len(unread) - 1:,} older' if unread[1:] else ''} was not compared"
        advice.append(Advice(LOOK, 0, why, catalog=record.location))
    return advice, exports


def _with_import(advice: Advice, repair: Repair | None, exports: Sequence[ComparedExport]) -> Advice:
    """Return the advice of a repair with its loss by the exports, and the import that loses least afterwards."""
    if repair is None:
        return advice
    losses = [each.repaired(repair) for each in exports if each.latest is not None]
    if losses:
        advice = replace(advice, loses=losses[0].loses)
    best = import_after(repair, exports)
    if best is None:
        return advice
    export, loss = best
    rest = "" if loss.loses is None else f"; then {plural(loss.loses, 'object')} lost" if loss.loses else ""
    words = shlex.join(("import", "olympia", export.record.location))
    why = f"{advice.why}; then {words} brings what is missing{rest}"
    return replace(advice, why=why, at_the_end=loss)


def import_after(repair: Repair, exports: Sequence[ComparedExport]) -> tuple[ComparedExport, Loss] | None:
    """Return the export whose import after a repair loses least, and the loss. None if no import brings anything."""
    losses = [(export, loss) for export in exports if (loss := export.brought_back(repair)) is not None]
    useful = [(export, loss) for export, loss in losses if loss.loses is None or _gains(export, loss, repair)]
    return min(useful, key=lambda pair: (pair[1].loses is None, pair[1].loses or -pair[1].objects), default=None)


def _gains(export: ComparedExport, loss: Loss, repair: Repair) -> bool:
    alone = export.repaired(repair).loses
    return alone is None or loss.loses is None or loss.loses < alone


def import_advice(store: Store, repair: Repair | None, opens: OpenStore, progress: Progress = SILENT) -> list[Advice]:
    """Return the import that brings what a repair loses, if an export has it."""
    if repair is None:
        return []
    best = import_after(repair, _exports(store, opens, progress)[1])
    if best is None:
        return []
    export, loss = best
    why = f"{_export(export.record)} has objects that the repair could not bring back"
    if loss.loses is None:
        why = f"{_export(export.record)} has objects that the catalog has not: lost ones, or dropped since then"
    return [Advice(("import", "olympia", export.record.location), None if loss.loses is None else 0, why)]


def _root_is_lost(report: Report) -> bool:
    """Return whether a repair searches files that no version reaches. For that it reads all versions."""
    if report.latest is None:
        return False
    lost = root_path(report.latest)
    return any(finding.code == "F114" or finding.path == lost for finding in report.findings if finding.is_damage)


def _kept(report: Report) -> int:
    return (report.latest or 0) - (report.oldest or 0)


def _lost(steps: Sequence[RepairStep]) -> int | None:
    if any(step.lost_ranges for step in steps):
        return None
    return sum(len(step.loses) + len(step.reverts) - len(step.returns) for step in steps)


def _why(plan: RepairPlan) -> str:
    unsure = [str(lost) for step in plan.steps for lost in step.lost_ranges]
    return "; ".join([step.text for step in plan.steps] + unsure[:1])


def _salvage(store: Store, refused: str, places: Places, opens: OpenStore, progress: Progress) -> Iterator[Advice]:
    words = (*SALVAGE.split()[:-1], places.empty)
    try:
        report = plan_salvage(store, places.empty, progress)
    except (StorageFailed, StorageDenied) as error:
        yield Advice(words, None, f"it could not be planned: {error.message}")
        return
    except Unsupported:
        return
    origin = "what files are left" if report.from_version is None else f"what v{report.from_version} holds"
    left, source = _left_behind(report), RepairSource(store.uri, report.from_version)
    for place in (place for place, written_from in places.salvages.items() if written_from == source):
        loss = _promoted_salvage(store, place, left, opens, progress)
        if loss is None:
            continue
        why = f"{refused}; a salvage wrote {origin} to {place}, and this puts it in the catalog's place"
        yield Advice(("promote", place), loss.loses, why, objects=loss.objects)
        if loss.loses == left:
            return
    why = (
        f"{refused}; this writes {origin}, {report.objects:,} objects, into a new catalog, which promote puts in place"
    )
    versions, _ = list_versions(store)
    yield Advice(words, left, why, max(len(versions) - 1, 0), objects=report.objects)


def _promoted_salvage(store: Store, place: str, left: int | None, opens: OpenStore, progress: Progress) -> Loss | None:
    """Return the loss if a finished salvage takes the catalog's place, or None if it cannot. `left` is the loss of the
    salvage itself: commits since may have dropped or changed its objects.
    """
    try:
        plan = plan_copy(store, opens(place), progress)
    except (StorageFailed, StorageDenied):
        return Loss(None, 0)
    except OlympiaError:
        return None
    copy = plan.copy.snapshot
    if plan.is_done or copy.definition.id != plan.catalog.id:
        return None
    return Loss(None if left is None else left + len(plan.loses), plan.objects - len(plan.loses))


def _left_behind(report: SalvageReport) -> int | None:
    newest = report.from_version
    if newest is None or report.lost_ranges or any(version > newest for version in report.missing_versions):
        return None
    return len(report.lost) + len(report.doubtful)


def _rollback(store: Store, version: int, data: DataChecks | None) -> Iterator[Advice]:
    """Yield a rollback to the last sound version. Called if there is nothing to repair: only data of objects is
    damaged. fsck may not have read the data of this version, so `data` checks the objects that would come back.
    """
    catalog = Catalog(store)
    try:
        head, former = catalog.snapshot(), catalog.snapshot(AtVersion(version))
        changes = list(diff(head, former))
        came = [change.new for change in changes if change.new is not None]
        if data is not None and _is_lost(came, data):
            return
    except OlympiaError:
        return
    why = f"the content of v{version}, the last sound version"
    created = sum(change.change == "created" for change in changes)
    yield Advice(("rollback", f"v{version}"), len(changes) - created, why)


def _same_ids(store: Store, report: Report) -> Iterator[Advice]:
    """Yield a drop of each table or view that has the id of another object. Without the log it is not known which of
    the objects that is, so all of them are named.
    """
    head = Catalog(store).snapshot()
    for error in (each for each in report.findings if each.is_damage and each.code == "F305"):
        if not inside(head.version, error.versions):
            continue
        names = [name for name in error.objects if not isinstance(name, NamespaceName)]
        wrong = _contradict_log(head, names)
        for name in (wrong or names)[:MOST_ADVICE]:
            why = f"without the {name.kind.word} {name}: {error.message}; it can be made again"
            yield Advice(command_words(name.kind.word, "drop", names=[str(name)]), 1 if wrong else None, why)


def _contradict_log(head: Snapshot, names: Iterable[ObjectName]) -> list[ObjectName]:
    """Return the objects whose id is another one in the log."""
    ids = {name: found.id for name in names if (found := head.get(name)) is not None}
    logged = {
        name: action.id
        for name, entry in last_changes(head, ids).items()
        for action in entry.actions
        if action.definition and name in touched(action)
    }
    return [name for name, id in logged.items() if id and id != ids[name]]


def _is_lost(objects: Iterable[CatalogObject[ObjectDefinition]], data: DataChecks) -> bool:
    """Return whether metadata or data of one of these tables and views is lost."""
    checked = (parts for found in objects if (parts := with_data(found.name, found.definition)) is not None)
    return any(hit.finding.severity is Severity.ERROR for hit in data.check(checked, SILENT))


def _tables(store: Store, report: Report, data: DataChecks | None) -> Iterator[Advice]:
    """Yield advice for each table and view with lost metadata or data: the newest sound metadata, or a drop."""
    lost = [finding for finding in report.findings if finding.is_damage and finding.code.startswith("F60")]
    names = [name for finding in lost if inside(report.latest or 0, finding.versions) for name in finding.objects]
    head = Catalog(store).snapshot()
    found = [one for name in dict.fromkeys(names[:MOST_ADVICE]) if (one := head.get(name)) is not None]
    for one in found if data is not None else []:
        assert data is not None, "or nothing is looked at"
        yield from islice(_older(head, one, data), 1)
    for one in found:
        word, name = one.name.kind.word, str(one.name)
        yield Advice(command_words(word, "drop", names=[name]), 1, f"without the {word} {name}, whose data is lost")


def _older(head: Snapshot, found: CatalogObject[ObjectDefinition], data: DataChecks) -> Iterator[Advice]:
    """Yield the commands that return to older sound metadata of an object, the newest first."""
    name, now = found.name, found.definition
    if isinstance(name, TableName) and isinstance(now, TableDef):
        for back, location in enumerate(islice(_older_locations(head, name, now), MOST_LOCATIONS), 1):
            older = TableDef(id=now.id, table_format=now.table_format, iceberg_metadata_location=location)
            if not any(True for _ in data.check([(name, older)], SILENT)):
                words = command_words("table", "alter", "--metadata-location", location, names=[str(name)])
                change = "change" if back == 1 else f"{back} changes"
                why = f"the table {name} goes back to {location}, which is sound with all its files"
                yield Advice(words, 1, f"{why}, and loses its last {change} with all that was added")
    elif isinstance(name, ViewName):
        for revision in islice(history(head, name), 1, MOST_LOCATIONS):
            view = None if revision.after is None else revision.after.definition
            if (
                isinstance(view, ViewDef)
                and revision.name == name
                and not any(True for _ in data.check([(name, view)], SILENT))
            ):
                words = command_words("view", "restore", "--at", f"v{revision.entry.version}", names=[str(name)])
                yield Advice(words, 1, f"the view {name} as v{revision.entry.version} has it, with sound metadata")


def _older_locations(head: Snapshot, name: TableName, now: TableDef) -> Iterator[str]:
    """Yield the earlier metadata locations of a table, the newest first."""
    seen = {"", now.iceberg_metadata_location}
    former = (revision.after.definition for revision in history(head, name) if revision.after is not None)
    locations = (table.iceberg_metadata_location for table in former if isinstance(table, TableDef))
    for location in chain([now.iceberg_previous_metadata_location], locations):
        if location not in seen:
            seen.add(location)
            yield location


def _own(damage: Sequence[Finding]) -> list[Advice]:
    """Return the advice of findings about transactions and exports."""
    own = (finding for finding in damage if finding.hint and (finding.held_by or not finding.versions))
    hints = {finding.hint: finding.message for finding in own}
    words = {hint: message for hint, message in hints.items() if hint not in (REPAIR, SALVAGE)}
    candidates = [_advice_of(tuple(shlex.split(hint)), message) for hint, message in words.items()]
    return [advice for advice in candidates if not " ".join(advice.words).startswith(_LOOKS)][:MOST_ADVICE]


def _advice_of(words: tuple[str, ...], message: str) -> Advice:
    if words[:2] == ("txn", "abort"):
        # staged actions are not objects yet, but they are lost work
        return Advice(words, None, f"{message}; this gives up all its staged changes")
    if words[:2] == ("export", "drop"):
        return Advice(words, None, f"{message}; this gives up the files that the export needs of this catalog")
    return Advice(words, 0, message)
