"""The program `olympia`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from olympia_cli import __version__

app = typer.Typer(rich_markup_mode=None, add_completion=False)


def show_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"olympia {__version__}")
        raise typer.Exit


@app.callback(invoke_without_command=True)
def olympia(
    ctx: typer.Context,
    version: Annotated[
        bool,
        typer.Option("--version", callback=show_version, is_eager=True, help="Show the version and exit."),
    ] = False,
) -> None:
    """Work with catalogs of the Olympia format."""
    if ctx.invoked_subcommand is None:
        typer.echo(ctx.get_help(), err=True)
        raise typer.Exit(2)


def main() -> int:
    """Run the program on sys.argv; the exit code is the result."""
    try:
        return app(prog_name="olympia", standalone_mode=False) or 0
    except typer.TyperException as error:
        print(f"error: {error.format_message().rstrip('.')}: see olympia --help", file=sys.stderr)
        return error.exit_code
