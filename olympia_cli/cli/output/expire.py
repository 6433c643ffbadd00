"""Printing an expire: the plan, the result, the reasons of kept versions, and the simulation of policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render, size
from olympia_cli.cli.output.fsck import versions_text
from olympia_cli.cli.session import Session
from olympia_cli.names import plural
from olympia_cli.ops import expire, fsck

if TYPE_CHECKING:
    from olympia_cli.ops.expire import ExpirePlan, Going, PolicyOutcome, PurgePlan, UndoPlan
    from olympia_cli.ops.fsck import Finding

SHOWN = 5
"""Number of reasons to show; JSON has all of them."""

KEPT = [
    render.Column("version", "VERSION", right=True),
    render.Column("reason", "REASON"),
    render.Column("detail", "DETAIL"),
]
OUTCOMES = [
    render.Column("policy", "POLICY"),
    render.Column("oldest", "OLDEST", right=True),
    render.Column("versions", "VERSIONS", right=True),
    render.Column("files", "FILES", right=True),
    render.Column("bytes", "BYTES", right=True),
]
MARKS = [
    render.Column("version", "MARK", right=True),
    render.Column("expired", "VERSIONS"),
    render.Column("files", "FILES", right=True),
    render.Column("bytes", "BYTES", right=True),
    render.Column("marked_at", "MARKED"),
    render.Column("purge_after", "PURGE AFTER"),
    render.Column("manifest", "MANIFEST", wide=True),
    render.Column("problem", "PROBLEM", wide=True),
]
DOCUMENTS = (Output.JSON, Output.JSONL)


# The plan


def plan(session: Session, plan: ExpirePlan) -> None:
    mark = plan.mark
    purge(session, plan.purge)
    if not mark.is_empty:
        session.say(f"expire  {versions_said(mark.expired)}: {_totals(mark.files)}")
    session.say(f"keep    {versions_said([version.version for version in mark.kept_versions])}")
    if mark.damaged:
        versions = versions_text(fsck.ranges(mark.damaged), "…") + (" is" if len(mark.damaged) == 1 else " are")
        why = "known to be damaged, and may need any of them"
        if mark.damaged[-1] < mark.aside_before:
            why = "of the former catalog, and stay until promote --forget"
        session.say(f"leave   all nodes and definitions: {versions} {why}")
    if mark.young:
        session.say(f"leave   {plural(mark.young, 'file')} too young to be deleted")
    if mark.unknown:
        paths = ", ".join(mark.unknown_paths[:3]) + (", …" if mark.unknown > 3 else "")
        session.say(f"leave   {plural(mark.unknown, 'file')} that the format does not define: {paths}")


def purge(session: Session, plan: PurgePlan) -> None:
    for note in plan.notes:
        session.say(f"note: {note}")
    if plan.is_empty:
        return
    versions = versions_said(plan.versions) if plan.versions else "leftovers of an earlier purge"
    session.say(f"purge   {versions}: {_totals(plan.files)}, to be deleted for good")
    if plan.rescued:
        session.say(f"keep    {plural(plan.rescued, 'file')} of the quarantine that a kept version reaches")


def undo(session: Session, plan: UndoPlan, errors: Sequence[Finding]) -> None:
    if not plan.is_empty:
        session.say(f"brings back {versions_said(plan.versions)}; the oldest version is v{plan.oldest} then")
    if plan.left:
        left = f"leaves {versions_said(plan.left)} in quarantine, because files are missing or damaged:"
        lines = [left, *(f"  {error.path}: {error.message}" for error in errors[:SHOWN])]
        if len(errors) > SHOWN:
            lines.append(f"  … and {len(errors) - SHOWN:,} more")
        lines.append(f"restore the files from a backup, and then: {session.command('expire undo')}")
        for line in lines:
            session.say(line, is_problem=True)


def question(plan: ExpirePlan) -> str:
    if plan.mark.is_empty:
        return "Delete the files that rested in quarantine?"
    if plan.purge.is_empty:
        return f"Remove {versions_said(plan.mark.expired)} from history?"
    return f"Delete the files that rested in quarantine, and remove {versions_said(plan.mark.expired)} from history?"


def purge_question(plan: PurgePlan) -> str:
    return f"Delete {plural(plan.files.totals.files, 'file')} for good?"


# Reasons, simulation and marks


def kept(session: Session, plan: ExpirePlan) -> None:
    if session.output in DOCUMENTS:
        render.document(session, {"dry_run": True, **plan.describe(), "version": plan.head})
    else:
        values = map(asdict, plan.mark.kept_versions)
        render.records(
            session, "kept_versions", KEPT, values, name=lambda value: str(value["version"]), title="kept versions"
        )


def simulation(session: Session, outcomes: Sequence[PolicyOutcome], version: int) -> None:
    head = {"version": version, "dry_run": True}
    render.records(
        session, "policies", OUTCOMES, map(asdict, outcomes), head=head, name=lambda value: str(value["policy"])
    )


def marks(session: Session, quarantine_millis: int) -> None:
    head, documents = session.snapshot(), session.output in DOCUMENTS
    values = (
        mark if documents else {**mark, "expired": versions_said(mark["expired_versions"])}
        for mark in expire.list_marks(head, quarantine_millis)
    )
    render.records(
        session,
        "marks",
        MARKS,
        values,
        head={"version": head.version},
        name=lambda value: str(value["version"]),
        title="marks",
    )


# The result of a run or of a dry run


def done(session: Session, plan: ExpirePlan, dry_run: bool, version: int) -> None:
    texts = []
    if not plan.purge.is_empty:
        texts.append(_purged(plan.purge, dry_run))
    if not plan.mark.is_empty:
        versions = plural(len(plan.mark.expired), "version")
        verb = "would expire" if dry_run else "expired"
        texts.append(f"{verb} {versions}: {_totals(plan.mark.files)}, into quarantine")
    if not texts:
        texts.append(f"nothing to expire; the oldest version is v{plan.mark.oldest}")
    value = {"dry_run": dry_run, **plan.describe(), "version": version}
    render.outcome(session, value, *(f"v{version}  {text}" for text in texts))


def purged(session: Session, plan: PurgePlan, oldest: int, marks: int, dry_run: bool, version: int) -> None:
    described = plan.describe()
    value = {
        "dry_run": dry_run,
        "oldest": oldest,
        "expired_versions": described.pop("versions"),
        "kept_versions": [],
        **described,
        "version": version,
    }
    resting = f"; {plural(marks, 'mark')} in quarantine" if marks else ""
    text = f"nothing to purge{resting}" if plan.is_empty else _purged(plan, dry_run)
    render.outcome(session, value, f"v{version}  {text}")


def undone(session: Session, plan: UndoPlan, errors: Sequence[Finding], dry_run: bool, version: int) -> None:
    value = {
        "dry_run": dry_run,
        "oldest": plan.oldest,
        "restored_versions": list(plan.versions),
        "version": version,
        "left_versions": list(plan.left),
        "problems": [{"what": error.path, "why": error.message} for error in errors],
    }
    verb = "would bring" if dry_run else "brought"
    nothing = "no version in quarantine is sound" if plan.left else "nothing is in quarantine"
    text = nothing if plan.is_empty else f"{verb} back {versions_said(plan.versions)}"
    render.outcome(session, value, f"v{version}  {text}")


def _purged(plan: PurgePlan, dry_run: bool) -> str:
    if not plan.versions:
        return f"{'would delete' if dry_run else 'deleted'} leftovers of an earlier purge: {_totals(plan.files)}"
    versions = plural(len(plan.versions), "version")
    return f"{'would purge' if dry_run else 'purged'} {versions}: {_totals(plan.files)}"


def versions_said(numbers: Sequence[int]) -> str:
    """Format consecutive versions: `v3…v9 (7 versions)`."""
    if not numbers:
        return "no version"
    if len(numbers) == 1:
        return f"v{numbers[0]}"
    return f"v{numbers[0]}…v{numbers[-1]} ({plural(len(numbers), 'version')})"


def _totals(files: Going) -> str:
    """Format counts: `12 files, 3.4 MiB`."""
    return f"{plural(files.totals.files, 'file')}, {size(files.totals.bytes)}"
