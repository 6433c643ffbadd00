from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.engine import Conf, EngineOption, EngineWord, Master, Parallelism, Remote
from olympia_cli.cli.export_options import DestProfile, export_engine, open_dest, render_exported, whole_commands
from olympia_cli.cli.options import Message, RetryFor, parse_seconds
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia export resume friday --dest s3://backup/catalog"]


def run(
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
    from olympia_cli.ops.export.export import resume_export

    with (
        whole_commands(session, dest_profile),
        export_engine(session, store, dest_profile, engine, master, remote, parallelism, conf) as copier,
        session.progress() as progress,
    ):
        export = resume_export(
            session.catalog, store, name, message=message, retry_for=seconds, progress=progress, engine=copier
        )
    render_exported(session, export)
