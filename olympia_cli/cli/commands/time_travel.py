from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import typer

from olympia_cli.cli.options import At, Output
from olympia_cli.cli.output import render, visible
from olympia_cli.cli.output.log import age
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption
from olympia_cli.names import NamespaceName, ObjectName, time_text

EXAMPLES = [
    "olympia time-travel 2026-11-15",
    "olympia time-travel latest~10 --json",
    "olympia time-travel --at 2h -o name",
]


def run(
    ctx: typer.Context,
    reference: Annotated[
        str | None,
        typer.Argument(metavar="[REF]", help="A version, a time, a duration ago, …"),
    ] = None,
    at: At = None,
) -> None:
    """Show the objects of an older version.

    A time means the newest version created at or before it. REF and --at mean the same. Commands that show or list
    objects have --at, too.
    """
    session = Session(ctx)
    if (reference is None) == (at is None):
        problem = "no version is named" if at is None else "REF and --at do not go together"
        raise InvalidOption(problem, hint="give REF or --at REF")
    requested = at if reference is None else reference
    snapshot = session.snapshot(requested)

    def objects() -> Iterator[ObjectName]:
        yield from snapshot.namespaces()
        yield from snapshot.tables()
        yield from snapshot.views()

    if session.output in (Output.JSON, Output.JSONL):
        value: dict[str, Any] = {
            "version": snapshot.version,
            "created_at": time_text(snapshot.created_at_millis),
            "requested": requested,
            "namespaces": [{"name": name.namespace} for name in snapshot.namespaces()],
            "tables": [{"namespace": name.namespace, "name": name.name} for name in snapshot.tables()],
            "views": [{"namespace": name.namespace, "name": name.name} for name in snapshot.views()],
        }
        render.document(session, value)
        return
    if session.output is Output.CSV:
        rows = (
            {"type": name.kind.word, "namespace": name.namespace, "name": name.name or name.namespace}
            for name in objects()
        )
        columns = [render.Column(key, key) for key in ("type", "namespace", "name")]
        render.records(session, "objects", columns, rows)
        return
    with session.out(paged=True) as out:
        if session.output is not Output.NAME:
            moment = time_text(snapshot.created_at_millis)
            ago = age(snapshot.created_at_millis, session.catalog.clock.now_millis())
            head = [f"v{snapshot.version}", moment, f"{ago} ago"]
            out.write(("  ".join(head) if session.is_tty else "\t".join(head)) + "\n")
        for name in objects():
            if session.output is Output.NAME:
                out.write(visible(str(name)) + "\n")
            elif session.is_tty:
                indent = "  " if isinstance(name, NamespaceName) else "    "
                out.write(f"{indent}{name.kind.word} {visible(str(name))}\n")
            else:
                out.write(f"{name.kind.word}\t{visible(name.namespace)}\t{visible(name.name or name.namespace)}\n")
