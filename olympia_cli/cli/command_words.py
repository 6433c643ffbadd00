"""Candidates for the word at the cursor of a command line: commands, options and values.

The command line is still being typed, so nothing in it is an error: a word that makes no sense has no candidates.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any, Literal, NamedTuple

import typer
from typer.core import TyperGroup

from olympia_cli.cli import completion
from olympia_cli.cli.app import LazyCommand


class Candidates(NamedTuple):
    """Matching words with their help, or a request that the shell offers its files or folders."""

    words: Sequence[tuple[str, str]] = ()
    kind: Literal["words", "files", "folders"] = "words"
    after: str = ""
    """The part of the word before a file or folder: `--option=`."""


NOTHING = Candidates()
FILES = Candidates(kind="files")
FOLDERS = Candidates(kind="folders")

# for options without a completion function: the metavar tells the kind of value
_BY_METAVAR: dict[str, Callable[[typer.Context, str], list[str]]] = {
    "REF": completion.complete_reference,
    "ID": completion.complete_transaction,
    "NS": completion.complete_namespace,
    "NS.T": completion.complete_table,
    "NS.V": completion.complete_view,
    "NS[.T]": completion.complete_object,
    "LEVEL": lambda ctx, incomplete: [word for word in ("snapshot", "serializable") if word.startswith(incomplete)],
}


def candidates(root: Any, before: Sequence[str], incomplete: str) -> Candidates:
    """Return the words that may follow the words before, and begin with the incomplete one."""
    line = _Line(root)
    for word in before:
        if not line.read(word):
            return NOTHING
    return line.candidates(incomplete)


class _Line:
    """Parses the words before the cursor."""

    def __init__(self, root: Any) -> None:
        self.own_params: dict[str, Any] = {}
        self.shared: dict[str, Any] = {}
        self.arguments: list[str] = []
        # the option whose value is the next word
        self.waiting: Any = None
        self.only_arguments = False
        self._enter(root)

    def read(self, word: str) -> bool:
        """Read the next word. Return False if it makes no sense here."""
        if self.waiting is not None:
            self._give(self.waiting, word)
            self.waiting = None
        elif self.only_arguments or not word.startswith("-") or word == "-":
            return self._read_argument(word)
        elif word == "--":
            self.only_arguments = True
        else:
            option, _, value = self._option_in(word)
            if option is not None and value is None:
                self.waiting = option
            elif option is not None:
                self._give(option, value)
        return True

    def candidates(self, incomplete: str) -> Candidates:
        if self.waiting is not None:
            return self._values(self.waiting, incomplete)
        if incomplete.startswith("-") and not self.only_arguments:
            option, written, value = self._option_in(incomplete)
            if option is None or (not value and "=" not in incomplete):
                return self._option_names(incomplete)
            matches = self._values(option, value or "")
            words = tuple((written + word, help) for word, help in matches.words)
            return Candidates(words, matches.kind, written)
        if isinstance(self.command, TyperGroup):
            return Candidates(
                [
                    (name, command.get_short_help_str(200))
                    for name, command in self.command.commands.items()
                    if name.startswith(incomplete) and not command.hidden
                ]
            )
        for number, argument in enumerate(p for p in self.command.params if p.param_type_name == "argument"):
            if number == len(self.arguments) or argument.nargs == -1:
                matches = self._values(argument, incomplete)
                # before --, a name that begins with - would be read as an option
                plain = tuple(entry for entry in matches.words if self.only_arguments or not entry[0].startswith("-"))
                return matches._replace(words=plain)
        return NOTHING

    def _enter(self, command: Any) -> None:
        self.command: Any = command.load() if isinstance(command, LazyCommand) else command
        self.options: dict[str, Any] = {
            name: param
            for param in self.command.get_params(self._context())
            if param.param_type_name == "option"
            for name in (*param.opts, *param.secondary_opts)
        }
        self.only_arguments = False

    def _read_argument(self, word: str) -> bool:
        if not isinstance(self.command, TyperGroup):
            self.arguments.append(word)
            return True
        command = self.command.get_command(self._context(), word)
        if command is not None:
            self._enter(command)
        return command is not None

    def _option_in(self, word: str) -> tuple[Any, str, str | None]:
        """Return the option in this word that takes a value, its text in the word, and the value if there is one."""
        if word.startswith("--"):
            name, equals, value = word.partition("=")
            option = self._known(name)
            return (option, name + equals, value if equals else None) if _takes_value(option) else (None, "", None)
        for at, letter in enumerate(word[1:], 2):
            option = self._known("-" + letter)
            if option is None:
                break
            if _takes_value(option):
                return option, word[:at], word[at:] or None
        return None, "", None

    def _known(self, name: str) -> Any:
        option = self.options.get(name)
        if option is not None and not _takes_value(option):
            self._give(option, True)
        return option

    def _give(self, option: Any, value: Any) -> None:
        # shared options keep their values in the context; see params.remember
        (self.own_params if option.expose_value else self.shared)[option.name] = value

    def _option_names(self, incomplete: str) -> Candidates:
        used_names = self.own_params.keys() | self.shared.keys()
        return Candidates(
            [
                (name, option.help or "")
                for name, option in self.options.items()
                if name.startswith(incomplete)
                and not option.hidden
                and (option.multiple or option.name not in used_names or name == incomplete)
            ]
        )

    def _values(self, param: Any, incomplete: str) -> Candidates:
        metavar = (param.metavar or "").removesuffix("...")
        if metavar.startswith("[") and metavar.endswith("]"):
            metavar = metavar[1:-1]
        ctx = self._context()
        if getattr(param, "_custom_shell_complete", None) is not None:
            return Candidates([(item.value, item.help or "") for item in param.shell_complete(ctx, incomplete)])
        if choices := getattr(param.type, "choices", None):
            return Candidates([(str(word), "") for word in choices if str(word).startswith(incomplete)])
        if param.name == "profile":
            return Candidates([(word, "") for word in completion.complete_profile(ctx, incomplete)])
        if completer := _BY_METAVAR.get(metavar):
            return Candidates([(word, "") for word in completer(ctx, incomplete)])
        if metavar == "URI":
            # locations in buckets are not completed
            return NOTHING if "://" in incomplete else FOLDERS if param.name in ("catalog", "uri") else FILES
        if metavar in ("DIR", "FOLDER", "DEST"):
            return FOLDERS
        return FILES if metavar.startswith("FILE") or param.type.name in ("path", "file", "filename") else NOTHING

    def _context(self) -> typer.Context:
        settings = self.command.context_settings
        ctx = typer.Context(self.command, info_name=self.command.name, resilient_parsing=True, **settings)
        ctx.params.update(self.own_params)
        ctx.args = list(self.arguments)
        for name, value in self.shared.items():
            ctx.meta[f"olympia.{name}"] = os.path.expandvars(value) if name == "catalog" else value
        return ctx


def _takes_value(option: Any) -> bool:
    return option is not None and not option.is_flag and not option.count
