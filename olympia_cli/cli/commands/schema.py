from __future__ import annotations

from typing import Annotated

import typer

from olympia_cli.cli.app import ALIASES
from olympia_cli.cli.completion import complete_command
from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Session
from olympia_cli.cli.shapes import ON_STDERR, SHAPES, whole_schema
from olympia_cli.errors import InvalidOption, quoted
from olympia_cli.names import nearest

EXAMPLES = ["olympia schema", "olympia schema table show", "olympia schema error"]

COLUMNS = [Column("command", "COMMAND"), Column("shapes", "SHAPES")]


def run(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]...",
            help="A command, such as table show, or error or log-format (for stderr); a list if not given.",
            autocompletion=complete_command,
        ),
    ] = None,
) -> None:
    """Print the JSON Schema of a command's --json.

    Programs may rely on it. Later releases only add keys, so ignore unknown keys. If options change the output, the
    schema allows any of several shapes. -o jsonl prints the items of a list, one per line.
    """
    session = Session(ctx)
    if not command:
        documents = session.output in (Output.JSON, Output.JSONL)
        rows = (
            {"command": path, "schemas": list(names)} if documents else {"command": path, "shapes": ", ".join(names)}
            for path, names in SHAPES.items()
        )
        render.records(session, "commands", COLUMNS, rows, name=lambda row: str(row["command"]))
        return
    path = " ".join(ALIASES.get(word, word) for word in command)
    if path in ON_STDERR:
        names: tuple[str, ...] = (ON_STDERR[path],)
    elif path in SHAPES:
        names = SHAPES[path]
    else:
        members = [member for member in SHAPES if member.startswith(path + " ")]
        meant = nearest(path, [*SHAPES, *ON_STDERR])
        words: tuple[str, ...] = ()
        if members:
            hint = f"there are {', '.join(members)}"
        elif meant is not None:
            hint = f"did you mean {meant}?"
        else:
            hint, words = "list the schemas", ("schema",)
        raise InvalidOption(f"there is no schema for {quoted(path)}", hint=hint, command=words)
    title = path if path in ON_STDERR else f"olympia {path} --json"
    with session.out(paged=True) as out:
        out.write(render.json_text(session, whole_schema(title, names)) + "\n")
