"""Advice on the findings of fsck, as complete commands for this catalog."""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.cli.boundary import confirm
from olympia_cli.cli.options import Output, check_one
from olympia_cli.cli.output.fsck import print_report
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption, OlympiaError
from olympia_cli.format.paths import size_limit
from olympia_cli.names import plural
from olympia_cli.ops import fsck
from olympia_cli.storage.open import BUCKET_SCHEMES, open_store, scheme_of

if TYPE_CHECKING:
    from olympia_cli.names import ObjectName
    from olympia_cli.ops.fsck import FsckRun, Report
    from olympia_cli.ops.repair import Advice, Places, Prefer, RepairPlan, RepairStep, SalvageReport
    from olympia_cli.storage.protocol import Store

PLACES = 9
"""Number of names to try for an empty place beside the catalog."""


@dataclass(frozen=True, slots=True)
class NextCommand:
    """A command that can be pasted; it may ask before it changes anything."""

    argv: tuple[str, ...]
    loses: int | None
    why: str
    leaves_versions: int = 0

    @property
    def line(self) -> str:
        return shlex.join(self.argv)

    @property
    def loss(self) -> str:
        if self.loses is None:
            return "its losses are unknown"
        if self.leaves_versions:
            objects = plural(self.loses, "object") if self.loses else "no object"
            if "--repair" in self.argv:
                return f"loses {objects} and {plural(self.leaves_versions, 'version')} of history"
            return f"loses {objects}, and leaves {plural(self.leaves_versions, 'older version')} behind"
        return "loses nothing" if not self.loses else f"loses {plural(self.loses, 'object')}"

    def describe(self) -> dict[str, Any]:
        described = {"command": list(self.argv), "loses": self.loses, "why": self.why}
        return {**described, "leaves_versions": self.leaves_versions}


def next_commands(session: Session, report: Report, options: Sequence[str]) -> list[NextCommand]:
    """Return the commands that repair the damage, the one that loses least first. `options` are those of the fsck."""
    if not report.findings and report.latest is not None:
        return []
    from olympia_cli.ops.repair import advise

    data = data_checks(session) if report.level is fsck.Level.DATA else None
    with session.progress() as progress:
        advice = advise(session.store, report, options, lambda: _places(session), progress, data, _opener(session))
    return _complete(session, advice)


def _complete(session: Session, advice: Sequence[Advice]) -> list[NextCommand]:
    """Return the commands with the program and the location."""
    here, elsewhere = session.program, session.program_elsewhere
    programs = (here if each.catalog is None else (*elsewhere, "-c", each.catalog) for each in advice)
    return [
        NextCommand((*program, *each.words), each.loses, each.why, each.leaves_versions)
        for program, each in zip(programs, advice, strict=True)
    ]


EXPORT_SECONDS = 5
"""Time of a store operation on an export, which may be unreachable."""


def _opener(session: Session) -> Callable[[str], Store]:
    """Return what opens the location of an export, and does not wait for it."""
    from olympia_cli.format.paths import size_limit
    from olympia_cli.storage.open import open_store

    def opened(place: str) -> Store:
        return open_store(place, {**session.options_for(place), "timeout": EXPORT_SECONDS}, size_limit=size_limit)

    return opened


def data_checks(session: Session) -> Any:
    """Return the checks of table data, with the storage options of the catalog."""
    from olympia_cli.iceberg import IcebergDataChecks

    scheme, separator, _ = session.location.uri.partition("://")
    return IcebergDataChecks(session.location.options or None, scheme if separator else "")


def with_commands(session: Session, report: Report, commands: Sequence[NextCommand] | None) -> Report:
    """Return the report with complete commands as advice, including the location of the catalog.

    Findings that advise a repair or a salvage get the best of the commands instead, so that all agree. Without
    commands they keep their advice.
    """
    repairing = {"--repair", "--salvage", "promote", "resume"}
    best = next((each.line for each in commands or () if repairing & set(each.argv)), "")

    def whole(hint: str) -> str:
        return best if commands is not None and hint in (fsck.REPAIR, fsck.SALVAGE) else session.command(hint)

    findings = (replace(finding, hint=whole(finding.hint)) if finding.hint else finding for finding in report.findings)
    return replace(report, findings=tuple(findings))


def say_next(session: Session, commands: Sequence[NextCommand]) -> None:
    for number, command in enumerate(commands):
        session.say(f"{'or' if number else 'next'}: {command.line}  ({command.loss})")
        session.say(f"      {command.why}")


def say_standing(session: Session, runs: Sequence[FsckRun]) -> None:
    """Name the damage of deeper fscks that `status` still shows, because no equally deep fsck has run since."""
    for run in runs:
        again = session.command(shlex.join(run.words()))
        session.say(f"status shows damage of an earlier fsck until it is checked again: {again}")


def _places(session: Session) -> Places:
    """Return an empty place for a new catalog, and the finished salvages at the places before it."""
    from olympia_cli.ops.repair import Places, salvage_source

    empty, salvages = _empty_place(session), {}
    for place in _place_names(session):
        if place == empty:
            break
        with suppress(OlympiaError):
            store = open_store(place, session.options_for(place))
            source = salvage_source(store)
            store.close()
            if source is not None:
                salvages[place] = source
    return Places(empty, salvages)


def _empty_place(session: Session) -> str:
    """Return an empty place for a new catalog beside this one, or in this folder if the catalog is a whole bucket."""
    from olympia_cli.ops.repair import check_free

    base, *others = _place_names(session)
    for place in (base, *others):
        try:
            store = open_store(place, session.options_for(place))
            check_free(store, session.store.uri)
            store.close()
            return place
        except OlympiaError:
            continue
    return base


def _place_names(session: Session) -> list[str]:
    """Return the candidate places for a new catalog."""
    uri = session.location.uri.rstrip("/")
    bucket = scheme_of(uri) in BUCKET_SCHEMES and "/" not in uri.partition("://")[2]
    base = "salvaged" if bucket else f"{uri}-salvaged"
    return [base, *(f"{base}-{number}" for number in range(2, PLACES))]


# The options of fsck that change something: repair, salvage and acknowledge.

SHOWN = 20
"""Number of names or lines of each kind to show; JSON has all of them."""


def check_options(
    repair: bool, prefer: str | None, salvage: str | None, acknowledge: bool, *, dry_run: bool, yes: bool, past: bool
) -> None:
    """Refuse options that do not go together. `past` is true if an older version is checked."""
    check_one(("--repair", repair), ("--salvage", salvage), ("--acknowledge", acknowledge))
    if repair and past:
        raise InvalidOption("a repair changes the latest version only", hint="leave out --at")
    if not repair and prefer is not None:
        raise InvalidOption("--prefer needs --repair", hint="add --repair")
    if not (repair or salvage is not None or acknowledge) and (dry_run or yes):
        # --salvage and --acknowledge do not ask, but take --yes too: scripts add it to any advised command
        option = "--dry-run" if dry_run else "--yes"
        raise InvalidOption(f"{option} needs --repair, --salvage or --acknowledge", hint="add one of them")


def exit_code(report: Report) -> int:
    return 50 if report.damaged else 0 if report.complete else 3


def repair_shown(
    session: Session,
    report: Report,
    commands: Sequence[NextCommand],
    options: Sequence[str],
    prefer: Prefer,
    yes: bool,
    dry_run: bool,
    message: str,
) -> int:
    """Show the findings and the plan, apply it, and check again. Return the exit code."""
    as_json = session.output is Output.JSON
    try:
        planned = plan(session, prefer)
    except OlympiaError as error:
        if not as_json:
            print_report(session, report)
        if "--salvage" in error.command:
            commands = commands or next_commands(session, report, options)
            _name_best(session, error, commands)
        raise
    if not as_json:
        print_report(session, report, to_repair=bool(planned.steps))
    sequel = _import_after(session, planned)
    version = repair(session, planned, prefer, yes=yes, dry_run=dry_run, message=message)
    after, standing = report, []
    if not planned.nothing_to_do and not dry_run:
        clock = SystemClock()
        with session.progress() as progress:
            after = fsck.fsck(session.store, fsck.FsckRequest(report.level, clock=clock, progress=progress))
        standing = fsck.note_fsck(session.store, after, clock, False)
        commands = [*sequel, *next_commands(session, after, options)]
        after = with_commands(session, after, commands)
        if not is_rows(session):
            print_report(session, after)
    if as_json:
        print_report(session, after, commands, more={"repair": describe_repair(planned, version, dry_run)})
    if after is report:
        return exit_code(report)
    # older versions stay as they are, damaged or not, until they expire
    sound = after.version is not None and after.last_sound_version == after.version
    if after.damaged and sound:
        session.say("the latest version is sound; damaged older versions stay in history until they expire")
    say_next(session, commands)
    if not after.damaged:
        say_standing(session, standing)
    return 0 if sound and after.complete else 50 if after.damaged else 3


def _name_best(session: Session, error: OlympiaError, commands: Sequence[NextCommand]) -> None:
    """Name the first of the commands in an error, complete with all locations."""
    size = len(session.program)
    if commands and commands[0].argv[:size] == tuple(session.program):
        error.advice, error.command = f"use a copy ({commands[0].loss})", commands[0].argv[size:]


def _import_after(session: Session, plan: RepairPlan) -> list[NextCommand]:
    """Return the import of an export that has objects which the repair does not bring back."""
    from olympia_cli.ops.repair import import_advice

    if not any(step.loses or step.reverts or step.lost_ranges for step in plan.steps):
        return []
    with session.progress() as progress:
        return _complete(session, import_advice(session.store, plan.repair, _opener(session), progress))


def salvage_shown(
    session: Session,
    fsck_report: Report,
    commands: Sequence[NextCommand],
    destination: str,
    dry_run: bool,
    message: str,
) -> int:

    if session.output is not Output.JSON:
        print_report(session, fsck_report)
    report = salvage(session, destination, dry_run=dry_run, message=message)
    if session.output is Output.JSON:
        print_report(session, fsck_report, commands, more={"salvage": {**report.describe(), "dry_run": dry_run}})
    return 0 if report.complete else 3


def plan(session: Session, prefer: Prefer) -> RepairPlan:
    from olympia_cli.ops.repair import plan_repair

    with session.progress() as progress:
        return plan_repair(session.store, prefer=prefer, progress=progress)


def repair(session: Session, plan: RepairPlan, prefer: Prefer, *, yes: bool, dry_run: bool, message: str) -> int | None:
    """Show the plan, ask, and apply it. Return the new version, if there is one."""
    from olympia_cli.ops.repair import apply_repair

    clock = SystemClock()
    _show(session, plan)
    if plan.nothing_to_do or dry_run:
        if not plan.nothing_to_do:
            words = "fsck --repair" if prefer == "auto" else f"fsck --repair --prefer {prefer}"
            session.say(f"to do it: {session.command(words)}")
        return None
    confirm("Repair it like this?", yes)
    with session.progress() as progress:
        version = apply_repair(session.store, clock, plan, session.author(message), progress)
    text = "done: no new version was needed" if version is None else f"v{version} is the repaired version"
    session.say(text if plan.asides or version is not None else "the hints are correct again")
    return version


def _show(session: Session, plan: RepairPlan) -> None:
    for step in plan.steps:
        session.say(f"plan: {step.text}")
        _show_step(session, step)
    for step in plan.alternatives:
        session.say(f"instead (--prefer {step.kind}): {step.text}")
    for text in plan.unmended:
        session.say(f"not repaired: {text}")
    if plan.nothing_to_do:
        rest = "nothing else" if plan.unmended else "nothing"
        session.say(f"there is {rest} to repair in the latest version or the hints")


def _show_step(session: Session, step: RepairStep) -> None:
    _say_some(session, step.details)
    _say_some(session, [f"unsure: {lost_range}" for lost_range in step.lost_ranges])
    _say_some(session, _objects_line("lost", step.loses))
    if step.reverts:
        session.say(f"  returned to an older version: {plural(len(step.reverts), 'object')}")
        # after a lost range every object may have changed, so a list of all of them tells nothing
        _say_some(session, [] if step.lost_ranges else _objects_line("older", step.reverts))


def _objects_line(word: str, names: Sequence[ObjectName]) -> list[str]:
    return [f"{word}: {name.kind.word} {name}" for name in names]


def _say_some(session: Session, lines: Sequence[str], *, is_problem: bool = False) -> None:
    for line in lines[:SHOWN]:
        session.say(f"  {line}", is_problem=is_problem)
    if len(lines) > SHOWN:
        session.say(f"  … and {len(lines) - SHOWN:,} more", is_problem=is_problem)


def describe_repair(plan: RepairPlan, version: int | None, dry_run: bool) -> dict[str, Any]:
    return {**plan.describe(), "dry_run": dry_run, "version": version}


def salvage(session: Session, destination: str, *, dry_run: bool, message: str) -> SalvageReport:
    """Write all readable objects into a new catalog, and report the rest."""
    from olympia_cli.ops.repair import salvage_catalog

    uri = os.path.expanduser(destination) if destination.startswith("~") else destination
    dest = open_store(uri, session.options_for(uri), size_limit=size_limit)
    author = session.author(message)
    with session.progress() as progress:
        report = salvage_catalog(session.store, dest, SystemClock(), author, progress, dry_run=dry_run)
    dest.close()
    _show_salvage(session, report, dry_run)
    return report


def _show_salvage(session: Session, report: SalvageReport, dry_run: bool) -> None:
    _say_some(session, report.notes)
    _say_some(session, [f"unreadable: {path}: {reason}" for path, reason in report.unreadable])
    if report.missing_versions:
        missing = f"  {plural(len(report.missing_versions), 'version')} missing"
        session.say(missing, is_problem=not report.complete)
    _say_some(session, [f"unsure: {lost_range}" for lost_range in report.lost_ranges], is_problem=True)
    _say_some(session, [f"doubtful: {name.kind.word} {name}: {why}" for name, why in report.doubtful], is_problem=True)
    _say_some(session, _objects_line("lost", report.lost), is_problem=True)
    origin = "leftover files" if report.from_version is None else f"v{report.from_version}"
    did = "would be" if dry_run else "are"
    lost = plural(len(report.lost), "object")
    text = f"{plural(report.objects, 'object')} of {origin} {did} in {report.destination}; {lost} lost"
    session.say(text, is_problem=not report.complete)
    if not dry_run:
        session.say(f"to check it: {shlex.join(('olympia', '-c', report.destination, 'status'))}")
        session.say(f"to put it in the catalog's place: {session.command(['promote', report.destination])}")


def acknowledge(session: Session, report: Report, *, dry_run: bool, message: str) -> Report:
    """Record the damage of older versions as known. Return the report with these findings acknowledged."""
    past_findings = [
        finding
        for finding in report.findings
        if not finding.acknowledged and fsck.of_the_past(finding, report.latest, report.oldest)
    ]
    if not past_findings:
        session.say("nothing to acknowledge: that is possible only for damage outside of the latest version")
        return report
    if dry_run:
        session.say(f"{plural(len(past_findings), 'finding')} would be acknowledged")
        return report
    version = fsck.acknowledge(session.catalog, past_findings, message)
    definition = session.catalog.snapshot().definition
    assert report.latest is not None, "findings on older versions need a latest one"
    session.say(f"v{version} acknowledges {plural(len(past_findings), 'finding')}")
    return replace(report, findings=tuple(fsck.recognised(report.findings, definition, report.latest, report.oldest)))


def is_rows(session: Session) -> bool:
    """Return whether the output is rows or one document, so that no second report may follow."""
    return session.output not in (Output.TABLE, Output.WIDE)
