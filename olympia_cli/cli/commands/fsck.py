from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from olympia_cli.cli.context import Session
from olympia_cli.cli.engine import Conf, Engine, EngineWord, Master, Parallelism, Remote, engine
from olympia_cli.cli.params import At, DryRun, Message, Yes

if TYPE_CHECKING:
    from olympia_cli.catalog.clock import Clock
    from olympia_cli.ops.fsck.fsck import Level, Report
    from olympia_cli.ops.fsck.verified import Verified

EXAMPLES = [
    "olympia fsck",
    "olympia fsck --level hints --quiet",
    "olympia fsck --level full --all-versions --since-last --max-duration 30m",
    "olympia fsck --at v12 --json",
    "olympia fsck --all-versions --report fsck.html",
    "olympia fsck --level full --all-versions --bundle support.zip",
    "olympia fsck --level data --all-versions --engine spark --master spark://host:7077",
    "olympia fsck --repair --dry-run",
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
        LevelWord, typer.Option("--level", help="How deep to look; each level includes the ones before it.")
    ] = LevelWord.STRUCTURE,
    at: At = None,
    all_versions: Annotated[
        bool, typer.Option("--all-versions", help="All versions that are kept, each file read once.")
    ] = False,
    since_last: Annotated[
        bool, typer.Option("--since-last", help="Skip definitions that an earlier run found whole.")
    ] = False,
    max_age: Annotated[
        str | None,
        typer.Option("--max-age", metavar="DURATION", help="With --since-last: read again what was read before that."),
    ] = None,
    max_duration: Annotated[
        str | None,
        typer.Option("--max-duration", metavar="DURATION", help="Stop after that time; --since-last goes on."),
    ] = None,
    report: Annotated[
        str | None, typer.Option("--report", metavar="FILE.html", help="Write the findings as a page, too.")
    ] = None,
    bundle: Annotated[
        str | None,
        typer.Option("--bundle", metavar="FILE", help="Write a zip file for support, without any names of yours."),
    ] = None,
    repair: Annotated[
        bool, typer.Option("--repair", help="Show how to mend the latest version and the hints, ask, and do it.")
    ] = False,
    prefer: Annotated[
        PreferWord | None,
        typer.Option("--prefer", help="With --repair: go back to a sound version, or rebuild; auto loses less."),
    ] = None,
    salvage: Annotated[
        str | None,
        typer.Option("--salvage", metavar="DEST", help="Write what can be read into a new catalog in an empty place."),
    ] = None,
    yes: Yes = False,
    dry_run: DryRun = False,
    message: Message = "",
    engine_word: Engine = EngineWord.AUTO,
    master: Master = None,
    remote: Remote = None,
    parallelism: Parallelism = None,
    conf: Conf = None,
) -> None:
    """Check that the catalog is whole.

    The levels: hints looks at the hints, the names of the versions and the chain of roots, in seconds; structure at
    every node; full at definitions, actions and digests, and with --all-versions for files that nothing leads to; data
    at the Iceberg metadata of the tables and at the files that it names. Without --at and --all-versions it is about
    the latest version. Nothing is changed.

    Each finding has a code that never changes its meaning, the file, the versions and objects that it hits, and what
    to do next. The exit code says the result: 0 sound, 50 damaged, 3 stopped by --max-duration before the end, 10 there
    is no catalog. Warnings and information do not make a catalog damaged.

    --repair commits a new version that is whole: what cannot be read is taken from older versions and the log, what is
    found nowhere is named and lost. Only hints are ever overwritten. --salvage leaves the catalog alone, and writes
    what can be read, down to definitions that nothing names, into a new one; 3 means that something is missing in it.

    Both engines find the same. --since-last, --max-duration, --repair and --salvage are for the local one.
    """
    from olympia_cli.cli.fsck_render import print_report, say_how_to_mend, with_commands
    from olympia_cli.cli.fsck_repair import check_options
    from olympia_cli.cli.params import parse_seconds
    from olympia_cli.errors import InvalidOption
    from olympia_cli.names import parse_reference

    session = Session(ctx)
    if at is not None and all_versions:
        raise InvalidOption("--at and --all-versions do not go together", hint="give one of them")
    check_options(repair=repair, prefer=prefer, salvage=salvage, dry_run=dry_run, yes=yes, past=at is not None)
    if max_age is not None and not since_last:
        raise InvalidOption("--max-age is about what --since-last skips", hint="add --since-last")
    reference = None if at is None else parse_reference(at)
    seconds = None if max_duration is None else parse_seconds(max_duration)
    age = None if max_age is None else parse_seconds(max_age)
    for path in (report, bundle):
        _check_file(path)
    from olympia_cli.catalog.clock import SystemClock
    from olympia_cli.ops.fsck.fsck import FsckRequest, Level, note_last

    clock = SystemClock()
    given = {"--since-last": since_last, "--max-duration": max_duration, "--repair": repair, "--salvage": salvage}
    local_only = next((option for option, value in given.items() if value), None)
    with (
        engine(session, engine_word, master, remote, parallelism, conf, local_only=local_only) as work,
        session.progress() as progress,
    ):
        request = FsckRequest(
            level=Level(level.value),
            at=reference,
            all_versions=all_versions,
            clock=clock,
            verified=_verified(clock, age) if since_last else None,
            max_duration=seconds,
            data=_data_checks(session) if level is LevelWord.DATA else None,
            progress=progress,
        )
        found = work.fsck(session.store, request)
    note_last(session.store, found, clock, all_versions)
    found = with_commands(session, found)
    if report is not None:
        from olympia_cli.ops.fsck.page import report_page

        _write(report, report_page(found, session.store.uri, clock.now_millis()).encode())
    if bundle is not None:
        from olympia_cli.ops.fsck.bundle import make_bundle

        _write(bundle, make_bundle(session.store, found))
    if repair:
        raise typer.Exit(_repair(session, found, Level(level.value), prefer, yes, dry_run, message))
    if salvage is not None:
        raise typer.Exit(_salvage(session, found, salvage, dry_run, message))
    print_report(session, found)
    if not found.read_only:
        say_how_to_mend(session, found)
    if not found.complete:
        again = "" if found.damaged else f": go on with {session.command('fsck --since-last')}"
        session.say(f"stopped after {max_duration}, not everything was looked at{again}")
    raise typer.Exit(50 if found.damaged else 0 if found.complete else 3)


def _repair(
    session: Session, found: Report, level: Level, prefer: PreferWord | None, yes: bool, dry_run: bool, message: str
) -> int:
    """Show what was found and the plan, do it, and look again; the exit code."""
    from olympia_cli.catalog.clock import SystemClock
    from olympia_cli.cli.fsck_render import print_report, with_commands
    from olympia_cli.cli.fsck_repair import describe_repair, is_rows, repair
    from olympia_cli.cli.params import Output
    from olympia_cli.ops.fsck.fsck import fsck, note_last

    if session.output is not Output.JSON:
        print_report(session, found)
    word: Any = PreferWord.AUTO.value if prefer is None else prefer.value
    plan, version = repair(session, word, yes=yes, dry_run=dry_run, message=message)
    after = found
    if not plan.nothing_to_do and not dry_run:
        clock = SystemClock()
        with session.progress() as progress:
            after = fsck(session.store, level=level, clock=clock, progress=progress)
        note_last(session.store, after, clock, False)
        after = with_commands(session, after)
        if not is_rows(session):
            print_report(session, after)
    if session.output is Output.JSON:
        print_report(session, after, {"repair": describe_repair(plan, version, dry_run)})
    if after is found:
        return 50 if found.damaged else 0 if found.complete else 3
    # versions before the repaired one stay as they are, damaged or not, until they expire
    sound = after.version is not None and after.last_sound_version == after.version
    if after.damaged and sound:
        session.say("the latest version is sound; what is damaged before it stays in history until it expires")
    return 0 if sound and after.complete else 50 if after.damaged else 3


def _salvage(session: Session, found: Report, destination: str, dry_run: bool, message: str) -> int:
    from olympia_cli.cli.fsck_render import print_report
    from olympia_cli.cli.fsck_repair import salvage
    from olympia_cli.cli.params import Output
    from olympia_cli.ops.repair.plan import describe_salvage

    if session.output is not Output.JSON:
        print_report(session, found)
    report = salvage(session, destination, dry_run=dry_run, message=message)
    if session.output is Output.JSON:
        print_report(session, found, {"salvage": {**describe_salvage(report), "dry_run": dry_run}})
    return 0 if report.complete else 3


def _verified(clock: Clock, age: float | None) -> Verified:
    from olympia_cli.ops.fsck.verified import Verified, state_home

    return Verified(state_home(), clock.now_millis(), None if age is None else int(age * 1000))


def _data_checks(session: Session) -> Any:
    from olympia_cli.iceberg.data_checks import IcebergDataChecks

    scheme, separator, _ = session.location.uri.partition("://")
    return IcebergDataChecks(session.location.options or None, scheme if separator else "")


def _check_file(path: str | None) -> None:
    """A file that cannot be written must not be found out after hours of work."""
    from pathlib import Path

    from olympia_cli.errors import InvalidOption

    try:
        fits = path is None or (not Path(path).is_dir() and Path(path).absolute().parent.is_dir())
    except (OSError, ValueError):
        # a name that no file can have
        fits = False
    if not fits:
        raise InvalidOption(f"{(path or '')[:200]!a} cannot be written", hint="give a file in a folder that exists")


def _write(path: str, data: bytes) -> None:
    from pathlib import Path

    from olympia_cli.errors import InvalidOption

    try:
        Path(path).write_bytes(data)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise InvalidOption(f"{path[:200]!a} cannot be written: {reason}", hint="give another file") from None
