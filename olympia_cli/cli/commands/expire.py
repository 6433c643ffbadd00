from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli import expire_render as show
from olympia_cli.cli import render
from olympia_cli.cli.complete import complete_quarantine
from olympia_cli.cli.context import Session
from olympia_cli.cli.engine import Conf, Engine, EngineWord, Master, Parallelism, Remote, engine
from olympia_cli.cli.input import confirm, lines_of
from olympia_cli.cli.params import DryRun, Message, RetryFor, Yes, parse_seconds

if TYPE_CHECKING:
    from olympia_cli.ops.expire.plan import Planner
    from olympia_cli.ops.expire.plan_file import PlanFile
    from olympia_cli.ops.expire.retention import Policy
    from olympia_cli.ops.expire.values import ExpirePlan, PurgePlan

TRIES = 3
"""So often a run that lost to another one looks again."""

EXAMPLES = [
    "olympia expire --dry-run",
    "olympia expire --keep-last 10 --older-than 30d --explain",
    "olympia expire --simulate",
    "olympia expire --yes                  # a cron line: purges what has rested, marks what is old",
    "olympia expire --plan plan.json; less plan.json; olympia expire --apply plan.json --yes",
    "olympia expire undo --yes",
    "olympia expire ls",
    "olympia expire --yes --master spark://head:7077",
]


def run(
    ctx: typer.Context,
    action: Annotated[
        str | None,
        typer.Argument(
            metavar="[undo|purge|ls]",
            help="Bring back what is in quarantine, delete what rested there, or list it.",
            autocompletion=complete_quarantine,
        ),
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
    conf: Conf = None,
) -> None:
    """Take old versions out of history, and later their files out of the store.

    A version goes only if count and age both allow it. What goes rests in quarantine first: a commit moves the oldest
    version, the files stay, and `expire undo` brings all of it back. Each run first deletes what has rested long
    enough, if nothing that is kept reaches it, and then marks by the policy, so one line in cron is enough. When
    anything that is kept cannot be read, nothing is done. Table data is never deleted, nor is any file that is not the
    catalog's.

    `expire ls` shows what rests: each mark with its versions, its files and bytes, and when it may be purged.

    On Spark, expire and `expire purge` follow the trees, list the files and delete them on the executors; the roots of
    versions go one by one from here. --simulate, --plan and --apply are not for Spark, and undo touches no files.

    `expire undo` reads all that rests first. Where some of it is no longer there it brings back the versions after
    that, which are whole, and leaves the others in quarantine.

    Exit status: 0 done, or nothing to do, as for a run that another one overtook; 3 some files are left, run it again,
    or an undo could not bring back all versions; 12 refused; 20 another commit was in the way; 40 something that is
    kept cannot be read.
    """
    from olympia_cli.errors import InvalidOption
    from olympia_cli.names import parse_duration
    from olympia_cli.ops.expire.plan import Planner
    from olympia_cli.ops.expire.plan_file import recompute
    from olympia_cli.ops.expire.retention import read_policy
    from olympia_cli.ops.expire.simulate import simulate as simulate_policies
    from olympia_cli.ops.expire.values import Floors

    session, seconds = Session(ctx), parse_seconds(retry_for)
    options = {
        "--keep-last": keep_last,
        "--older-than": older_than,
        "--grace": grace,
        "--quarantine": quarantine,
        "--plan": plan_file,
        "--apply": apply_file,
        "--explain": explain or None,
        "--simulate": simulate or None,
    }
    used = [option for option, value in options.items() if value is not None]
    if action not in (None, "undo", "purge", "ls"):
        hint = "use undo, purge or ls, or none of them"
        raise InvalidOption(f"{action[:60]!a} is not something that expire does", hint=hint)
    if action is not None and used and (action, used) != ("ls", ["--quarantine"]):
        raise InvalidOption(f"{used[0]} has no meaning for expire {action}", hint="it acts on what is in quarantine")
    if apply_file is not None and len(used) > 1:
        raise InvalidOption("a plan has its policy in it", hint="use --apply alone")
    floors = Floors(parse_duration(grace or "1d"), parse_duration(quarantine or "1d"), offline)
    if action in ("undo", "ls"):
        if engine_word is not EngineWord.AUTO or any(
            value is not None for value in (master, remote, parallelism, conf)
        ):
            raise InvalidOption(f"expire {action} has no engine", hint="it touches no files; leave the option out")
        if action == "undo":
            _undo(session, dry_run, yes, message, seconds)
        else:
            show.marks(session, floors.quarantine_millis)
        return
    if plan_file is not None:
        render.check_output(session, plan_file)
    looking = dry_run or explain or simulate or plan_file is not None
    local_only = next((option for option in ("--simulate", "--plan", "--apply") if option in used), None)
    with (
        engine(session, engine_word, master, remote, parallelism, conf, local_only=local_only) as work,
        work.surveyor() as surveyor,
    ):
        if action == "purge":
            floors = Floors(floors.grace_millis, 0 if offline else floors.quarantine_millis, offline)
        planned = None if apply_file is None else _read_plan(session, apply_file, offline)
        floors = floors if planned is None else planned.floors

        def once(planners: list[Planner]) -> None:
            with session.progress() as progress:
                planner = Planner(session.catalog, floors, surveyor, probe=not looking, progress=progress)
                planners.append(planner)
                session.warn_of_lost_root(planner.head)
                if action == "purge":
                    purge = planner.purge()
                else:
                    policy = (
                        planned.policy
                        if planned is not None
                        else read_policy(
                            planner.definition, planner.now, keep_last=keep_last, older_than=older_than, offline=offline
                        )
                    )
                    if simulate:
                        outcomes = simulate_policies(planner, policy)
                    else:
                        plan = planner.expire(policy) if planned is None else recompute(planner, planned)
            if action == "purge":
                _purge(session, planner, purge, dry_run, yes, message, seconds)
            elif simulate:
                show.simulation(session, outcomes, planner.head.version)
            elif explain:
                show.kept(session, plan)
            else:
                if plan_file is not None:
                    _write_plan(session, plan_file, planner, policy, plan)
                _expire(session, planner, plan, looking, yes, message, seconds)

        _after_others(session, once)


def _after_others(session: Session, once: Callable[[list[Planner]], None]) -> None:
    """Where another expire was first, what is left is looked at anew: of two that overlap, the second finds nothing.
    `once` runs it, and leaves who planned it."""
    from olympia_cli.errors import CommitConflict, PartlyDone
    from olympia_cli.ops.expire.expire import overtaken

    for tries_left in reversed(range(TRIES)):
        planners: list[Planner] = []
        try:
            once(planners)
            return
        except (CommitConflict, PartlyDone) as error:
            conflict = isinstance(error, CommitConflict) or isinstance(error.__cause__, CommitConflict)
            if not tries_left or not conflict or not all(map(overtaken, planners)):
                raise
        session.say("another expire was first: looking at what it left to do")


def _expire(
    session: Session, planner: Planner, plan: ExpirePlan, looking: bool, yes: bool, message: str, seconds: float
) -> None:
    from olympia_cli.ops.expire.expire import expire_once

    show.plan(session, plan)
    version = plan.head
    if not looking:
        if not plan.is_empty:
            confirm(show.question(plan), yes)
        with session.progress() as progress:
            version = expire_once(planner, plan, message, retry_for=seconds, progress=progress)
    show.done(session, plan, looking, version)


def _purge(
    session: Session, planner: Planner, plan: PurgePlan, dry_run: bool, yes: bool, message: str, seconds: float
) -> None:
    from olympia_cli.ops.expire.expire import purge_once

    show.purge(session, plan)
    version = planner.head.version
    if not dry_run and not plan.is_empty:
        confirm(show.purge_question(plan), yes)
        with session.progress() as progress:
            version = purge_once(planner, plan, message, retry_for=seconds, progress=progress)
    show.purged(session, plan, planner.oldest, len(planner.marks), dry_run, version)


def _undo(session: Session, dry_run: bool, yes: bool, message: str, seconds: float) -> None:
    from olympia_cli.ops.expire.expire import undo
    from olympia_cli.ops.fsck.resting import plan_whole_undo

    head = session.snapshot()
    version = head.version
    with session.progress() as progress:
        plan, errors = plan_whole_undo(head, progress)
    show.undo(session, plan, errors)
    if not dry_run and not plan.is_empty:
        confirm("Undo the expire?", yes)
        commit = undo(session.catalog, message, back_to=plan.oldest, retry_for=seconds)
        version = version if commit is None else commit.version
    show.undone(session, plan, errors, dry_run, version)
    if plan.left:
        raise typer.Exit(3)


# Plan files


def _read_plan(session: Session, path: str, offline: bool) -> PlanFile:
    from olympia_cli.errors import Refused
    from olympia_cli.ops.expire.plan_file import decode_plan

    with lines_of(path) as file:
        planned = decode_plan(file.read(), path)
    if planned.floors.offline and not offline:
        raise Refused("the plan was made with --offline", hint="say --offline again if no writer is running now")
    return planned


def _write_plan(session: Session, path: str, planner: Planner, policy: Policy, plan: ExpirePlan) -> None:
    import shlex

    from olympia_cli.errors import InvalidOption
    from olympia_cli.ops.expire.plan_file import encode_plan

    try:
        Path(path).write_text(encode_plan(planner, policy, plan), encoding="utf-8")
    except OSError as error:
        raise InvalidOption(f"{path!a} cannot be written: {error.strerror}", hint="name another file") from None
    offline = " --offline" if planner.floors.offline else ""
    session.say(f"to do it: {session.command(f'expire --apply {shlex.quote(path)}{offline}')}")
