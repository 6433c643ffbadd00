from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli.context import Session
from olympia_cli.cli.params import DryRun, Message, Yes

if TYPE_CHECKING:
    from olympia_cli.ops.repair.promote import PromotePlan

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
        bool, typer.Option("--forget", help="Let the former catalog go: its versions go into quarantine.")
    ] = False,
    offline: Annotated[
        bool, typer.Option("--offline", help="With --forget: no writer is running, so that nobody needs to wait.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    message: Message = "",
) -> None:
    """Put a copy of the catalog in the catalog's place.

    The copy is read first, and refused if it is not whole. Its latest version becomes the catalog's next version, with
    the id, the exports and the settings of expire that the catalog has. What is not here yet is copied. Creating that
    version is the switch: a writer that still holds the former catalog gets a conflict. Interrupted at any point, the
    former catalog or the copy is in place; run it again to finish.

    The versions of the former catalog stay where they are, readable by number as far as they are whole, and no expire
    takes them. `rollback` goes back to one that is whole. --forget takes all of them out of history: they rest in
    quarantine as after an expire, and the next purges delete them.

    The plan says what can be read here and is not in the copy. The versions of the copy are not brought along. A
    distributed transaction that is open cannot be committed afterwards.

    Exit status: 0 done, or in place already; 12 refused; 20 somebody committed since it was planned; 40 the copy is not
    whole; 50 the catalog is damaged afterwards.
    """
    from olympia_cli.errors import InvalidOption

    session = Session(ctx)
    if forget:
        if copy is not None:
            raise InvalidOption("--forget is about the former catalog", hint="leave out the copy")
        _forget(session, offline, yes, dry_run, message)
        return
    if offline:
        raise InvalidOption("--offline is about --forget", hint="add --forget")
    if not (copy or "").strip():
        raise InvalidOption("it is not said which copy", hint="give its folder or URI, or --forget")
    raise typer.Exit(_promote(session, Session(ctx, copy), yes, dry_run, message))


def _promote(session: Session, there: Session, yes: bool, dry_run: bool, message: str) -> int:
    """Show the plan, do it, and look again; the exit code. The copy is `there`."""
    from olympia_cli.catalog.catalog import who
    from olympia_cli.catalog.clock import SystemClock
    from olympia_cli.catalog.commit import Author
    from olympia_cli.cli import render
    from olympia_cli.cli.fsck_advice import say_standing
    from olympia_cli.cli.input import confirm
    from olympia_cli.ops.fsck.fsck import FsckRequest, fsck
    from olympia_cli.ops.fsck.last_fsck import note_fsck
    from olympia_cli.ops.repair.promote import apply_promotion, describe_promotion, open_copy, plan_promotion

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
            latest = apply_promotion(plan, clock, Author(by=who(), message=message), progress)
            report = fsck(session.store, FsckRequest(clock=clock, progress=progress))
        standing = note_fsck(session.store, report, clock, False)
    there.store.close()
    value = {**describe_promotion(plan), "dry_run": dry_run, "latest": latest}
    did = "is already" if plan.is_done else "would promote" if dry_run else "promoted"
    render.outcome(session, value, f"v{plan.version}  {did} v{copy.snapshot.version} of {copy.uri}")
    if latest is None:
        return 0
    if report.damaged:
        session.say(f"the catalog is damaged: {session.command('fsck')}")
        return 50
    if not plan.is_done:
        session.say(f"once you do not need the former catalog any more: {session.command('promote --forget')}")
    say_standing(session, standing)
    return 0


def _show(session: Session, plan: PromotePlan) -> None:
    """Say what the switch changes, keeps and loses."""
    from olympia_cli.cli.escape import size
    from olympia_cli.cli.expire_render import versions_said
    from olympia_cli.cli.fsck_render import versions_text
    from olympia_cli.cli.plan_render import say_plan
    from olympia_cli.names import plural
    from olympia_cli.ops.fsck.findings import ranges

    copy, former = plan.copy, range(plan.first, plan.version)
    if plan.is_done:
        session.say(f"v{plan.version} is v{copy.snapshot.version} of {copy.uri} already, so nothing is brought again")
        session.say(f"what was committed since stays; to undo that: {session.command(f'rollback v{plan.version}')}")
        return
    which = f"v{copy.snapshot.version} of {copy.uri}"
    session.say(f"plan: {which} becomes v{plan.version} of {plan.store.uri}: {plural(plan.objects, 'object')}")
    count = say_plan(session, plan.changes, plan.catalog_changes)
    if not count:
        session.say("  no object changes, as far as the catalog can be read")
    for text in plan.unread:
        session.say(f"  not compared, because it cannot be read here: {text}")
    if plan.loses:
        session.say(f"lose    {plural(len(plan.loses), 'object')} that can be read here: gone or other in the copy")
    brought = f"{plural(plan.definitions, 'definition')}, {size(plan.bytes)}"
    session.say(f"bring   {brought}; the nodes are written anew")
    if plan.lost:
        shown = versions_text(ranges(plan.lost), "…")
        session.say(f"close   the names of {shown}, whose roots are lost: readers stop there, and writers could commit")
    if plan.promotion.through > plan.version:
        unchanged = versions_said(range(plan.version + 1, plan.promotion.through + 1))
        session.say(f"pass    {unchanged}, without a change: a lost root may have had the number")
    if former:
        session.say(f"keep    {versions_said(former)} aside, readable by number, until promote --forget")
    if plan.exports:
        session.say(f"keep    the record of {plural(len(plan.exports), 'export')}: {', '.join(plan.exports)}")
    session.say("leave   the older versions of the copy where they are: they are not brought along")
    if plan.in_copy:
        lie = "1 table or view lies" if plan.in_copy == 1 else f"{plan.in_copy:,} tables and views lie"
        session.say(f"leave   the data, too: {lie} in {copy.uri}, so do not delete that")
    for id in plan.transactions:
        session.say(f"stop    the distributed transaction {id}, which cannot be committed any more")


def _forget(session: Session, offline: bool, yes: bool, dry_run: bool, message: str) -> None:
    from olympia_cli.cli import render
    from olympia_cli.cli.escape import plural, size
    from olympia_cli.cli.expire_render import versions_said
    from olympia_cli.cli.input import confirm
    from olympia_cli.ops.expire.expire import mark
    from olympia_cli.ops.repair.promote import describe_forget, plan_forget

    with session.progress() as progress:
        planner, plan = plan_forget(session.catalog, offline=offline, probe=not dry_run, progress=progress)
    version, text = planner.head.version, "no former catalog is kept aside"
    if plan is not None:
        totals = plan.files.totals
        what = f"{versions_said(plan.expired)}: {plural(totals.files, 'file')}, {size(totals.bytes)}"
        session.say(f"forget  {what}")
        if plan.young:
            session.say(f"leave   {plural(plan.young, 'file')} too young to be taken: a later expire takes them")
        if not dry_run:
            confirm("Take the former catalog out of history?", yes)
            commit = mark(planner.catalog, plan, message)
            version = version if commit is None else commit.version
        text = f"{'would forget' if dry_run else 'forgot'} {what}, into quarantine"
    value = {**describe_forget(planner, plan), "dry_run": dry_run, "version": version}
    render.outcome(session, value, f"v{version}  {text}")
