from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import Any

import typer

from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Session

EXAMPLES = ["olympia export ls", "olympia export ls --json | jq '.exports[] | select(.state == \"expired\")'"]


def run(ctx: typer.Context) -> None:
    """List the exports.

    An expired export no longer keeps files of the catalog; its own files stay until you delete them. An unfinished
    export is still running or was interrupted: export resume continues it, and export drop forgets it. Lists for
    programs have recorded exports only; JSON has the others under "unfinished".
    """
    from itertools import chain

    from olympia_cli.catalog.clock import SystemClock
    from olympia_cli.ops.export.files import resume_command
    from olympia_cli.ops.export.records import list_exports, unfinished_exports

    session = Session(ctx)
    latest = session.snapshot()

    def resume(export: Mapping[str, Any]) -> list[str]:
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
        tail=lambda: {"unfinished": [{**row, "command": resume(row)} for row in unfinished]},
        title="exports",
    )
    for row in unfinished:
        session.say(f"{row['name']} is unfinished; if it is not running: {shlex.join(resume(row))}")
