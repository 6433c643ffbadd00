from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.cli.engine import Conf, EngineOption, EngineWord, Master, Parallelism, Remote, engine
from olympia_cli.cli.fsck_actions import acknowledge as note_as_known
from olympia_cli.cli.fsck_actions import (
    check_options,
    data_checks,
    exit_code,
    next_commands,
    repair_shown,
    salvage_shown,
    say_next,
    say_standing,
    with_commands,
)
from olympia_cli.cli.options import At, DryRun, Message, Output, Yes, check_one, parse_seconds
from olympia_cli.cli.output import render
from olympia_cli.cli.output.fsck import print_report, report_page
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption
from olympia_cli.names import parse_reference
from olympia_cli.ops import fsck

if TYPE_CHECKING:
    from olympia_cli.catalog.clock import Clock
    from olympia_cli.ops.fsck import Level

EXAMPLES = [
    "olympia fsck",
    "olympia fsck --level hints --quiet",
    "olympia fsck --level full --all-versions --since-last --max-duration 30m",
    "olympia fsck --at v12 --json",
    "olympia fsck --all-versions --report fsck.html",
    "olympia fsck --level full --all-versions --bundle support.zip",
    "olympia fsck --level data --all-versions --engine spark --master spark://host:7077",
    "olympia fsck --repair --dry-run",
    "olympia fsck --acknowledge -m 'disk 3, mended in v13'",
    "olympia fsck --salvage s3://bucket/rescued",
]


class PreferWord(StrEnum):
    AUTO = "auto"
    ROLLBACK = "rollback"
    REBUILD = "rebuild"


class LevelWord(StrEnum):
    HINTS = "hints"
    STRUCTURE = "structure"
    FULL = "full"
    DATA = "data"


def run(
    ctx: typer.Context,
    level: Annotated[
        LevelWord, typer.Option("--level", help="Depth of the check; each level includes the ones before it.")
    ] = LevelWord.STRUCTURE,
    at: At = None,
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="Check all kept versions; each file is read once.")
    ] = False,
    since_last: Annotated[
        bool, typer.Option("--since-last", help="Skip definitions that an earlier run found sound.")
    ] = False,
    max_age: Annotated[
        str | None,
        typer.Option("--max-age", metavar="DURATION", help="With --since-last: skip only what was read since then."),
    ] = None,
    max_duration: Annotated[
        str | None,
        typer.Option("--max-duration", metavar="DURATION", help="Stop after this time; --since-last continues."),
    ] = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE.html", help="Also write the findings as an HTML page.")
    ] = None,
    bundle: Annotated[
        str | None,
        typer.Option("--bundle", metavar="FILE", help="Write a zip file for support that has none of your names."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Plan a repair of the latest version and the hints, ask, and apply it.")
    ] = False,
    prefer: Annotated[
        PreferWord | None,
        typer.Option("--prefer", help="With --repair: how to repair; auto chooses the way that loses less."),
    ] = None,
    salvage: Annotated[
        str | None,
        typer.Option("--salvage", metavar="DEST", help="Write all readable objects into a new catalog at DEST."),
    ] = None,
    acknowledge: Annotated[
        bool, typer.Option("--acknowledge", help="Record damage of older versions as known, so that it alarms no more.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    message: Message = "",
    engine_word: EngineOption = EngineWord.AUTO,
    master: Master = None,
    remote: Remote = None,
    parallelism: Parallelism = None,
    conf: Conf = None,
) -> None:
    """Check that the catalog is sound.

    There are four levels. hints checks the hints, the names of the versions and the chain of roots, in seconds.
    structure reads every node; where it takes few requests, it also lists definitions to find missing ones. full reads
    definitions, actions and checksums; with --all-versions it also finds orphan files. data reads the Iceberg metadata
    of tables and looks for the files that it names. Without --at and --all-versions, the latest version is checked.
    Nothing is changed.

    Each finding has a code whose meaning never changes, the file, the versions and objects affected, and the next step.
    At the end come the commands that repair the damage, each with its losses, the one that loses least first. Warnings
    and information do not make a catalog damaged.

    Exit status: 0 sound; 50 damaged; 3 stopped by --max-duration before the end; 10 there is no catalog; 31 no
    permission to read a file.

    --repair commits a new, sound version. Unreadable parts are taken from older versions and the log; objects that are
    found nowhere are named and lost. A root that does not belong to history is moved to ops/aside/. A repair reads
    definitions too, whatever the level. It overwrites no files but hints. --salvage leaves the catalog alone and writes
    everything readable, also definitions without a reference, into a new catalog. Exit code 3 means that something is
    missing in it.

    --acknowledge commits that the damage of older versions is known, if the latest version is free of it. It is still
    reported, but no longer changes the exit code, unless it affects more versions than before. Give the level that
    finds the damage.

    Both engines have the same findings. The listing of level structure, --since-last, --max-duration, --repair and
    --salvage are available locally only.
    """
    session = Session(ctx)
    check_one(("--at", at), ("--all-versions", all_versions))
    check_options(repair, prefer, salvage, acknowledge, dry_run=dry_run, yes=yes, past=at is not None)
    if max_age is not None and not since_last:
        raise InvalidOption("--max-age needs --since-last", hint="add --since-last")
    reference = None if at is None else parse_reference(at)
    seconds = None if max_duration is None else parse_seconds(max_duration)
    age = None if max_age is None else parse_seconds(max_age)
    for path in (report, bundle):
        _check_file(session, path)

    clock = SystemClock()
    # a repair needs the findings in definitions, too
    deep = repair and level in (LevelWord.HINTS, LevelWord.STRUCTURE)
    chosen = fsck.Level.FULL if deep else fsck.Level(level.value)
    local_options = {
        "--since-last": since_last,
        "--max-duration": max_duration,
        "--repair": repair,
        "--salvage": salvage,
    }
    local_only = next((option for option, value in local_options.items() if value), None)
    with (
        engine(session, engine_word, master, remote, parallelism, conf, local_only=local_only) as work,
        session.progress() as progress,
    ):
        request = fsck.FsckRequest(
            level=chosen,
            at=reference,
            all_versions=all_versions,
            clock=clock,
            verified=_verified(clock, age) if since_last else None,
            max_duration=seconds,
            data=data_checks(session) if level is LevelWord.DATA else None,
            progress=progress,
        )
        fsck_report = work.fsck(session.store, request)
    if acknowledge:
        fsck_report = note_as_known(session, fsck_report, dry_run=dry_run, message=message)
    standing = fsck.note_fsck(session.store, fsck_report, clock, all_versions, latest=at is None)
    options = _options(chosen, at, all_versions)
    repairs = repair or salvage is not None
    shows_commands = report is not None or session.output is Output.JSON or not repairs
    commands = next_commands(session, fsck_report, options) if shows_commands else []
    full_report = with_commands(session, fsck_report, commands if shows_commands else None)
    if report is not None:
        lines = [(command.line, command.loss, command.why) for command in commands]
        _write(report, report_page(full_report, session.store.uri, clock.now_millis(), lines).encode())
    if bundle is not None:
        _write(bundle, fsck.make_bundle(session.store, full_report))
    if repair:
        word: Any = PreferWord.AUTO.value if prefer is None else prefer.value
        raise typer.Exit(repair_shown(session, full_report, commands, options, word, yes, dry_run, message))
    if salvage is not None:
        raise typer.Exit(salvage_shown(session, full_report, commands, salvage, dry_run, message))
    print_report(session, full_report, commands)
    if fsck_report.level is fsck.Level.STRUCTURE and fsck_report.definitions == "no" and not fsck_report.read_only:
        session.say(f"definitions were not checked: {session.command('fsck --level full')} reads them")
    say_next(session, commands)
    if not fsck_report.damaged:
        say_standing(session, standing)
    if not fsck_report.complete:
        again = "" if fsck_report.damaged else f": continue with {session.command('fsck --since-last')}"
        session.say(f"stopped after {max_duration}, before everything was checked{again}")
    raise typer.Exit(exit_code(fsck_report))


def _options(level: Level, at: str | None, all_versions: bool) -> list[str]:
    """Return the options for another fsck of the same."""
    depth = [] if level == LevelWord.STRUCTURE.value else ["--level", str(level)]
    return [*depth, *(["--at", at] if at is not None else []), *(["--all-versions"] if all_versions else [])]


def _verified(clock: Clock, age: float | None) -> fsck.Verified:
    return fsck.Verified(fsck.state_home(), clock.now_millis(), None if age is None else int(age * 1000))


def _check_file(session: Session, path: str | None) -> None:
    """Raise an error if a file cannot be written, before hours of work are spent."""
    if path is not None:
        render.check_output(session, path)

    try:
        fits = path is None or (not Path(path).is_dir() and Path(path).absolute().parent.is_dir())
    except (OSError, ValueError):
        # no valid file name
        fits = False
    if not fits:
        raise InvalidOption(f"{(path or '')[:200]!a} cannot be written", hint="give a file in a folder that exists")


def _write(path: str, data: bytes) -> None:
    try:
        Path(path).write_bytes(data)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidOption(f"{path[:200]!a} cannot be written: {reason}", hint="give another file") from None
