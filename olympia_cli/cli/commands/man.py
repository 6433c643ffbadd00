from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path
from typing import Annotated

import typer

from olympia_cli.cli.app import ALIASES, COMMANDS
from olympia_cli.cli.completion import complete_command
from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption, quoted

EXAMPLES = ["olympia man", "olympia man table show", "olympia man --all ~/.local/share/man/man1"]


def run(
    ctx: typer.Context,
    command: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[COMMAND]...",
            help="A command, such as table show; the program itself if not given.",
            autocompletion=complete_command,
        ),
    ] = None,
    all: Annotated[
        Path | None, typer.Option("--all", metavar="DIR", help="Write all pages to this folder instead.")
    ] = None,
) -> None:
    """Print a manual page.

    On a terminal, the page is shown by man if it is installed. Otherwise its source is printed, in roff.
    """
    from olympia_cli.cli.man_pages import command_page, file_name, program_page

    session = Session(ctx)
    if all is not None:
        if command:
            raise InvalidOption("--all writes every page", hint="leave out the command, or --all")
        _write_all(session, all)
        return
    path = _canonical(command or [])
    if path and path not in COMMANDS:
        members = [name for name in COMMANDS if name.startswith(path + " ")]
        hint = f"there are {', '.join(members)}" if members else "see olympia --help for the commands"
        raise InvalidOption(f"there is no manual page for {quoted(path)}", hint=hint)
    page = command_page(path) if path else program_page()
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, {"name": file_name(path), "page": page})
    elif not (session.is_tty and _shown_by_man(page)):
        with session.out() as out:
            out.write(page)


def _write_all(session: Session, folder: Path) -> None:
    from olympia_cli.cli.man_pages import command_page, file_name, program_page

    pages = {file_name(): program_page(), **{file_name(path): command_page(path) for path in COMMANDS}}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name, page in pages.items():
            (folder / name).write_text(page, encoding="ascii")
    except OSError as error:
        raise InvalidOption(f"cannot write to {folder}: {error.strerror}", hint="choose another folder") from None
    rows = ({"path": str(folder / name)} for name in pages)
    render.records(session, "pages", [Column("path", "PAGE")], rows, name=lambda row: str(row["path"]), title="pages")


def _canonical(words: list[str]) -> str:
    return " ".join(ALIASES.get(word, word) for word in words)


def _shown_by_man(page: str) -> bool:
    """Show the page with man. Return False if man is not installed or fails."""
    if shutil.which("man") is None:
        return False
    environment = dict(os.environ)
    if pager := environment.get("OLYMPIA_PAGER"):
        environment["MANPAGER"] = pager
    return subprocess.run(["man", "-l", "-"], input=page, text=True, env=environment, check=False).returncode == 0
