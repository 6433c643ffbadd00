"""The program `olympia`: the table of its commands.

A command's module is imported when the command runs, not before, so that help, completion and errors of usage cost
little more than Python's start.
"""

from __future__ import annotations

import contextlib
import os
from typing import Annotated

import typer

from olympia_cli import __version__
from olympia_cli.cli.boundary import INTERRUPTED
from olympia_cli.cli.lazy import Root

COMMANDS = {
    "init": "Create a catalog.",
    "ns create": "Create a namespace.",
    "ns ls": "List the namespaces.",
    "ns show": "Show a namespace.",
    "ns alter": "Set and unset properties of a namespace.",
    "ns rename": "Rename a namespace with all that is in it.",
    "ns drop": "Drop a namespace.",
    "ns restore": "Bring back a namespace with its tables and views.",
    "table create": "Create an Iceberg table.",
    "table register": "Register an Iceberg table by its metadata location.",
    "table ls": "List tables.",
    "table show": "Show a table.",
    "table alter": "Change a table's properties, columns or metadata location.",
    "table rename": "Rename a table.",
    "table drop": "Drop a table; its data stays.",
    "table restore": "Bring back a dropped or older table.",
    "table history": "Show all revisions of a table, through renames.",
    "table files": "List the data and delete files of tables.",
    "table append": "Append the rows of files to a table.",
    "table head": "Show some rows of a table.",
    "view create": "Create a view.",
    "view replace": "Replace a view's definition.",
    "view ls": "List views.",
    "view show": "Show a view.",
    "view alter": "Set and unset properties of a view.",
    "view rename": "Rename a view.",
    "view drop": "Drop a view.",
    "view restore": "Bring back a dropped or older view.",
    "txn begin": "Begin a distributed transaction.",
    "txn ls": "List the distributed transactions.",
    "txn show": "Show what a distributed transaction has staged.",
    "txn commit": "Commit a distributed transaction.",
    "txn abort": "Give up a distributed transaction.",
    "apply": "Make many changes as one transaction, from JSON lines.",
    "log": "Show the action log, newest first.",
    "diff": "Show what changed between two versions.",
    "time-travel": "Show the catalog as it was.",
    "rollback": "Put the catalog back to an older version.",
    "revert": "Take back what a version did, and keep what came after.",
    "expire": "Take old versions out of history, and later their files out of the store.",
    "export create": "Copy a version to another place.",
    "export ls": "List the exports.",
    "export verify": "Check that an export is whole.",
    "export resume": "Go on with an export that was interrupted.",
    "export drop": "Forget an export.",
    "import olympia": "Bring another catalog in: its namespaces, tables and views.",
    "import deltacat": "Bring a DeltaCAT catalog in: its namespaces, and its tables as Iceberg tables.",
    "import iox": "Register the tables of a preserved catalog of IOx, where their files are.",
    "import parquet": "Register Parquet files as Iceberg tables, where they are.",
    "import iceberg": "Register the tables of another Iceberg catalog, or below a prefix.",
    "rebuild": "Make a catalog from definitions and metadata files alone.",
    "promote": "Put a copy of the catalog in the catalog's place.",
    "fsck": "Check that the catalog is whole.",
    "dump-node": "Show one node file, even a damaged one.",
    "tree": "Draw the tree of node files.",
    "status": "Show how the catalog is doing.",
    "doctor": "Look for what keeps the program from working well here.",
    "compact": "Rewrite the tree to a fill factor.",
    "catalog show": "Show the catalog's definition.",
    "catalog alter": "Change the catalog's properties, lifetime or isolation.",
    "config show": "Show the settings in effect, and where each comes from.",
    "schema": "Print the JSON Schema of a command's --json.",
    "serve": "Serve the catalog over HTTP: Iceberg's REST API, and a page.",
    "completion": "Print the completion script for a shell.",
    "man": "Print a manual page.",
}
"""Every command and its line of help, which is the first line of its docstring."""

GROUPS = {
    "ns": "Namespaces.",
    "table": "Tables.",
    "view": "Views.",
    "txn": "Distributed transactions.",
    "export": "Copies of versions at other places.",
    "import": "Tables that exist elsewhere.",
    "catalog": "The catalog itself.",
    "config": "Settings and profiles.",
}

ALIASES = {"namespace": "ns", "list": "ls", "describe": "show", "rm": "drop", "mv": "rename", "at": "time-travel"}
"""Other words for the same, accepted and not shown."""

app = typer.Typer(
    cls=Root,
    rich_markup_mode=None,
    add_completion=False,
    no_args_is_help=True,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback()
def olympia(
    ctx: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Show the version and exit.")] = False,
) -> None:
    """Administer Olympia catalogs: data lake catalogs in plain files, without a server."""
    if version:
        typer.echo(f"olympia {__version__}")
        raise typer.Exit
    if ctx.invoked_subcommand is None:
        ctx.fail("Missing command.")


def main() -> int:
    """Run the program on sys.argv; the exit code is the result."""
    code = int(app(standalone_mode=False))
    if code == INTERRUPTED:
        with contextlib.suppress(OSError, ValueError):
            print(end="", flush=True)
        # who presses Ctrl-C does not wait for threads that ask a store which does not answer
        os._exit(code)
    return code
