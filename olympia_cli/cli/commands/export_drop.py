from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.completion import complete_export
from olympia_cli.cli.export_options import DestProfile, open_dest
from olympia_cli.cli.options import DryRun, Message, RetryFor, Yes, parse_seconds
from olympia_cli.cli.output import render
from olympia_cli.cli.session import Session
from olympia_cli.cli.talk import confirm

EXAMPLES = ["olympia export drop friday --dry-run", "olympia export drop friday --delete-files --yes"]


def run(
    ctx: typer.Context,
    name: Annotated[str, typer.Argument(metavar="NAME", help="The export.", autocompletion=complete_export)],
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
    from olympia_cli.errors import ExportNotFound, Refused, quoted
    from olympia_cli.masking import masked
    from olympia_cli.names import plural
    from olympia_cli.ops.export.records import (
        BY_HAND,
        drop_export,
        forget_unfinished,
        plan_deletion,
        unfinished_exports,
    )
    from olympia_cli.ops.export.records import delete_files as delete

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
                delete(plan, progress)
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
