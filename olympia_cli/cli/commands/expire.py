from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from olympia_cli.cli.completion import complete_quarantine
from olympia_cli.cli.engine import Conf, EngineOption, EngineWord, Master, Parallelism, Remote, engine
from olympia_cli.cli.options import DryRun, Message, RetryFor, Yes, parse_seconds
from olympia_cli.cli.output import expire as show
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session
from olympia_cli.cli.talk import confirm, lines_of

if TYPE_CHECKING:
    from olympia_cli.ops.expire.plan import Planner
    from olympia_cli.ops.expire.plan_file import PlanFile
    from olympia_cli.ops.expire.retention import ExpirePlan, Policy, PurgePlan

TRIES = 3
"""Number of attempts while other expires commit first."""

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
            help="Restore the versions in quarantine, delete those that rested long enough, or list them.",
            autocompletion=complete_quarantine,
        ),
    ] = None,
    keep_last: Annotated[
        int | None, typer.Option(metavar="N", help="Keep at least N versions. [olympia.retention.min-versions]")
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(
            metavar="AGE",
            help="Expire versions replaced before this: 30d, or a time. [olympia.retention.max-version-age]",
        ),
    ] = None,
    grace: Annotated[
        str | None,
        typer.Option(metavar="DURATION", help="Delete no file younger than this; 1d if not given, at least 1h."),
    ] = None,
    quarantine: Annotated[
        str | None, typer.Option(metavar="DURATION", help="Time between mark and purge; 1d if not given, at least 1h.")
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Confirm that no writer is running, and allow shorter ages.")
    ] = False,
    dry_run: DryRun = False,
    plan_file: Annotated[
        str | None, typer.Option("--plan", metavar="FILE", help="Write the plan to a file, and change nothing.")
    ] = None,
    apply_file: Annotated[
        str | None, typer.Option("--apply", metavar="FILE", help="Apply the plan in a file, if it is still valid.")
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show why each version is kept, and change nothing.")
    ] = False,
    simulate: Annotated[
        bool, typer.Option("--simulate", help="Compare the space that several policies free, and change nothing.")
    ] = False,
    yes: Yes = False,
    message: Message = "",
    retry_for: RetryFor = "60s",
    engine_word: EngineOption = EngineWord.AUTO,
    master: Master = None,
    remote: Remote = None,
    parallelism: Parallelism = None,
    conf: Conf = None,
) -> None:
    """Remove old versions from history, and later their files from the store.

    A version is expired only if both its count and its age allow it. It rests in quarantine first: a commit moves the
    oldest version forward, the files stay, and `expire undo` restores them. Each run first deletes files that have
    rested long enough, if no kept version reaches them. Then it marks old versions by the policy. So one line in cron
    is enough. If any kept file cannot be read, nothing is done. Table data is never deleted, nor any file that does not
    belong to the catalog.

    `expire ls` lists the marks in quarantine: versions, files and bytes of each, and when it may be purged.

    On Spark, the executors of expire and `expire purge` follow the trees, list the files and delete them; this process
    deletes the roots one by one. --simulate, --plan and --apply run locally only, and undo touches no files.

    `expire undo` first reads everything in quarantine. If some files are missing, it restores the sound versions after
    them, and leaves the others in quarantine.

    Exit status: 0 done, or nothing to do, also because another expire was first; 3 some files are left (run it again),
    or an undo could not restore all versions; 12 refused; 20 another commit was in the way; 40 a kept file cannot be
    read.
    """
    from olympia_cli.errors import InvalidOption
    from olympia_cli.names import parse_duration
    from olympia_cli.ops.expire.plan import Planner
    from olympia_cli.ops.expire.plan import simulate as simulate_policies
    from olympia_cli.ops.expire.plan_file import recompute
    from olympia_cli.ops.expire.retention import Floors, read_policy

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
        hint = "use undo, purge or ls, or leave it out"
        raise InvalidOption(f"expire has no action {action[:60]!a}", hint=hint)
    if action is not None and used and (action, used) != ("ls", ["--quarantine"]):
        raise InvalidOption(f"{used[0]} does not apply to expire {action}", hint="leave the option out")
    if apply_file is not None and len(used) > 1:
        raise InvalidOption("a plan contains its policy", hint="use --apply alone")
    floors = Floors(parse_duration(grace or "1d"), parse_duration(quarantine or "1d"), offline)
    if action in ("undo", "ls"):
        if engine_word is not EngineWord.AUTO or any(
            value is not None for value in (master, remote, parallelism, conf)
        ):
            raise InvalidOption(f"expire {action} always runs locally", hint="leave out the options for Spark")
        if action == "undo":
            _undo(session, dry_run, yes, message, seconds)
        else:
            show.marks(session, floors.quarantine_millis)
        return
    if plan_file is not None:
        render.check_output(session, plan_file)
    reads_only = dry_run or explain or simulate or plan_file is not None
    local_only = next((option for option in ("--simulate", "--plan", "--apply") if option in used), None)
    with (
        engine(session, engine_word, master, remote, parallelism, conf, local_only=local_only) as work,
        work.surveyor() as surveyor,
    ):
        if action == "purge":
            floors = Floors(floors.grace_millis, 0 if offline else floors.quarantine_millis, offline)
        planned = None if apply_file is None else _read_plan(session, apply_file, offline)
        floors = floors if planned is None else planned.floors

        def run_once(planners: list[Planner]) -> None:
            with session.progress() as progress:
                planner = Planner(session.catalog, floors, surveyor, probe=not reads_only, progress=progress)
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
                _expire(session, planner, plan, reads_only, yes, message, seconds)

        _run_after_others(session, run_once)


def _run_after_others(session: Session, run_once: Callable[[list[Planner]], None]) -> None:
    """Run an expire, and plan again if another expire committed first; then there is usually nothing left to do.

    `run_once` plans and applies, and appends its planners to the given list.
    """
    from olympia_cli.errors import CommitConflict, PartlyDone
    from olympia_cli.ops.expire.expire import overtaken

    for tries_left in reversed(range(TRIES)):
        planners: list[Planner] = []
        try:
            run_once(planners)
            return
        except (CommitConflict, PartlyDone) as error:
            conflict = isinstance(error, CommitConflict) or isinstance(error.__cause__, CommitConflict)
            if not tries_left or not conflict or not all(map(overtaken, planners)):
                raise
        session.say("another expire committed first: planning again")


def _expire(
    session: Session, planner: Planner, plan: ExpirePlan, reads_only: bool, yes: bool, message: str, seconds: float
) -> None:
    from olympia_cli.ops.expire.expire import expire_once

    show.plan(session, plan)
    version = plan.head
    if not reads_only:
        if not plan.is_empty:
            confirm(show.question(plan), yes)
        with session.progress() as progress:
            version = expire_once(planner, plan, message, retry_for=seconds, progress=progress)
    show.done(session, plan, reads_only, version)


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
    from olympia_cli.ops.fsck import plan_whole_undo

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
        raise Refused("the plan was made with --offline", hint="add --offline if no writer is running now")
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
