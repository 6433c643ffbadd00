from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.context import Session
from olympia_cli.cli.export_options import DestProfile, open_dest, render_exported, whole_commands
from olympia_cli.cli.params import Message, RetryFor, parse_seconds

EXAMPLES = ["olympia export resume friday --dest s3://backup/catalog"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The export.")],
    dest: Annotated[str, typer.Option("--dest", metavar="URI", help="Where it was to go.")],
    dest_profile: DestProfile = None,
    message: Message = "",
    retry_for: RetryFor = "60s",
) -> None:
    """Go on with an export that was interrupted.

    The version, the mode and the rest are those it was begun with. Only what is missing is copied. An export that is
    recorded already is read and left as it is.
    """
    session, seconds = Session(ctx), parse_seconds(retry_for)
    store = open_dest(dest, dest_profile)
    from olympia_cli.ops.export import resume_export

    with whole_commands(session, dest_profile), session.progress() as progress:
        done = resume_export(session.catalog, store, name, message=message, retry_for=seconds, progress=progress)
    render_exported(session, done)
