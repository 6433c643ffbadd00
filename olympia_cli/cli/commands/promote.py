from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.cli.boundary import confirm
from olympia_cli.cli.fsck_actions import say_standing
from olympia_cli.cli.options import DryRun, Message, Yes
from olympia_cli.cli.output import render, size
from olympia_cli.cli.output.expire import versions_said
from olympia_cli.cli.output.fsck import versions_text
from olympia_cli.cli.output.log import say_plan
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption
from olympia_cli.names import plural
from olympia_cli.ops import expire, fsck

if TYPE_CHECKING:
    from olympia_cli.ops.repair import PromotePlan

EXAMPLES = [
    "olympia promote s3://backup/rescued --dry-run",
    "olympia promote /lake/catalog-salvaged -m 'disk 3'",
    "olympia promote --forget --yes",
]


def run(
    ctx: typer.Context,
    copy: Annotated[
        str | None,
        typer.Argument(metavar="[COPY]", help="A salvaged, rebuilt, exported or restored copy of the catalog."),
    ] = None,
    forget: Annotated[
        bool, typer.Option("--forget", help="Expire the former catalog: move its versions into quarantine.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="With --forget: confirm that no writer is running, and do not wait.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    message: Message = "",
) -> None:
    """Put a copy of the catalog in the catalog's place.

    The copy is read first, and refused if it is not sound. Its latest version becomes the catalog's next version. The
    catalog keeps its id, its exports and its settings of expire. Files that are missing here are copied. Creating that
    version is the switch: a writer that still uses the former catalog gets a conflict. If the command is interrupted,
    either the former catalog or the copy is in place; run it again to finish.

    The versions of the former catalog stay where they are. Sound ones can be read by number, and no expire takes them.
    `rollback` returns to a sound one. --forget removes all of them from history: they rest in quarantine as after an
    expire, and later purges delete them.

    The plan names the objects that can be read here and are missing in the copy. Older versions of the copy are not
    copied. Open distributed transactions cannot be committed afterwards.

    Exit status: 0 done, or in place already; 12 refused; 20 another writer committed after the plan was made; 40 the
    copy is not sound; 50 the catalog is damaged afterwards.
    """
    session = Session(ctx)
    if forget:
        if copy is not None:
            raise InvalidOption("--forget takes no copy", hint="leave out the copy")
        _forget(session, offline, yes, dry_run, message)
        return
    if offline:
        raise InvalidOption("--offline needs --forget", hint="add --forget")
    if not (copy or "").strip():
        raise InvalidOption("no copy is named", hint="give its folder or URI, or --forget")
    raise typer.Exit(_promote(session, Session(ctx, copy), yes, dry_run, message))


def _promote(session: Session, there: Session, yes: bool, dry_run: bool, message: str) -> int:
    """Show the plan, apply it, and check the catalog again. `there` is the copy. Return the exit code."""
    from olympia_cli.ops.repair import apply_promotion, open_copy, plan_promotion

    clock = SystemClock()
    with session.progress() as progress:
        copy = open_copy(there.store, session.store, clock, progress)
        plan = plan_promotion(session.store, copy, clock, progress)
    _show(session, plan)
    latest: int | None = None
    if dry_run:
        session.say(f"to do it: {session.command(['promote', there.location.uri])}")
    else:
        if not plan.is_done:
            confirm(f"Put v{copy.snapshot.version} of {copy.uri} in the place of {session.store.uri}?", yes)
        with session.progress() as progress:
            latest = apply_promotion(plan, clock, session.author(message), progress)
            report = fsck.fsck(session.store, fsck.FsckRequest(clock=clock, progress=progress))
        standing = fsck.note_fsck(session.store, report, clock, False)
    there.store.close()
    value = {**plan.describe(), "dry_run": dry_run, "latest": latest}
    did = "is already" if plan.is_done else "would promote" if dry_run else "promoted"
    render.outcome(session, value, f"v{plan.version}  {did} v{copy.snapshot.version} of {copy.uri}")
    if latest is None:
        return 0
    if report.damaged:
        session.say(f"the catalog is damaged: {session.command('fsck')}", is_problem=True)
        return 50
    if not plan.is_done and plan.first < plan.version:
        session.say(f"when you no longer need the former catalog: {session.command('promote --forget')}")
    say_standing(session, standing)
    return 0


def _show(session: Session, plan: PromotePlan) -> None:
    """Print the changes, the copied files and the losses of the switch."""
    copy, former = plan.copy, range(plan.first, plan.version)
    if plan.is_done:
        session.say(f"v{plan.version} is v{copy.snapshot.version} of {copy.uri} already, so nothing is copied again")
        session.say(f"later commits stay; to undo them: {session.command(f'rollback v{plan.version}')}")
        return
    which = f"v{copy.snapshot.version} of {copy.uri}"
    session.say(f"plan: {which} becomes v{plan.version} of {plan.store.uri}: {plural(plan.objects, 'object')}")
    count = say_plan(session, plan.changes, plan.catalog_changes)
    if not count:
        session.say("  no object changes, as far as the catalog can be read")
    for text in plan.unread:
        session.say(f"  not compared, because it cannot be read here: {text}")
    if plan.loses:
        lost = plural(len(plan.loses), "object")
        session.say(f"lose    {lost} that can be read here: missing or different in the copy")
    if plan.leaves_versions:
        session.say(f"lose    {plural(plan.leaves_versions, 'version')} in quarantine: no undo can bring them back")
    copied = f"{plural(plan.definitions, 'definition')}, {size(plan.bytes)}"
    session.say(f"copy    {copied}; the nodes are rewritten")
    if plan.lost:
        versions = versions_text(fsck.ranges(plan.lost), "…")
        session.say(f"close   the lost roots of {versions}: readers stop there, and writers could commit")
    if plan.promotion.through > plan.version:
        unchanged = versions_said(range(plan.version + 1, plan.promotion.through + 1))
        session.say(f"skip    {unchanged}, without a change: a lost root may have had the number")
    if former and not plan.existing:
        session.say("keep    all nodes and definitions that are left, until promote --forget")
    elif former:
        session.say(f"keep    {versions_said(former)} aside, readable by number, until promote --forget")
    if plan.exports:
        session.say(f"keep    the record of {plural(len(plan.exports), 'export')}: {', '.join(plan.exports)}")
    session.say("leave   the older versions of the copy where they are: they are not copied")
    if plan.in_copy:
        tables = "1 table or view has its" if plan.in_copy == 1 else f"{plan.in_copy:,} tables and views have their"
        session.say(f"leave   the data: {tables} files in {copy.uri}, so do not delete it")
    if plan.stop_writers:
        text = "no file names the last version, so a writer of the former catalog could still commit"
        session.say(f"stop    all writers first: {text}", is_problem=True)
    for id in plan.transactions:
        session.say(f"stop    the distributed transaction {id}, which can no longer be committed")


def _forget(session: Session, offline: bool, yes: bool, dry_run: bool, message: str) -> None:
    from olympia_cli.ops.repair import describe_forget, plan_forget

    with session.progress() as progress:
        planner, plan = plan_forget(session.catalog, offline=offline, probe=not dry_run, progress=progress)
    version, text = planner.facts.head.version, "no former catalog is kept aside"
    if plan is not None:
        totals = plan.files.totals
        what = f"{versions_said(plan.expired)}: {plural(totals.files, 'file')}, {size(totals.bytes)}"
        session.say(f"forget  {what}")
        if plan.young:
            session.say(f"leave   {plural(plan.young, 'file')} too young to be deleted, for a later expire")
        if not dry_run:
            confirm("Remove the former catalog from history?", yes)
            commit = expire.mark(planner.catalog, plan, message)
            version = version if commit is None else commit.version
        text = f"{'would forget' if dry_run else 'forgot'} {what}, into quarantine"
    value = {**describe_forget(planner, plan), "dry_run": dry_run, "version": version}
    render.outcome(session, value, f"v{version}  {text}")
