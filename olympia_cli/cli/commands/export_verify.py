from __future__ import annotations

from typing import Annotated, Any

import typer

from olympia_cli.cli.completion import complete_export
from olympia_cli.cli.engine import Conf, EngineOption, EngineWord, Master, Parallelism, Remote
from olympia_cli.cli.export_options import DestProfile, export_engine, open_dest
from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Session

EXAMPLES = [
    "olympia export verify friday",
    "olympia export verify --dest s3://backup/catalog",
    "olympia export verify friday --json | jq .damaged",
]


def run(
    ctx: typer.Context,
    name: Annotated[
        str | None, typer.Argument(metavar="[NAME]", help="A recorded export.", autocompletion=complete_export)
    ] = None,
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
    from olympia_cli.errors import InvalidLocation, InvalidOption
    from olympia_cli.names import plural
    from olympia_cli.ops.export.verify import note_of, verify_export
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
