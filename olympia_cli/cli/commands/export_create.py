from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_reference
from olympia_cli.cli.engine import Conf, EngineOption, EngineWord, Master, Parallelism, Remote
from olympia_cli.cli.export_options import (
    DestProfile,
    check_java,
    copy_for_java,
    export_engine,
    open_dest,
    parse_expires,
    render_exported,
    whole_command,
    whole_commands,
)
from olympia_cli.cli.options import Message, RetryFor, parse_seconds
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia export create friday --dest s3://backup/catalog",
    "olympia export create audit --dest ./audit --at 2026-11-13 --expires 30d",
    "olympia export create pinned --dest ./pinned --mode minimal --expires 1w",
    "olympia export create upper --dest ./upper --mode partial --depth 2 --no-definitions",
    "olympia export create handover --dest ./for-java --for java-sdk",
    "olympia export create friday --dest s3://backup/catalog --engine spark --master spark://host:7077",
]


def run(
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
        typer.Option(
            "--at", metavar="REF", help="Version to export; the latest if not given.", autocompletion=complete_reference
        ),
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
    from olympia_cli.errors import InvalidOption, quoted
    from olympia_cli.names import check_export_name, parse_reference
    from olympia_cli.ops.export.files import Mode, resume_words, scope

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
    from olympia_cli.ops.export.export import create_export

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
