"""What to do next about what fsck found: commands, the one that loses least first.

A command is planned before it is named, so that what it loses is known and that it does what it says. Where nothing is
wrong nothing is planned.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.repair_commit import Source
from olympia_cli.errors import OlympiaError, Refused, StorageDenied, StorageFailed, Unsupported
from olympia_cli.names import AtVersion
from olympia_cli.ops.fsck.acknowledged import of_the_past
from olympia_cli.ops.fsck.chain import list_versions
from olympia_cli.ops.fsck.findings import REPAIR, SALVAGE, Finding, Severity
from olympia_cli.ops.fsck.fsck import Level, Report
from olympia_cli.ops.look.diff import diff
from olympia_cli.ops.progress import SILENT, Progress
from olympia_cli.ops.repair.plan import RepairPlan, RepairStep, SalvageReport
from olympia_cli.ops.repair.repair import plan_repair
from olympia_cli.ops.repair.salvage import plan_salvage
from olympia_cli.storage.protocol import Store

MOST_NODES = 2000
"""A plan reads all that the latest version reaches. Where that is more than so many nodes it is left to the command."""

MOST_ADVICE = 5

_NOT_PLANNED = "what it loses is known when it is planned: add --dry-run"
_LOOKS = ("dump-node", "table history")


@dataclass(frozen=True, slots=True)
class Advice:
    """A command, as words after the program and the place of the catalog. `loses` is how many objects that are there
    now are gone or older afterwards; None where nobody knows."""

    words: tuple[str, ...]
    loses: int | None
    why: str
    leaves_versions: int = 0
    """Older versions that a new catalog does not have."""


@dataclass(frozen=True, slots=True)
class Places:
    """Where a new catalog can go, and the finished salvages beside it, each with what it was written from."""

    empty: str
    salvages: Mapping[str, Source]


def advise(
    store: Store, report: Report, looked: Sequence[str], places: Callable[[], Places], progress: Progress = SILENT
) -> list[Advice]:
    """For what is wrong with the latest version the best first, then for what is wrong beside it. `looked` are the
    options that fsck looked with, `places` looks for places for a new catalog."""
    if report.read_only:
        return []
    damage = [finding for finding in report.findings if finding.is_damage]
    past = [finding for finding in damage if of_the_past(finding, report.latest, report.oldest)]
    advice: list[Advice] = []
    if past and report.version != report.latest:
        # whether the latest version has it, too, decides about what to do, and nobody looked
        depth = () if report.level is Level.STRUCTURE else ("--level", str(report.level))
        why = f"v{report.version} alone was looked at: this looks at all versions, and says what to do"
        return [Advice(("fsck", *depth, "--all-versions"), 0, why)]
    if past and len(past) == len(damage):
        why = f"v{report.latest} is whole; what is damaged before it stays in history, and raises no more alarm"
        advice.append(Advice(("fsck", *looked, "--acknowledge"), 0, why))
    if len(past) < len(damage) or any(map(_is_hint, report.findings)):
        advice += _planned(store, report, places, progress)
    return [*advice, *_own(damage)]


def _is_hint(finding: Finding) -> bool:
    return finding.severity is Severity.WARNING and finding.hint == REPAIR


def _planned(store: Store, report: Report, places: Callable[[], Places], progress: Progress) -> Iterator[Advice]:
    if report.level is Level.HINTS or not report.complete or report.checked["nodes"] > MOST_NODES:
        yield Advice(tuple(REPAIR.split()), None, _NOT_PLANNED)
        return
    try:
        plan = plan_repair(store, alternatives=True, progress=progress)
    except Refused as refused:
        yield from _salvage(store, refused.message, places(), progress)
        return
    except (StorageFailed, StorageDenied) as error:
        # what was found is told all the same
        yield Advice(tuple(REPAIR.split()), None, f"it could not be planned: {error.message}")
        return
    except Unsupported:
        return  # whoever wrote it has a program that may mend it
    if plan.steps:
        yield Advice(tuple(REPAIR.split()), _lost(plan.steps), _why(plan))
        for step in plan.alternatives:
            yield Advice((*REPAIR.split(), "--prefer", step.kind), _lost([step]), step.text)
    elif any(finding.hint == SALVAGE for finding in report.findings):
        yield from _salvage(store, "a repair does not close a gap", places(), progress)
    elif report.last_sound_version is not None:
        yield from _rollback(store, report.last_sound_version)


def _lost(steps: Sequence[RepairStep]) -> int | None:
    if any(step.lost_ranges for step in steps):
        return None
    return sum(len(step.loses) + len(step.reverts) - len(step.returns) for step in steps)


def _why(plan: RepairPlan) -> str:
    unsure = [str(lost) for step in plan.steps for lost in step.lost_ranges]
    more = "; --salvage looks further, through what nothing points to" if unsure else ""
    return "; ".join([step.text for step in plan.steps] + unsure[:1]) + more


def _salvage(store: Store, refused: str, places: Places, progress: Progress) -> Iterator[Advice]:
    words = (*SALVAGE.split()[:-1], places.empty)
    try:
        report = plan_salvage(store, places.empty, progress)
    except (StorageFailed, StorageDenied) as error:
        yield Advice(words, None, f"it could not be planned: {error.message}")
        return
    except Unsupported:
        return
    origin = "what files are left" if report.from_version is None else f"what v{report.from_version} holds"
    source = Source(store.uri, report.from_version)
    finished = next((place for place, written_from in places.salvages.items() if written_from == source), None)
    if finished is not None:
        why = f"{refused}; a salvage wrote {origin} to {finished}, and this puts it in the catalog's place"
        yield Advice(("promote", finished), _left_behind(report), why)
        return
    why = (
        f"{refused}; this writes {origin}, {report.objects:,} objects, into a new catalog, which promote puts in place"
    )
    versions, _ = list_versions(store)
    yield Advice(words, _left_behind(report), why, max(len(versions) - 1, 0))


def _left_behind(report: SalvageReport) -> int | None:
    newest = report.from_version
    if newest is None or report.lost_ranges or any(version > newest for version in report.missing_versions):
        return None
    return len(report.lost) + len(report.doubtful)


def _rollback(store: Store, version: int) -> Iterator[Advice]:
    """Where a repair has nothing to mend: what is wrong is wrong with what the objects are about."""
    catalog = Catalog(store)
    try:
        head = catalog.snapshot()
        changes = [change.change for change in diff(head, catalog.snapshot(AtVersion(version)))]
    except OlympiaError:
        return
    if head.version != version:
        why = f"the content of v{version}, the last sound version"
        yield Advice(("rollback", f"v{version}"), len(changes) - changes.count("created"), why)


def _own(damage: Sequence[Finding]) -> list[Advice]:
    """What findings about transactions and exports say for themselves."""
    own = (finding for finding in damage if finding.hint and (finding.held_by or not finding.versions))
    hints = {finding.hint: finding.message for finding in own}
    words = {hint: message for hint, message in hints.items() if hint not in (REPAIR, SALVAGE)}
    candidates = [_advice_of(tuple(shlex.split(hint)), message) for hint, message in words.items()]
    return [advice for advice in candidates if not " ".join(advice.words).startswith(_LOOKS)][:MOST_ADVICE]


def _advice_of(words: tuple[str, ...], message: str) -> Advice:
    if words[:2] == ("txn", "abort"):
        # what it staged is no object yet, and somebody's work all the same
        return Advice(words, None, f"{message}; this gives up all that it staged")
    return Advice(words, 0, message)
