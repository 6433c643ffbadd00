"""The program `olympia`: the table of its commands, and the options that every command has.

A command's module is imported when the command runs, not before, so that help, completion and errors of usage cost
little more than Python's start.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Sequence
from functools import cache, wraps
from importlib import import_module
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from olympia_cli import __version__
from olympia_cli.cli.boundary import INTERRUPTED, PipeClosed, run
from olympia_cli.cli.options import LogFormat, Output
from olympia_cli.errors import OlympiaError

# Commands that are imported when they run. Their names and lines of help come from the table in `app.py`.

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}
HIDDEN = {"__complete": "Complete a command line."}
NEED_NUMPY = {
    *("table create", "table alter", "table files", "table append", "table head"),
    *("expire", "export create", "export verify", "export resume", "fsck", "doctor", "serve"),
    *("import deltacat", "import iox", "import parquet", "import iceberg"),
}
"""Commands that may use Spark or PyIceberg, which need pyarrow with numpy. For all others the program hides numpy."""


class LazyCommand(TyperCommand):
    """A placeholder for a command until it is run."""

    def __init__(self, path: str, help: str, hidden: bool = False) -> None:
        super().__init__(name=path.rpartition(" ")[2], help=help, hidden=hidden, rich_markup_mode=None)
        self.path = path

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.load().make_context(info_name, args, parent=parent, **extra)

    def get_short_help_str(self, limit: int = 0) -> str:
        """Return the line of help as a whole, which is short."""
        return self.help or ""

    def load(self) -> TyperCommand:
        """Import the real command, with the options that every command has."""
        if self.path in NEED_NUMPY and sys.modules.get("numpy", self) is None:
            del sys.modules["numpy"]
        run, examples = function_and_examples(self.path)
        epilog = "\b\nExamples:\n" + "\n".join(f"  {line}" for line in examples)
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(self.name, context_settings=CONTEXT_SETTINGS, epilog=epilog)(guarded(run))
        command = typer.main.get_command(single)
        assert isinstance(command, TyperCommand)
        command.params.extend(shared_params())
        return command


class Group(TyperGroup):
    """A group of commands; without a command it prints its help."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)

        self.params.extend(shared_params())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        return self.commands.get(cmd_name) or self.commands.get(ALIASES.get(cmd_name, ""))


class Program(Group):
    """The program, with the groups and commands of the table."""

    def __init__(self, **attrs: Any) -> None:
        attrs["commands"] = commands(COMMANDS, GROUPS)
        super().__init__(**attrs)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run the program through the boundary, so that exit codes are the same for every caller."""
        arguments = list(sys.argv[1:] if args is None else args)
        code = run(lambda: TyperGroup.main(self, arguments, "olympia", standalone_mode=False, **extra), arguments)
        if standalone_mode:
            sys.exit(code)
        return code


def guarded(command: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap a command: a closed pipe ends the program quietly (typer makes it exit code 1), and advice is completed."""

    @wraps(command)
    def run(ctx: typer.Context, **kwargs: Any) -> Any:
        try:
            return command(ctx, **kwargs)
        except BrokenPipeError:
            raise PipeClosed from None
        except OlympiaError as error:
            from olympia_cli.cli.advice import complete

            complete(error, ctx)
            raise

    return run


def commands(table: dict[str, str], groups: dict[str, str]) -> dict[str, Any]:
    """Return the commands in the order of the table."""
    members: dict[str, Any] = {}
    for path, help in {**table, **HIDDEN}.items():
        group, _, name = path.rpartition(" ")
        command = LazyCommand(path, help, hidden=path in HIDDEN)
        if not group:
            members[name] = command
            continue
        if group not in members:
            members[group] = Group(
                name=group,
                help=groups[group],
                no_args_is_help=True,
                context_settings=CONTEXT_SETTINGS,
                rich_markup_mode=None,
            )
        members[group].add_command(command)
    return members


def module_name(path: str) -> str:
    """Return the module of a command, which is named by the command or by its group."""
    word = OWN_MODULES.get(path) or path.partition(" ")[0].replace("-", "_")
    return f"olympia_cli.cli.commands.{word}{'_' if iskeyword(word) else ''}"


def function_and_examples(path: str) -> tuple[Callable[..., None], Sequence[str]]:
    """Return the function of a command, and its examples. In a module of several commands, the verb names both."""
    module, verb = import_module(module_name(path)), path.rpartition(" ")[2].strip("_")
    if isinstance(module.EXAMPLES, dict):
        return getattr(module, verb), module.EXAMPLES[verb]
    return module.run, module.EXAMPLES


COMMANDS = {
    "init": "Create a catalog.",
    "ns create": "Create a namespace.",
    "ns ls": "List the namespaces.",
    "ns show": "Show a namespace.",
    "ns alter": "Set and unset properties of a namespace.",
    "ns rename": "Rename a namespace with its tables and views.",
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
    "txn show": "Show the staged changes of a distributed transaction.",
    "txn commit": "Commit a distributed transaction.",
    "txn abort": "Abort a distributed transaction.",
    "apply": "Make many changes as one transaction, from JSON lines.",
    "log": "Show the action log, newest first.",
    "diff": "Show what changed between two versions.",
    "time-travel": "Show the objects of an older version.",
    "rollback": "Return the catalog to an older version.",
    "revert": "Undo the changes of a version, and keep later changes.",
    "expire": "Remove old versions from history, and later their files from the store.",
    "export create": "Copy a version to another place.",
    "export ls": "List the exports.",
    "export verify": "Check that an export is sound.",
    "export resume": "Continue an interrupted export.",
    "export drop": "Forget an export.",
    "import olympia": "Import another catalog: its namespaces, tables and views.",
    "import deltacat": "Import a DeltaCAT catalog: its namespaces, and its tables as Iceberg tables.",
    "import iox": "Register the tables of a preserved IOx catalog; their files stay where they are.",
    "import parquet": "Register Parquet files as Iceberg tables; the files stay where they are.",
    "import iceberg": "Register the tables of another Iceberg catalog, or below a prefix.",
    "rebuild": "Make a catalog from definitions and metadata files alone.",
    "promote": "Put a copy of the catalog in the catalog's place.",
    "fsck": "Check that the catalog is sound.",
    "dump-node": "Show one node file, even a damaged one.",
    "tree": "Draw the tree of node files.",
    "status": "Show the health of the catalog.",
    "doctor": "Diagnose the local setup.",
    "compact": "Rewrite the tree to a fill factor.",
    "catalog show": "Show the catalog's definition.",
    "catalog alter": "Change the catalog's properties, lifetime or isolation.",
    "config show": "Show the settings in effect, and where each comes from.",
    "schema": "Print the JSON Schema of a command's --json.",
    "serve": "Serve the catalog over HTTP: Iceberg's REST API, and a page.",
    "completion": "Print the completion script for a shell.",
    "man": "Print a manual page.",
}
"""Every command with its line of help, which is the first line of its docstring."""

GROUPS = {
    "ns": "Create, list, show and change namespaces.",
    "table": "Create, list, show and change tables.",
    "view": "Create, list, show and change views.",
    "txn": "Work with distributed transactions.",
    "export": "Copy versions to other places, and check the copies.",
    "import": "Import tables from other catalogs and from files.",
    "catalog": "Show and change the definition of the catalog.",
    "config": "Show the settings.",
}

OWN_MODULES = {"table files": "table_files", "__complete": "completion"}
"""Commands that are not in the module of their group or name."""

ALIASES = {"namespace": "ns", "list": "ls", "describe": "show", "rm": "drop", "mv": "rename", "at": "time-travel"}
"""Synonyms of command names; accepted, but not shown."""

# Options of every command. They stand before or after its name.


def _shared(
    catalog: Annotated[
        str | None,
        typer.Option("--catalog", "-c", metavar="URI", help="Catalog: a folder, s3://…, gs://… [OLYMPIA_CATALOG]"),
    ] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", metavar="NAME", help="Profile of the config file. [OLYMPIA_PROFILE]")
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            "--timeout",
            metavar="DURATION",
            help="Timeout of each read, listing or write, with its retries; 30s by default. [OLYMPIA_TIMEOUT]",
        ),
    ] = None,
    output: Annotated[
        Output | None, typer.Option("--output", "-o", help="Format of the output: table, wide, name, json, jsonl, csv.")
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Short for --output json.")] = False,
    quiet: Annotated[
        bool,
        typer.Option("--quiet", "-q", help="Print only data, warnings and errors, and no verdict when all is well."),
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Print more messages.")] = False,
    no_color: Annotated[bool, typer.Option("--no-color", help="Print no colours. [NO_COLOR]")] = False,
    no_progress: Annotated[bool, typer.Option("--no-progress", help="Show no progress bars.")] = False,
    log_format: Annotated[
        LogFormat | None,
        typer.Option(
            "--log-format", help="Format of stderr: text, or json with one object per line. [OLYMPIA_LOG_FORMAT]"
        ),
    ] = None,
    csv_safe: Annotated[
        bool,
        typer.Option("--csv-safe", help="In CSV, put ' before cells that a spreadsheet would take for a formula."),
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Declare the options of every command; see `remember`."""


@cache
def shared_params() -> list[Any]:
    """Return the options of every command. They store their values instead of passing them to the command."""
    single = typer.Typer(add_completion=False)
    single.command()(_shared)
    params = [param for param in typer.main.get_command(single).params if param.name != "help"]
    for param in params:
        param.expose_value = False
        param.callback = remember
    return params


def remember(ctx: Any, param: Any, value: Any) -> Any:
    """Store a value from the command line. Options after the command are parsed last, so they win."""
    source = ctx.get_parameter_source(param.name)
    if source is not None and source.name == "COMMANDLINE":
        ctx.meta[f"olympia.{param.name}"] = value
    return value


app = typer.Typer(
    cls=Program,
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
    """Run the program on sys.argv, and return the exit code."""
    code = int(app(standalone_mode=False))
    if code == INTERRUPTED:
        with contextlib.suppress(OSError, ValueError):
            print(end="", flush=True)
        # after Ctrl-C, do not wait for threads that ask a store which does not answer
        os._exit(code)
    return code
