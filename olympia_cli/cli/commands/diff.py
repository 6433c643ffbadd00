from __future__ import annotations

from typing import Annotated, Any

import typer

from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render, visible
from olympia_cli.cli.output.log import change_line, field_lines, painter, style, told_changes
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption
from olympia_cli.ops import inspect

EXAMPLES = [
    "olympia diff",
    "olympia diff v12",
    "olympia diff 2d latest",
    "olympia diff v12..v20 --json",
    "olympia diff -p yesterday",
]


def run(
    ctx: typer.Context,
    old: Annotated[
        str | None,
        typer.Argument(metavar="[REF]", help="The older version; latest~1 if not given."),
    ] = None,
    new: Annotated[
        str | None,
        typer.Argument(metavar="[REF]", help="The newer version; latest if not given."),
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Only count the changes.")] = False,
    patch: Annotated[
        bool, typer.Option("--patch", "-p", help="Also show all fields of created and dropped objects.")
    ] = False,
) -> None:
    """Show what changed between two versions.

    Without a reference, the latest version is compared with the one before it; with one, that version with the latest.
    A..B works too. Nodes that both versions share are not read. Fields that differ are always shown.
    """
    session = Session(ctx)
    if old is not None and ".." in old:
        if new is not None:
            raise InvalidOption("A..B and a second reference do not go together", hint="give one or the other")
        old, _, new = old.partition("..")
    latest = session.snapshot()
    start = old or "latest~1"
    if not old and latest.version == 0:
        start = "latest"
    before, after = session.resolve(start, latest), session.resolve(new or "latest", latest)
    changes = inspect.diff(before, after)
    catalog = (
        inspect.changed_fields(before.definition, after.definition)
        if before.root.catalog_def != after.root.catalog_def
        else {}
    )
    if session.output in (Output.JSON, Output.JSONL):
        described: list[dict[str, Any]] = [change.describe() for change in changes]
        if session.output is Output.JSONL:
            render.records(session, "changes", [], described)
            return
        value: dict[str, Any] = {"from": before.version, "to": after.version, "changes": described}
        if catalog:
            value["catalog"] = {key: {"from": was, "to": now} for key, (was, now) in catalog.items()}
        render.document(session, value)
        return
    if session.output is Output.CSV:
        columns = [render.Column(key, key) for key in ("change", "type", "namespace", "name", "id")]
        render.records(session, "changes", columns, (change.describe() for change in changes))
        return
    counts: dict[str, int] = {}

    def count(change: inspect.ObjectChange) -> inspect.ObjectChange:
        key = f"{change.change} {change.name.kind.word}"
        counts[key] = counts.get(key, 0) + 1
        return change

    paint, fields = painter(session), inspect.ObjectChange.all_fields if patch else inspect.ObjectChange.fields
    with session.out(paged=True) as out:
        if session.is_tty and session.output is not Output.NAME:
            out.write(f"v{before.version} → v{after.version}\n")
        if session.output is Output.NAME:
            out.writelines(f"{visible(str(change.name))}\n" for change in map(count, changes))
        elif stat:
            for _ in map(count, changes):
                pass
            out.writelines(f"{number}\t{what}\n" for what, number in sorted(counts.items()))
        elif session.is_tty:
            change_lines = (line for line, _ in told_changes(map(count, changes), fields))
            out.writelines(f"{paint(line, style(line))}\n" for line in change_lines)
        else:
            for change in map(count, changes):
                out.write("\t".join([change_line(change), *field_lines(fields(change))]) + "\n")
        if catalog and session.output is not Output.NAME and not stat:
            lines = ["~ catalog", *(f"    {line}" for line in field_lines(catalog))]
            out.writelines(f"{paint(line, style(line))}\n" for line in lines)
    if not counts and not catalog:
        session.say(f"v{before.version} and v{after.version} have the same content")
