from __future__ import annotations

from typing import Annotated, Any

import typer

from olympia_cli.cli import render
from olympia_cli.cli.complete import complete_reference
from olympia_cli.cli.context import Session
from olympia_cli.cli.params import Output

EXAMPLES = [
    "olympia diff",
    "olympia diff v12",
    "olympia diff 2d latest",
    "olympia diff v12..v20 --json",
]


def run(
    ctx: typer.Context,
    old: Annotated[
        str | None,
        typer.Argument(metavar="[REF]", help="From; otherwise latest~1.", autocompletion=complete_reference),
    ] = None,
    new: Annotated[
        str | None,
        typer.Argument(metavar="[REF]", help="To; otherwise latest.", autocompletion=complete_reference),
    ] = None,
    stat: Annotated[bool, typer.Option("--stat", help="Only count the changes.")] = False,
) -> None:
    """Show what changed between two versions.

    None means the last version, one means from there to the latest, and A..B works too. What both versions share is not
    read.
    """
    from itertools import groupby

    from olympia_cli.cli.escape import visible
    from olympia_cli.cli.log_patch import change_line, field_lines, folded_changes
    from olympia_cli.errors import InvalidOption
    from olympia_cli.ops.look.diff import ObjectChange, changed_fields, describe_change, diff

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
    changes = diff(before, after)
    catalog = (
        changed_fields(before.definition, after.definition) if before.root.catalog_def != after.root.catalog_def else {}
    )
    if session.output in (Output.JSON, Output.JSONL):
        described: list[dict[str, Any]] = [describe_change(change) for change in changes]
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
        render.records(session, "changes", columns, (describe_change(change) for change in changes))
        return
    counts: dict[str, int] = {}

    def count(change: ObjectChange) -> ObjectChange:
        key = f"{change.change} {change.name.kind.word}"
        counts[key] = counts.get(key, 0) + 1
        return change

    with session.out(paged=True) as out:
        if session.is_tty and session.output is not Output.NAME:
            out.write(f"v{before.version} → v{after.version}\n")
        if session.is_tty and session.output is not Output.NAME and not stat:
            # what has fields to show is told one by one
            for has_fields, some in groupby(map(count, changes), key=lambda change: bool(change.fields())):
                if has_fields:
                    for change in some:
                        out.write(change_line(change) + "\n")
                        out.writelines(f"    {line}\n" for line in field_lines(change.fields()))
                else:
                    out.writelines(f"{line}\n" for line, _ in folded_changes(some))
        for change in map(count, changes):
            if session.output is Output.NAME:
                out.write(visible(str(change.name)) + "\n")
            elif not stat:
                out.write("\t".join([change_line(change), *field_lines(change.fields())]) + "\n")
        if catalog and session.output is not Output.NAME and not stat:
            out.write("~ catalog\n" + "".join(f"    {line}\n" for line in field_lines(catalog)))
        if stat:
            out.write("".join(f"{number}\t{what}\n" for what, number in sorted(counts.items())))
    if not counts and not catalog:
        session.say(f"v{before.version} and v{after.version} have the same content")
