from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from olympia_cli.cli.boundary import confirm, lines_of
from olympia_cli.cli.engine import Conf, EngineOption, EngineWord, Master, Parallelism, Remote, engine
from olympia_cli.cli.options import DryRun, Message, RetryFor, Yes, parse_seconds
from olympia_cli.cli.output import expire as show
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session
from olympia_cli.errors import CommitConflict, InvalidOption, PartlyDone, Refused
from olympia_cli.names import parse_duration
from olympia_cli.ops import expire, fsck

if TYPE_CHECKING:
    from olympia_cli.ops.expire import (
        CatalogFacts,
        ExpirePlan,
        ExpirePlanner,
        Floors,
        PlanFile,
        Policy,
        PolicyOutcome,
        PurgePlan,
        Surveyor,
    )

P = TypeVar("P")

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
    floors = expire.Floors(parse_duration(grace or "1d"), parse_duration(quarantine or "1d"), offline)
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

    def policy(facts: CatalogFacts) -> Policy:
        return expire.read_policy(
            facts.definition, facts.now_millis, keep_last=keep_last, older_than=older_than, offline=offline
        )

    local_only = next((option for option in ("--simulate", "--plan", "--apply") if option in used), None)
    with (
        engine(session, engine_word, master, remote, parallelism, conf, local_only=local_only) as work,
        work.surveyor() as surveyor,
    ):
        reads_only = dry_run or explain or simulate or plan_file is not None
        task = _Task(session, floors, surveyor, reads_only, yes, message, seconds)
        if action == "purge":
            floors = expire.Floors(floors.grace_millis, 0 if offline else floors.quarantine_millis, offline)
            replace(task, floors=floors).run(expire.ExpirePlanner.purge, _purge)
        elif simulate:
            task.run(lambda planner: expire.simulate(planner, policy(planner.facts)), _simulate)
        elif explain:
            task.run(lambda planner: planner.expire(policy(planner.facts)), _explain)
        elif apply_file is not None:
            planned = _read_plan(apply_file, offline)
            replace(task, floors=planned.floors).run(lambda planner: expire.recompute(planner, planned), _expire)
        elif plan_file is not None:
            task.run(lambda planner: planner.expire(policy(planner.facts)), partial(_write_plan, plan_file, policy))
        else:
            task.run(lambda planner: planner.expire(policy(planner.facts)), _expire)


@dataclass(frozen=True, slots=True)
class _Task:
    """The options that the verbs share."""

    session: Session
    floors: Floors
    surveyor: Surveyor
    reads_only: bool
    yes: bool
    message: str
    retry_for: float

    def run(
        self, plan: Callable[[expire.ExpirePlanner], P], do: Callable[[_Task, expire.ExpirePlanner, P], None]
    ) -> None:
        """Make a plan, and then show and apply it. Plan again if another expire committed first; then there is usually
        nothing left to do.
        """
        from olympia_cli.catalog.commit import retry

        session = self.session
        planners: list[expire.ExpirePlanner] = []

        def plan_and_do() -> None:
            planners.clear()
            with session.progress() as progress:
                planner = expire.ExpirePlanner(
                    session.catalog, self.floors, self.surveyor, probe=not self.reads_only, progress=progress
                )
                planners.append(planner)
                session.warn_of_lost_root(planner.facts.head)
                content = plan(planner)
            do(self, planner, content)

        def other_was_first(error: Exception) -> bool:
            cause = error.__cause__ if isinstance(error, PartlyDone) else error
            if not isinstance(cause, CommitConflict) or not all(map(expire.other_expire_ran, planners)):
                return False
            session.say("another expire committed first: planning again")
            return True

        retry(plan_and_do, TRIES, other_was_first)


# The verbs: each shows a plan, and applies it.


def _expire(task: _Task, planner: ExpirePlanner, plan: ExpirePlan) -> None:
    show.plan(task.session, plan)
    version = plan.head
    if not task.reads_only:
        if not plan.is_empty:
            confirm(show.question(plan), task.yes)
        with task.session.progress() as progress:
            version = expire.expire_once(planner, plan, task.message, retry_for=task.retry_for, progress=progress)
    show.done(task.session, plan, task.reads_only, version)


def _purge(task: _Task, planner: ExpirePlanner, plan: PurgePlan) -> None:
    show.purge(task.session, plan)
    version = planner.facts.head.version
    if not task.reads_only and not plan.is_empty:
        confirm(show.purge_question(plan), task.yes)
        with task.session.progress() as progress:
            version = expire.purge_once(planner, plan, task.message, retry_for=task.retry_for, progress=progress)
    show.purged(task.session, plan, planner.facts.oldest, len(planner.facts.marks), task.reads_only, version)


def _simulate(task: _Task, planner: ExpirePlanner, outcomes: list[PolicyOutcome]) -> None:
    show.simulation(task.session, outcomes, planner.facts.head.version)


def _explain(task: _Task, planner: ExpirePlanner, plan: ExpirePlan) -> None:
    show.kept(task.session, plan)


def _undo(session: Session, dry_run: bool, yes: bool, message: str, seconds: float) -> None:
    head = session.snapshot()
    version = head.version
    with session.progress() as progress:
        plan, errors = fsck.plan_whole_undo(head, progress)
    show.undo(session, plan, errors)
    if not dry_run and not plan.is_empty:
        confirm("Undo the expire?", yes)
        commit = expire.undo(session.catalog, message, back_to=plan.oldest, retry_for=seconds)
        version = version if commit is None else commit.version
    show.undone(session, plan, errors, dry_run, version)
    if plan.left:
        raise typer.Exit(3)


# Plan files


def _read_plan(path: str, offline: bool) -> PlanFile:
    with lines_of(path) as file:
        planned = expire.decode_plan(file.read(), path)
    if planned.floors.offline and not offline:
        raise Refused("the plan was made with --offline", hint="add --offline if no writer is running now")
    return planned


def _write_plan(
    path: str, policy: Callable[[CatalogFacts], Policy], task: _Task, planner: ExpirePlanner, plan: ExpirePlan
) -> None:
    facts, session = planner.facts, task.session
    try:
        Path(path).write_text(expire.encode_plan(facts, policy(facts), plan), encoding="utf-8")
    except OSError as error:
        raise InvalidOption(f"{path!a} cannot be written: {error.strerror}", hint="name another file") from None
    offline = " --offline" if facts.floors.offline else ""
    session.say(f"to do it: {session.command(f'expire --apply {shlex.quote(path)}{offline}')}")
    _expire(task, planner, plan)
