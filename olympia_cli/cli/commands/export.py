"""The commands of exports."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Annotated, Any

import typer

from olympia_cli.catalog.clock import SystemClock
from olympia_cli.cli.boundary import confirm
from olympia_cli.cli.engine import Conf, EngineOption, EngineWord, Master, Parallelism, Remote
from olympia_cli.cli.engine import engine as open_engine
from olympia_cli.cli.options import DryRun, Message, Output, RetryFor, Yes, parse_seconds
from olympia_cli.cli.output import render
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Session
from olympia_cli.errors import (
    ExportNotFound,
    InvalidLocation,
    InvalidOption,
    InvalidReference,
    OlympiaError,
    Refused,
    quoted,
)
from olympia_cli.format.paths import size_limit
from olympia_cli.masking import masked
from olympia_cli.names import check_export_name, parse_duration, parse_reference, parse_time, plural
from olympia_cli.storage.open import open_store

if TYPE_CHECKING:
    from olympia_cli.names import Reference
    from olympia_cli.ops.export import Exported, ExportEngine, Scope
    from olympia_cli.storage.protocol import Store

EXAMPLES = {
    "create": [
        "olympia export create friday --dest s3://backup/catalog",
        "olympia export create audit --dest ./audit --at 2026-11-13 --expires 30d",
        "olympia export create pinned --dest ./pinned --mode minimal --expires 1w",
        "olympia export create upper --dest ./upper --mode partial --depth 2 --no-definitions",
        "olympia export create handover --dest ./for-java --for java-sdk",
        "olympia export create friday --dest s3://backup/catalog --engine spark --master spark://host:7077",
    ],
    "ls": ["olympia export ls", "olympia export ls --json | jq '.exports[] | select(.state == \"expired\")'"],
    "verify": [
        "olympia export verify friday",
        "olympia export verify --dest s3://backup/catalog",
        "olympia export verify friday --json | jq .damaged",
    ],
    "resume": ["olympia export resume friday --dest s3://backup/catalog"],
    "drop": ["olympia export drop friday --dry-run", "olympia export drop friday --delete-files --yes"],
}

DestProfile = Annotated[
    str | None,
    typer.Option(
        "--dest-profile",
        metavar="NAME",
        help="Profile with the storage options of the destination, if they differ from the catalog's.",
    ),
]


def create(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the export; --at NAME reads it later.")],
    dest: Annotated[str, typer.Option("--dest", metavar="URI", help="Destination: an empty folder or prefix.")],
    mode: Annotated[
        str, typer.Option("--mode", metavar="MODE", help="full, partial, or minimal (only the root).")
    ] = "full",
    depth: Annotated[
        int | None,
        typer.Option("--depth", metavar="N", help="With --mode partial: copy N levels of nodes, including the root."),
    ] = None,
    no_definitions: Annotated[
        bool, typer.Option("--no-definitions", help="With --mode partial: do not copy the definitions.")
    ] = False,
    at: Annotated[
        str | None,
        typer.Option("--at", metavar="REF", help="Version to export; the latest if not given."),
    ] = None,
    expires: Annotated[
        str | None,
        typer.Option("--expires", metavar="DURATION", help="Keep shared files for this long (30d), or until a time."),
    ] = None,
    reader: Annotated[
        str | None,
        typer.Option("--for", metavar="PROGRAM", help="java-sdk: write a copy for the Java SDK; it is not recorded."),
    ] = None,
    dest_profile: DestProfile = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
    engine: EngineOption = EngineWord.AUTO,
    master: Master = None,
    remote: Remote = None,
    parallelism: Parallelism = None,
    conf: Conf = None,
) -> None:
    """Copy a version to another place.

    A full export is a catalog of its own, with the same version number. A partial or minimal export copies less. It
    shares the rest with the catalog, which keeps those files until the export expires or is dropped. Everything is
    read, copied and read back before the export is recorded. An interrupted export is not recorded: continue it with
    export resume. On Spark the executors copy from one place to the other, and need access to both.

    With --for java-sdk the copy is a catalog for the Java SDK, and its version 1 has the content of the exported
    version. It shares no files and is not recorded. If it is interrupted, start again with another destination.
    """
    from olympia_cli.ops.export import Mode, resume_words, scope

    session, seconds = Session(ctx), parse_seconds(retry_for)
    if mode not in list(Mode):
        raise InvalidOption(f"{quoted(mode)} is not a mode", hint="use full, partial or minimal")
    check_export_name(name)
    extent = scope(Mode(mode), depth, not no_definitions)
    reference = None if at is None else parse_reference(at)
    if reader is not None:
        check_java(reader, extent, expires, engine)
    store = open_dest(session, dest, dest_profile)
    if reader is not None:
        copy_for_java(session, store, name, reference)
        return
    from olympia_cli.ops.export import create_export

    expires_at = parse_expires(expires, session.catalog.clock.now_millis())
    try:
        with (
            whole_commands(session, dest_profile),
            export_engine(session, store, dest_profile, engine, master, remote, parallelism, conf) as copier,
            session.progress() as progress,
        ):
            export = create_export(
                session.catalog,
                store,
                name,
                extent,
                at=reference,
                expires_at_millis=expires_at,
                message=message,
                retry_for=seconds,
                progress=progress,
                engine=copier,
            )
    except KeyboardInterrupt:
        session.say(f"to continue: {whole_command(session, resume_words(name, dest), dest_profile)}")
        raise
    render_exported(session, export)


def ls(ctx: typer.Context) -> None:
    """List the exports.

    An expired export no longer keeps files of the catalog; its own files stay until you delete them. An unfinished
    export is still running or was interrupted: export resume continues it, and export drop forgets it. Lists for
    programs have recorded exports only; JSON has the others under "unfinished".
    """
    from olympia_cli.ops.export import list_exports, resume_command, unfinished_exports

    session = Session(ctx)
    latest = session.snapshot()

    def command(export: Mapping[str, Any]) -> list[str]:
        return session.argv(resume_command(export["name"], export["location"]))

    unfinished = unfinished_exports(latest) if session.output in (Output.TABLE, Output.WIDE, Output.JSON) else []
    unrecorded = ({**row, "state": "unfinished"} for row in unfinished if session.output is not Output.JSON)
    columns = [
        Column("name", "EXPORT"),
        Column("at_version", "VERSION", right=True),
        Column("mode", "MODE"),
        Column("state", "STATE"),
        Column("expires_at", "EXPIRES"),
        Column("location", "LOCATION"),
        Column("root", "ROOT", wide=True),
        Column("pin", "PIN", wide=True),
    ]
    render.records(
        session,
        "exports",
        columns,
        chain(list_exports(latest, SystemClock().now_millis()), unrecorded),
        head={"version": latest.version},
        tail=lambda: {"unfinished": [{**row, "command": command(row)} for row in unfinished]},
        title="exports",
    )
    for row in unfinished:
        session.say(f"{row['name']} is unfinished; if it is not running: {shlex.join(command(row))}")


def verify(
    ctx: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A recorded export.")] = None,
    dest: Annotated[
        str | None, typer.Option("--dest", metavar="URI", help="Location of the export, if it is not in the record.")
    ] = None,
    dest_profile: DestProfile = None,
    engine: EngineOption = EngineWord.AUTO,
    master: Master = None,
    remote: Remote = None,
    parallelism: Parallelism = None,
    conf: Conf = None,
) -> None:
    """Check that an export is sound.

    Reads every file of it: copied files at its location, shared files in the catalog. Pointers out of the export are
    damage. The exit code is 50 if a file is missing or damaged.
    """
    from olympia_cli.catalog.retained import find_export
    from olympia_cli.ops.export import note_of, verify_export
    from olympia_cli.ops.fsck import describe_finding

    session = Session(ctx)
    if name is None and dest is None:
        raise InvalidOption("no export is named", hint="give its name, or --dest URI")
    record = None if name is None else find_export(name, session.snapshot().definition)
    location = dest if dest is not None else record.location if record is not None else ""
    store = open_dest(session, location, dest_profile)
    note = note_of(store, record)
    source = None
    if note.scope.shares:
        source = session.store
        if session.snapshot().definition.id != note.catalog:
            raise InvalidLocation(
                f"{store.uri} is an export of another catalog than {source.uri}", hint="name its catalog with -c"
            )
    # an export that shares nothing is a catalog itself, and needs no other
    reading = session if record is not None or source is not None else Session(ctx, location)
    with (
        export_engine(reading, store, dest_profile, engine, master, remote, parallelism, conf) as reader,
        reading.progress() as progress,
    ):
        result = verify_export(store, note, source, progress, reader)
    session.metrics = reading.metrics
    rows: list[dict[str, Any]] = [describe_finding(finding) for finding in result.findings]
    if session.output is Output.JSON:
        value = {
            "name": note.name,
            "mode": note.scope.mode,
            "at_version": note.version,
            "location": store.uri,
            "files": result.copied.files,
            "bytes": result.copied.bytes,
            "shared_files": result.shared.files,
            "shared_bytes": result.shared.bytes,
            "findings": rows,
            "findings_total": result.findings_total,
            "damaged": result.damaged,
        }
        render.document(session, value)
    elif rows or session.output is not Output.TABLE:
        columns = [
            Column("severity", "SEVERITY"),
            Column("code", "CODE"),
            Column("path", "FILE"),
            Column("message", "WHAT"),
        ]
        render.records(session, "findings", columns, rows, name=lambda row: str(row["path"]), title="findings")
    checked = plural(result.copied.files + result.shared.files, "file")
    if result.findings_total > len(rows):
        session.say(f"… and {result.findings_total - len(rows):,} more")
    session.say(f"{'DAMAGED' if result.damaged else 'sound'}: {note.name} of v{note.version}, {checked} read")
    if result.damaged:
        raise typer.Exit(50)


def resume(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The export.")],
    dest: Annotated[str, typer.Option("--dest", metavar="URI", help="Destination of the export.")],
    dest_profile: DestProfile = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
    engine: EngineOption = EngineWord.AUTO,
    master: Master = None,
    remote: Remote = None,
    parallelism: Parallelism = None,
    conf: Conf = None,
) -> None:
    """Continue an interrupted export.

    The version, the mode and the other options are those of export create. Only missing files are copied. An export
    that is recorded already is read, and stays as it is. The engine may be another one than before.
    """
    session, seconds = Session(ctx), parse_seconds(retry_for)
    store = open_dest(session, dest, dest_profile)
    from olympia_cli.ops.export import resume_export

    with (
        whole_commands(session, dest_profile),
        export_engine(session, store, dest_profile, engine, master, remote, parallelism, conf) as copier,
        session.progress() as progress,
    ):
        export = resume_export(
            session.catalog, store, name, message=message, retry_for=seconds, progress=progress, engine=copier
        )
    render_exported(session, export)


def drop(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The export.")],
    delete_files: Annotated[
        bool, typer.Option("--delete-files", help="Also delete the files of a full export, if no others are there.")
    ] = False,
    yes: Yes = False,
    dry_run: DryRun = False,
    dest_profile: DestProfile = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Forget an export.

    The catalog no longer keeps the files that the export shares. The files at the export's location stay, unless
    --delete-files is given; it is refused if the location has files that the export did not write. An unfinished export
    is forgotten too: that makes no version, and its files stay.
    """
    from olympia_cli.catalog.retained import location_of, read_exports
    from olympia_cli.ops.export import (
        BY_HAND,
        drop_export,
        forget_unfinished,
        plan_deletion,
        unfinished_exports,
    )
    from olympia_cli.ops.export import delete_files as delete_exported

    session, seconds = Session(ctx), parse_seconds(retry_for)
    latest = session.catalog.begin().base
    exports = read_exports(latest.definition)
    unfinished = next((row for row in unfinished_exports(latest) if row["name"] == name), None)
    if name not in exports and unfinished is None:
        raise ExportNotFound(f"there is no export {quoted(name)}", hint="list the exports", command=("export", "ls"))
    record = exports.get(name, "is missing")
    location = location_of(latest.definition.exported_snapshots.get(name, ""))
    plan = None
    if name not in exports and unfinished is not None:
        location = unfinished["location"]
        if delete_files:
            raise Refused(f"the export {name} is unfinished, and may still be running", hint=BY_HAND)
    elif delete_files:
        if isinstance(record, str):
            raise Refused(f"the record of the export {name} {record}", hint="drop it without --delete-files")
        with session.progress() as progress:
            store = open_dest(session, location, dest_profile)
            plan = plan_deletion(store, record, latest.definition.id, session.store.uri, progress)
    if not isinstance(record, str) and record.pin is not None:
        session.say("an expire deletes the files that it shares with the catalog, once no version needs them")
    if plan is None and location:
        session.say(f"its files at {location} stay: delete them yourself when they are no longer needed")
    elif plan is not None:
        size = f"{plural(plan.count.files, 'file')}, {plural(plan.count.bytes, 'byte')}"
        session.say(f"its files at {location} will be deleted: {size}")
    version = latest.version
    if not dry_run:
        confirm(f"Forget the export {name}?" if plan is None else f"Delete the export {name}?", yes)
        if name in exports:
            version = drop_export(session.catalog, name, message, seconds)
        else:
            forget_unfinished(latest, name)
        if plan is not None:
            with session.progress() as progress:
                delete_exported(plan, progress)
    value = {
        "version": version,
        "name": name,
        "location": masked(location),
        "dropped": not dry_run,
        "dry_run": dry_run,
        "deleted_files": 0 if plan is None else plan.count.files,
        "deleted_bytes": 0 if plan is None else plan.count.bytes,
    }
    render.outcome(session, value, f"v{version}  {'would drop' if dry_run else 'dropped'} export {name}")


# The destination and the results of exports


def open_dest(session: Session, uri: str, profile: str | None) -> Store:
    """Open the store of an export."""
    if not uri.strip():
        # an unset variable in a script must not choose a place
        raise InvalidLocation("--dest is empty", hint="give it a value")
    return open_store(uri, session.options_for(uri, profile), size_limit=size_limit)


@contextmanager
def export_engine(
    session: Session,
    dest: Store,
    profile: str | None,
    word: EngineWord,
    master: str | None,
    remote: str | None,
    parallelism: int | None,
    conf: list[str] | None,
) -> Iterator[ExportEngine]:
    """Open the engine that reads and copies the files, until the end of the block."""
    with (
        open_engine(session, word, master, remote, parallelism, conf) as work,
        work.export_engine(dest, session.options_for(dest.uri, profile)) as copier,
    ):
        yield copier


def parse_expires(text: str | None, now_millis: int) -> int | None:
    """Parse the time when an export expires: a duration from now, or a time."""
    if text is None:
        return None
    try:
        return now_millis + parse_duration(text)
    except InvalidReference:
        pass
    try:
        return parse_time(text)
    except InvalidReference:
        raise InvalidOption(f"{quoted(text)} is neither a duration nor a time", hint="write 30d") from None


def whole_command(session: Session, text: str, dest_profile: str | None) -> str:
    """Complete an `export resume` at the end of a text with the location and the profile given to this command."""
    words = "export resume " if dest_profile is None else f"export resume --dest-profile {shlex.quote(dest_profile)} "
    before, separator, after = text.partition("export resume ")
    return before + session.command(words) + after if separator else text


@contextmanager
def whole_commands(session: Session, dest_profile: str | None) -> Iterator[None]:
    """Complete the advice of errors in this block, so that its command can be pasted."""
    try:
        yield
    except OlympiaError as error:
        error.advice = whole_command(session, error.advice, dest_profile)
        raise


def check_java(reader: str, scope: Scope, expires: str | None, word: EngineWord) -> None:
    """Refuse options that do not apply to a copy for another program."""
    if reader != "java-sdk":
        raise InvalidOption(f"there are no copies for {reader[:60]!a}", hint="use --for java-sdk")
    if scope.shares:
        raise InvalidOption("a copy for the Java SDK shares nothing with the catalog", hint="leave out --mode")
    if expires is not None:
        raise InvalidOption("a copy for the Java SDK is not recorded, and does not expire", hint="leave out --expires")
    if word is EngineWord.SPARK:
        raise InvalidOption("a copy for the Java SDK is always made locally", hint="leave out --engine")


def copy_for_java(session: Session, dest: Store, name: str, reference: Reference | None) -> None:
    from olympia_cli.ops.export import create_java_copy

    with session.progress() as progress:
        copy = create_java_copy(session.catalog, dest, name, at=reference, progress=progress)
    size = f"{plural(copy.count.files, 'file')}, {plural(copy.count.bytes, 'byte')}"
    text = f"v{copy.version}  copied v{copy.at_version} to {copy.location} for the Java SDK: {size}"
    render.outcome(session, copy.describe(), text)


def render_exported(session: Session, export: Exported) -> None:
    note = export.note
    size = f"{plural(export.count.files, 'file')}, {plural(export.count.bytes, 'byte')}"
    text = f"v{export.version}  exported v{note.version} as {note.name} to {export.location}: {size}"
    render.outcome(session, export.describe(), text)
