"""Commands that are imported when they run. Their names and lines of help come from the table in `app.py`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from olympia_cli.cli.boundary import guarded, run

CONTEXT_SETTINGS = {"help_option_names": ["-h", "--help"]}
HIDDEN = {"__complete": "Complete a command line."}
NEED_NUMPY = {
    *("table create", "table alter", "table files", "table append", "table head"),
    *("expire", "export create", "export verify", "export resume", "export drop", "fsck", "doctor", "serve"),
    *("import olympia", "import deltacat", "import iox", "import parquet", "import iceberg", "rebuild"),
}
"""Commands that may use Spark or PyIceberg, which need pyarrow with numpy. For all others the program hides numpy."""


class LazyCommand(TyperCommand):
    """A placeholder for a command until it is run."""

    def __init__(self, path: str, help: str, hidden: bool = False) -> None:
        super().__init__(name=path.rpartition(" ")[2], help=help, hidden=hidden, rich_markup_mode=None)
        self.path = path

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        return self.load().make_context(info_name, args, parent=parent, **extra)

    def load(self) -> TyperCommand:
        """Import the real command, with the options that every command has."""
        from olympia_cli.cli.params import shared_params

        if self.path in NEED_NUMPY and sys.modules.get("numpy", self) is None:
            del sys.modules["numpy"]
        module = import_module(module_name(self.path))
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        settings: dict[str, Any] = {**CONTEXT_SETTINGS, **getattr(module, "CONTEXT_SETTINGS", {})}
        single.command(self.name, context_settings=settings, epilog=_examples(module))(guarded(module.run))
        command = typer.main.get_command(single)
        assert isinstance(command, TyperCommand)
        command.params.extend(shared_params())
        return command


class Group(TyperGroup):
    """A group of commands; without a command it prints its help."""

    def __init__(self, **attrs: Any) -> None:
        super().__init__(**attrs)
        from olympia_cli.cli.params import shared_params

        self.params.extend(shared_params())

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        from olympia_cli.cli.app import ALIASES

        return self.commands.get(cmd_name) or self.commands.get(ALIASES.get(cmd_name, ""))


class Root(Group):
    """The program, with the groups and commands of the table."""

    def __init__(self, **attrs: Any) -> None:
        from olympia_cli.cli.app import COMMANDS, GROUPS

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
    """Return the module of a command, which its path names."""
    return "olympia_cli.cli.commands." + path.replace(" ", "_").replace("-", "_").strip("_")


def _examples(module: Any) -> str:
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in module.EXAMPLES)
