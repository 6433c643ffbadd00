"""How an expire is shown: the plan before, what was done after, why versions stay, what policies would free."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.escape import size
from olympia_cli.cli.params import Output
from olympia_cli.names import plural

if TYPE_CHECKING:
    from olympia_cli.ops.expire.files import Going
    from olympia_cli.ops.expire.simulate import PolicyOutcome
    from olympia_cli.ops.expire.values import ExpirePlan, PurgePlan, UndoPlan
    from olympia_cli.ops.fsck.findings import Finding

SHOWN = 5
"""So many reasons are shown; JSON has all of them."""

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


# Before


def plan(session: Session, plan: ExpirePlan) -> None:
    from olympia_cli.cli.fsck_render import versions_text
    from olympia_cli.ops.fsck.findings import ranges

    mark = plan.mark
    purge(session, plan.purge)
    if not mark.is_empty:
        session.say(f"expire  {versions_said(mark.expired)}: {_totals(mark.files)}")
    session.say(f"keep    {versions_said([version.version for version in mark.kept_versions])}")
    if mark.damaged:
        named = versions_text(ranges(mark.damaged), "…") + (" is" if len(mark.damaged) == 1 else " are")
        why = "known to be damaged, and may need any of them"
        if mark.damaged[-1] < mark.aside_before:
            why = "of the former catalog, and stay until promote --forget"
        session.say(f"leave   all nodes and definitions: {named} {why}")
    if mark.young:
        session.say(f"leave   {plural(mark.young, 'file')} too young to be taken")
    if mark.unknown:
        shown = ", ".join(mark.unknown_paths[:3]) + (", …" if mark.unknown > 3 else "")
        session.say(f"leave   {plural(mark.unknown, 'file')} that the format does not know: {shown}")


def purge(session: Session, plan: PurgePlan) -> None:
    for note in plan.notes:
        session.say(f"note: {note}")
    if plan.is_empty:
        return
    gone = versions_said(plan.versions) if plan.versions else "what was left"
    session.say(f"purge   {gone}: {_totals(plan.files)}, to be deleted for good")
    if plan.rescued:
        session.say(f"keep    {plural(plan.rescued, 'file')} of the quarantine that something kept reaches")


def undo(session: Session, plan: UndoPlan, errors: Sequence[Finding]) -> None:
    if not plan.is_empty:
        session.say(f"brings back {versions_said(plan.versions)}; the oldest version is v{plan.oldest} then")
    if plan.left:
        session.say(f"leaves {versions_said(plan.left)} in quarantine: not all of it is there")
        for error in errors[:SHOWN]:
            session.say(f"  {error.path}: {error.message}")
        if len(errors) > SHOWN:
            session.say(f"  … and {len(errors) - SHOWN:,} more")
        session.say(f"bring the files back from a backup, and then: {session.command('expire undo')}")


def question(plan: ExpirePlan) -> str:
    if plan.mark.is_empty:
        return "Delete what has rested in quarantine?"
    if plan.purge.is_empty:
        return f"Take {versions_said(plan.mark.expired)} out of history?"
    return f"Delete what has rested in quarantine, and take {versions_said(plan.mark.expired)} out of history?"


def purge_question(plan: PurgePlan) -> str:
    return f"Delete {plural(plan.files.totals.files, 'file')} for good?"


# In place of it


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
    from olympia_cli.ops.expire.marks import list_marks

    head, documents = session.snapshot(), session.output in DOCUMENTS
    values = (
        mark if documents else {**mark, "expired": versions_said(mark["expired_versions"])}
        for mark in list_marks(head, quarantine_millis)
    )
    named = {"version": head.version}
    render.records(session, "marks", MARKS, values, head=named, name=lambda value: str(value["version"]), title="marks")


# After: what a run did, or would do


def done(session: Session, plan: ExpirePlan, looking: bool, version: int) -> None:
    texts = []
    if plan.is_empty:
        texts.append(f"nothing to expire; the oldest version is v{plan.mark.oldest}")
    if not plan.purge.is_empty:
        texts.append(_purged(plan.purge, looking))
    if not plan.mark.is_empty:
        many = plural(len(plan.mark.expired), "version")
        expired = "would expire" if looking else "expired"
        texts.append(f"{expired} {many}: {_totals(plan.mark.files)}, into quarantine")
    value = {"dry_run": looking, **plan.describe(), "version": version}
    render.outcome(session, value, *(f"v{version}  {text}" for text in texts))


def purged(session: Session, plan: PurgePlan, oldest: int, marks: int, looking: bool, version: int) -> None:
    described = plan.describe()
    value = {
        "dry_run": looking,
        "oldest": oldest,
        "expired_versions": described.pop("versions"),
        "kept_versions": [],
        **described,
        "version": version,
    }
    resting = f"; {plural(marks, 'mark')} in quarantine" if marks else ""
    text = f"nothing to purge{resting}" if plan.is_empty else _purged(plan, looking)
    render.outcome(session, value, f"v{version}  {text}")


def undone(session: Session, plan: UndoPlan, errors: Sequence[Finding], looking: bool, version: int) -> None:
    value = {
        "dry_run": looking,
        "oldest": plan.oldest,
        "restored_versions": list(plan.versions),
        "version": version,
        "left_versions": list(plan.left),
        "problems": [{"what": error.path, "why": error.message} for error in errors],
    }
    did = "would bring" if looking else "brought"
    nothing = "nothing of what is in quarantine is whole" if plan.left else "nothing is in quarantine"
    text = nothing if plan.is_empty else f"{did} back {versions_said(plan.versions)}"
    render.outcome(session, value, f"v{version}  {text}")


def _purged(plan: PurgePlan, looking: bool) -> str:
    if not plan.versions:
        return f"{'would delete' if looking else 'deleted'} what was left to delete: {_totals(plan.files)}"
    many = plural(len(plan.versions), "version")
    return f"{'would purge' if looking else 'purged'} {many}: {_totals(plan.files)}"


def versions_said(numbers: Sequence[int]) -> str:
    """`v3…v9 (7 versions)`, of a run of versions."""
    if not numbers:
        return "no version"
    if len(numbers) == 1:
        return f"v{numbers[0]}"
    return f"v{numbers[0]}…v{numbers[-1]} ({plural(len(numbers), 'version')})"


def _totals(files: Going) -> str:
    """`12 files, 3.4 MB`."""
    return f"{plural(files.totals.files, 'file')}, {size(files.totals.bytes)}"
