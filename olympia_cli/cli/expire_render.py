"""How an expire is shown: the plan before, what was done after, why versions stay, what policies would free."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import Output

if TYPE_CHECKING:
    from olympia_cli.ops.expire.files import Going
    from olympia_cli.ops.expire.plan import Planner
    from olympia_cli.ops.expire.retention import Policy
    from olympia_cli.ops.expire.values import ExpirePlan, PurgePlan

COLUMNS = [render.Column("version", "VERSION", right=True), render.Column("reason", "REASON")]
OUTCOMES = [
    render.Column("policy", "POLICY"),
    render.Column("oldest", "OLDEST", right=True),
    render.Column("versions", "VERSIONS", right=True),
    render.Column("files", "FILES", right=True),
    render.Column("bytes", "BYTES", right=True),
]


def show_plan(session: Session, plan: ExpirePlan) -> None:
    from olympia_cli.cli.escape import plural

    mark = plan.mark
    show_purge(session, plan.purge)
    if not mark.is_empty:
        session.say(f"expire  {versions_text(mark.expired)}: {totals_text(mark.files)}")
    session.say(f"keep    {versions_text([kept.version for kept in mark.kept])}")
    if mark.young:
        session.say(f"leave   {plural(mark.young, 'file')} too young to be taken")
    if mark.unknown:
        shown = ", ".join(mark.unknown_paths[:3]) + (", …" if mark.unknown > 3 else "")
        session.say(f"leave   {plural(mark.unknown, 'file')} that the format does not know: {shown}")


def show_purge(session: Session, plan: PurgePlan) -> None:
    from olympia_cli.cli.escape import plural

    for note in plan.notes:
        session.say(f"note: {note}")
    if plan.is_empty:
        return
    versions = range(plan.former_purged, plan.purged)
    gone = versions_text(versions) if versions else "what was left"
    session.say(f"purge   {gone}: {totals_text(plan.files)}, deleted for good")
    if plan.rescued:
        session.say(f"keep    {plural(plan.rescued, 'file')} of the quarantine that something kept reaches")


def purged_text(plan: PurgePlan, looking: bool) -> str:
    from olympia_cli.cli.escape import plural

    deleted = totals_text(plan.files)
    if plan.purged == plan.former_purged:
        return f"{'would delete' if looking else 'deleted'} what was left to delete: {deleted}"
    many = plural(plan.purged - plan.former_purged, "version")
    return f"{'would purge' if looking else 'purged'} {many}: {deleted}"


def show_kept(session: Session, plan: ExpirePlan) -> None:
    values = ({"version": one.version, "reason": one.reason, "detail": one.detail} for one in plan.mark.kept)
    columns = [*COLUMNS, render.Column("detail", "DETAIL")]
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, {"dry_run": True, **describe(plan), "version": plan.head})
    else:
        render.records(
            session, "kept_versions", columns, values, name=lambda value: str(value["version"]), title="kept versions"
        )


def show_simulation(session: Session, planner: Planner, policy: Policy) -> None:
    from olympia_cli.ops.expire.simulate import simulate

    outcomes = [outcome.describe() for outcome in simulate(planner, policy)]
    head = {"version": planner.head.version, "dry_run": True}
    render.records(session, "policies", OUTCOMES, outcomes, head=head, name=lambda value: str(value["policy"]))


def question(plan: ExpirePlan) -> str:
    if plan.mark.is_empty:
        return "Delete what has rested in quarantine?"
    if plan.purge.is_empty:
        return f"Take {versions_text(plan.mark.expired)} out of history?"
    return f"Delete what has rested in quarantine, and take {versions_text(plan.mark.expired)} out of history?"


def summary(plan: ExpirePlan) -> dict[str, Any]:
    totals = plan.mark.files.totals
    return {
        "oldest": plan.mark.oldest,
        "expired": len(plan.mark.expired),
        "files": totals.describe(),
        "bytes": totals.bytes,
        "purged": purge_summary(plan.purge),
    }


def purge_summary(plan: PurgePlan) -> dict[str, Any]:
    from olympia_cli.ops.expire.expire import describe_purge

    described = describe_purge(plan)
    return {**described, "versions": len(described["versions"])}


def describe(plan: ExpirePlan) -> dict[str, Any]:
    from olympia_cli.ops.expire.expire import describe_purge

    mark = plan.mark
    return {
        "oldest": mark.oldest,
        "expired_versions": list(mark.expired),
        "kept_versions": [
            {"version": kept.version, "reason": kept.reason, "detail": kept.detail} for kept in mark.kept
        ],
        "files": mark.files.totals.describe(),
        "bytes": mark.files.totals.bytes,
        "purged": describe_purge(plan.purge),
        "young_files": mark.young,
        "unknown_files": {"count": mark.unknown, "paths": list(mark.unknown_paths)},
    }


def versions_text(versions: Any) -> str:
    """`v3…v9 (7 versions)`, of a run of versions."""
    from olympia_cli.cli.escape import plural

    numbers = list(versions)
    if not numbers:
        return "no version"
    if len(numbers) == 1:
        return f"v{numbers[0]}"
    return f"v{numbers[0]}…v{numbers[-1]} ({plural(len(numbers), 'version')})"


def totals_text(files: Going) -> str:
    """`12 files, 3.4 MB`."""
    from olympia_cli.cli.escape import plural, size

    return f"{plural(files.totals.files, 'file')}, {size(files.totals.bytes)}"


def show_done(session: Session, plan: ExpirePlan, looking: bool, version: int) -> None:
    """What a run did, or would do."""
    from olympia_cli.cli.escape import plural

    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, {"dry_run": looking, **describe(plan), "version": version})
        return
    if session.quiet:
        return
    would = "would " if looking else ""
    if plan.purge.is_empty and plan.mark.is_empty:
        render.line(session, f"v{version}  nothing to expire; the oldest version is v{plan.mark.oldest}")
    if not plan.purge.is_empty:
        render.line(session, f"v{version}  {purged_text(plan.purge, looking)}")
    if not plan.mark.is_empty:
        many = plural(len(plan.mark.expired), "version")
        rest = f"{totals_text(plan.mark.files)}, into quarantine"
        render.line(session, f"v{version}  {would}expire{'' if looking else 'd'} {many}: {rest}")
