from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.engine import Engine, EngineWord, Master, Parallelism, Remote, engine
from olympia_cli.cli.expire_render import (
    purge_summary,
    purged_text,
    question,
    show_done,
    show_kept,
    show_plan,
    show_purge,
    show_simulation,
    summary,
    versions_text,
)
from olympia_cli.cli.params import DryRun, Message, Output, RetryFor, Yes, parse_seconds

if TYPE_CHECKING:
    from olympia_cli.ops.expire.plan import Planner
    from olympia_cli.ops.expire.retention import Policy
    from olympia_cli.ops.expire.values import ExpirePlan, Floors, PurgePlan
    from olympia_cli.spark.engine import SparkEngine

EXAMPLES = [
    "olympia expire --dry-run",
    "olympia expire --keep-last 10 --older-than 30d --explain",
    "olympia expire --simulate",
    "olympia expire --yes                  # a cron line: purges what has rested, marks what is old",
    "olympia expire --plan plan.json; less plan.json; olympia expire --apply plan.json --yes",
    "olympia expire undo --yes",
    "olympia expire --yes --master spark://head:7077",
]


def run(
    ctx: typer.Context,
    action: Annotated[
        str | None,
        typer.Argument(metavar="[undo|purge]", help="Bring back what is in quarantine, or delete what rested there."),
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option(metavar="N", help="Keep so many versions at least. [olympia.retention.min-versions]")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE", help="Only what was current before: 30d, or a time. [olympia.retention.max-version-age]"
        ),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Take no file younger than this: 1d, at least 1h."),
    ] = None,
    quarantine: Annotated[
        str | None, typer.Option(metavar="DURATION", help="How long a mark rests before it is purged; as --grace.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="No writer is running: allow ages below what is safe otherwise.")
    ] = False,
    dry_run: DryRun = False,
    plan_file: Annotated[
        str | None, typer.Option("--plan", metavar="FILE", help="Write the plan to a file, and do nothing.")
    ] = None,
    apply_file: Annotated[
        str | None, typer.Option("--apply", metavar="FILE", help="Do what a plan says, if it still holds.")
    ] = None,
    explain: Annotated[bool, typer.Option("--explain", help="Say why each version is kept, and do nothing.")] = False,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Compare what several policies would free, and do nothing.")
    ] = False,
    yes: Yes = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
    engine_word: Engine = EngineWord.AUTO,
    master: Master = None,
    remote: Remote = None,
    parallelism: Parallelism = None,
) -> None:
    """Take old versions out of history, and later their files out of the store.

    A version goes only if count and age both allow it. What goes rests in quarantine first: a commit moves the oldest
    version, the files stay, and `expire undo` brings all of it back. Each run first deletes what has rested long
    enough, if nothing that is kept reaches it, and then marks by the policy, so one line in cron is enough. When
    anything that is kept cannot be read, nothing is done. Table data is never deleted, nor is any file that is not the
    catalog's.

    On Spark, expire and `expire purge` follow the trees, list the files and delete them on the executors; the roots of
    versions go one by one from here. --simulate, --plan and --apply are not for Spark, and undo touches no files.

    Exit status: 0 done, or nothing to do; 3 some files are left, run it again; 12 refused; 20 another expire was first;
    40 something that is kept cannot be read.
    """
    from olympia_cli.errors import InvalidOption, Refused
    from olympia_cli.names import parse_duration
    from olympia_cli.ops.expire.values import Floors

    session, seconds = Session(ctx), parse_seconds(retry_for)
    given = {
        "--keep-last": keep_last,
        "--older-than": older_than,
        "--grace": grace,
        "--quarantine": quarantine,
        "--plan": plan_file,
        "--apply": apply_file,
        "--explain": explain or None,
        "--simulate": simulate or None,
    }
    used = [option for option, value in given.items() if value is not None]
    if action not in (None, "undo", "purge"):
        raise InvalidOption(f"{action[:60]!a} is not something that expire does", hint="use undo or purge, or neither")
    if action is not None and used:
        raise InvalidOption(f"{used[0]} has no meaning for expire {action}", hint="it acts on what is in quarantine")
    if apply_file is not None and len(used) > 1:
        raise InvalidOption("a plan has its policy in it", hint="use --apply alone")
    floors = Floors(parse_duration(grace or "1d"), parse_duration(quarantine or "1d"), offline)
    if action == "undo":
        if engine_word is not EngineWord.AUTO or any(one is not None for one in (master, remote, parallelism)):
            raise InvalidOption("expire undo has no engine", hint="it touches no files; leave the option out")
        _undo(session, dry_run, yes, message, seconds)
        return
    local_only = next((option for option in ("--simulate", "--plan", "--apply") if option in used), None)
    with engine(session, engine_word, master, remote, parallelism, local_only=local_only) as spark:
        if action == "purge":
            resting = 0 if offline else floors.quarantine_millis
            _purge(session, spark, Floors(floors.grace_millis, resting, offline), dry_run, yes, message, seconds)
            return
        looking = dry_run or explain or simulate or plan_file is not None
        planned = None
        if apply_file is not None:
            planned = _read_plan(session, apply_file)
            if planned.floors.offline and not offline:
                raise Refused(
                    "the plan was made with --offline", hint="say --offline again if no writer is running now"
                )
            floors = planned.floors
        with ExitStack() as stack:
            planner, policy, plan = _make_plan(
                session, spark, stack, floors, planned, keep_last, older_than, simulate, looking
            )
            if simulate:
                show_simulation(session, planner, policy)
            elif explain:
                show_kept(session, plan)
            else:
                if plan_file is not None:
                    _write_plan(session, plan_file, planner, policy, floors, plan)
                _expire(session, planner, floors, plan, looking, yes, message, seconds)


def _make_plan(
    session: Session,
    spark: SparkEngine | None,
    stack: ExitStack,
    floors: Floors,
    planned: Any,
    keep_last: int | None,
    older_than: str | None,
    simulate: bool,
    looking: bool,
) -> tuple[Planner, Policy, Any]:
    """A plan that Spark made is of use until the stack is closed."""
    from olympia_cli.ops.expire.plan import Planner
    from olympia_cli.ops.expire.plan_file import recompute
    from olympia_cli.ops.expire.retention import read_policy

    with session.progress() as progress:
        planner = Planner(session.catalog, floors, probe=not looking, progress=progress)
        session.warn_of_lost_root(planner.head)
        if planned is not None:
            return planner, planned.policy, recompute(planner, planned)
        policy = read_policy(
            planner.definition, planner.now, keep_last=keep_last, older_than=older_than, offline=floors.offline
        )
        if simulate:
            return planner, policy, None
        if spark is None:
            return planner, policy, planner.expire(policy)
        from olympia_cli.spark.pipelines.expire import plan_expire

        return planner, policy, stack.enter_context(plan_expire(spark, planner, policy, progress=progress))


def _expire(
    session: Session,
    planner: Planner,
    floors: Floors,
    plan: ExpirePlan,
    looking: bool,
    yes: bool,
    message: str,
    seconds: float,
) -> None:
    """Purge what has rested, then mark."""
    from olympia_cli.errors import CommitConflict, PartlyDone
    from olympia_cli.ops.expire import expire

    show_plan(session, plan)
    version = plan.head
    if not looking:
        if not (plan.purge.is_empty and plan.mark.is_empty):
            session.confirm(question(plan), yes)
            with session.progress() as progress:
                purged = expire.purge(
                    session.catalog, plan.purge, plan.head, floors, message, retry_for=seconds, progress=progress
                )
            try:
                marked = expire.mark(session.catalog, plan.mark, message, retry_for=seconds)
            except CommitConflict as error:
                if purged is None:
                    raise
                text = f"the purge is done, and nothing was marked: {error.message}"
                raise PartlyDone(text, hint="run it again") from error
            version = max([version, *(done.version for done in (purged, marked) if done is not None)])
        expire.record_run(session.catalog, {**summary(plan), "version": version})
    show_done(session, plan, looking, version)


def _undo(session: Session, dry_run: bool, yes: bool, message: str, seconds: float) -> None:
    from olympia_cli.catalog.quarantine import read_quarantine
    from olympia_cli.catalog.snapshot import expired_before
    from olympia_cli.ops.expire import expire

    head = session.snapshot()
    marks = read_quarantine(head.definition)
    oldest, version = expired_before(head.definition), head.version
    back: list[int] = []
    if marks:
        back = list(range(marks[0].former_oldest, oldest))
        oldest = marks[0].former_oldest
        session.say(f"brings back {versions_text(back)}; the oldest version is v{oldest} then")
        if not dry_run:
            session.confirm("Undo the expire?", yes)
            done = expire.undo(session.catalog, message, retry_for=seconds)
            version = version if done is None else done.version
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, {"dry_run": dry_run, "oldest": oldest, "restored_versions": back, "version": version})
    elif not session.quiet:
        did = "would bring" if dry_run else "brought"
        text = f"{did} back {versions_text(back)}" if marks else "nothing is in quarantine"
        render.line(session, f"v{version}  {text}")


def _purge(
    session: Session,
    spark: SparkEngine | None,
    floors: Floors,
    dry_run: bool,
    yes: bool,
    message: str,
    seconds: float,
) -> None:
    from olympia_cli.ops.expire.plan import Planner

    with ExitStack() as stack:
        with session.progress() as progress:
            planner = Planner(session.catalog, floors, probe=not dry_run, progress=progress)
            if spark is None:
                plan = planner.purge()
            else:
                from olympia_cli.spark.pipelines.expire import plan_purge

                plan = stack.enter_context(plan_purge(spark, planner, progress=progress))
        _do_purge(session, planner, floors, plan, dry_run, yes, message, seconds)


def _do_purge(
    session: Session,
    planner: Planner,
    floors: Floors,
    plan: PurgePlan,
    dry_run: bool,
    yes: bool,
    message: str,
    seconds: float,
) -> None:
    from olympia_cli.cli.escape import plural
    from olympia_cli.ops.expire import expire

    show_purge(session, plan)
    version = planner.head.version
    if not dry_run and not plan.is_empty:
        session.confirm(f"Delete {plural(plan.files.totals.files, 'file')} for good?", yes)
        with session.progress() as progress:
            done = expire.purge(
                session.catalog, plan, planner.head.version, floors, message, retry_for=seconds, progress=progress
            )
        version = version if done is None else done.version
        values = {"oldest": planner.oldest, "purged": purge_summary(plan), "version": version}
        expire.record_run(session.catalog, values)
    versions = list(range(plan.former_purged, plan.purged))
    if session.output in (Output.JSON, Output.JSONL):
        value = {
            "dry_run": dry_run,
            "oldest": planner.oldest,
            "expired_versions": versions,
            "kept_versions": [],
            "files": plan.files.totals.describe(),
            "bytes": plan.files.totals.bytes,
            "version": version,
        }
        render.document(session, value)
    elif not session.quiet:
        resting = f"; {plural(len(planner.marks), 'mark')} in quarantine" if planner.marks else ""
        text = f"nothing to purge{resting}"
        if not plan.is_empty:
            text = purged_text(plan, dry_run)
        render.line(session, f"v{version}  {text}")


# Plan files


def _read_plan(session: Session, path: str) -> Any:
    from olympia_cli.ops.expire.plan_file import decode_plan

    with session.lines(path) as file:
        return decode_plan(file.read(), path)


def _write_plan(
    session: Session, path: str, planner: Planner, policy: Policy, floors: Floors, plan: ExpirePlan
) -> None:
    import shlex

    from olympia_cli.errors import InvalidOption
    from olympia_cli.ops.expire.plan_file import encode_plan

    try:
        Path(path).write_text(encode_plan(planner, policy, floors, plan), encoding="utf-8")
    except OSError as error:
        raise InvalidOption(f"{path!a} cannot be written: {error.strerror}", hint="name another file") from None
    offline = " --offline" if floors.offline else ""
    session.say(f"to do it: {session.command(f'expire --apply {shlex.quote(path)}{offline}')}")
