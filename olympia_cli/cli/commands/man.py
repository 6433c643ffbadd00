"""`olympia man`: manual pages, from the help, options and examples of the commands, and from the classes of errors.

The source is roff with the `man` macros. It has no dates, so that it changes only when the program does.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import subprocess
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import typer

from olympia_cli import __version__, errors
from olympia_cli.cli.app import ALIASES, COMMANDS, LazyCommand, app, function_and_examples, shared_params
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
        ),
    ] = None,
    all: Annotated[
        Path | None, typer.Option("--all", metavar="DIR", help="Write all pages to this folder instead.")
    ] = None,
) -> None:
    """Print a manual page.

    On a terminal, the page is shown by man if it is installed. Otherwise its source is printed, in roff.
    """
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


# The source of a page

EXIT_CODES = {
    0: "Done.",
    1: "A bug in olympia. Please report it with the traceback; stderr names its file.",
    2: "Usage: wrong arguments, or a name that is not allowed.",
    3: "Partly done. Messages on stderr name the rest, and the next step.",
    10: "Not found.",
    11: "Exists already, or is not empty.",
    12: "Refused.",
    20: "A conflict with another writer.",
    21: "The outcome of the commit is unknown.",
    30: "The store failed.",
    31: "No permission.",
    40: "Unreadable: damaged, or of another format.",
    41: "The version of the format, or a feature of it, is not supported.",
    50: "fsck found damage, now or when it last ran.",
    51: "The catalog or the setup needs attention (status, doctor).",
    130: "Interrupted.",
}

ENVIRONMENT = {
    "OLYMPIA_CATALOG": "Location of the catalog, if -c is not given.",
    "OLYMPIA_PROFILE": "Profile of the config file, if --profile is not given.",
    "OLYMPIA_TIMEOUT": "Timeout of each read, listing or write, if --timeout is not given; 30s by default.",
    "OLYMPIA_CONFIG": "Config file to use instead of the one under FILES.",
    "OLYMPIA_LOG_FORMAT": "Format of stderr, if --log-format is not given: text, or json with one object per line.",
    "OLYMPIA_BY": "Author of commits in the log; user@host by default.",
    "OLYMPIA_PAGER": "Pager for long output on a terminal; cat for none.",
    "PAGER": "Pager if OLYMPIA_PAGER is not set; less -FRX by default.",
    "NO_COLOR": "If it has any value, the output has no colours.",
}

FILES = {
    "$XDG_CONFIG_HOME/olympia/config.toml": (
        "Profiles. Each is a table: catalog is the URI of the catalog, and the table storage has its storage options. "
        "The options also apply to other locations on the same kind of store. The option bucket limits them to the "
        "named buckets, separated by commas, and timeout is that of --timeout. The profile default is used if none is "
        "named. "
        "XDG_CONFIG_HOME is ~/.config if it is not set."
    ),
    "$XDG_CACHE_HOME/olympia/": (
        "Cache of names for the completion, for a few seconds. XDG_CACHE_HOME is ~/.cache if it is not set."
    ),
}

DESCRIPTION = [
    "olympia administers Olympia catalogs: data lake catalogs in plain files, without a server. A catalog holds "
    "namespaces, tables and views. Every commit makes a new version. Every kept version can be read and compared, and "
    "the catalog can be rolled back to it.",
    "The catalog is named by -c, by OLYMPIA_CATALOG or by a profile; flags beat the environment, which beats the file. "
    "It is a folder, or an s3:// or gs:// location. Credentials come from the usual places of the store's "
    "own libraries, and are never printed.",
    "A table or view is named namespace.name. A part with a dot or a double quote is written in double quotes, and a "
    'quote in it is doubled: "a.b".t. The commands of ns take one name, without quotes.',
    "A version is named by its number (12 or v12), by latest, latest~3 or oldest, by a time (2026-11-15, "
    "2026-11-15T20:04:00Z), by a duration ago (2h, 3d), or by the name of an export.",
    "Data goes to stdout, messages go to stderr. On a terminal lists are tables; when piped, each record is a line. "
    "An error is one line on stderr; with --json it is a JSON document, with the name of the error as its code.",
]

PROGRAM_EXAMPLES = [
    "olympia init ./catalog",
    "export OLYMPIA_CATALOG=./catalog",
    "olympia ns create sales",
    "olympia table register sales.orders --metadata-location s3://lake/orders/metadata/00000.json",
    "olympia table ls --at latest~1 --json",
    "olympia log -n 5",
]


def file_name(path: str = "") -> str:
    """Return the file name of a command's page, or of the program's own page."""
    return f"{_page_name(path)}.1"


def program_page() -> str:
    """Return the source of olympia(1)."""
    from typer.main import get_command

    root: Any = get_command(app)
    commands: list[str] = []
    for path, help in COMMANDS.items():
        commands += [".TP", _bold(path), _text(help)]
    return _join(
        _head("", "administer Olympia catalogs"),
        [
            ".SH SYNOPSIS",
            f"{_bold('olympia')} [{_italic('OPTION')}]... {_italic('COMMAND')} [{_italic('ARGUMENT')}]...",
        ],
        _paragraphs("DESCRIPTION", DESCRIPTION),
        [".SH COMMANDS", *commands],
        [".SH OPTIONS", *_options(root.params), *_help_option()],
        [".PP", _text("Every command takes these options except --version, before or after its name.")],
        _end(PROGRAM_EXAMPLES),
        _see_also(_page_name(path) for path in COMMANDS),
    )


def command_page(path: str) -> str:
    """Return the source of a command's page."""
    run, examples = function_and_examples(path)
    command = LazyCommand(path, COMMANDS[path]).load()
    shared = {param.name for param in shared_params()}
    own = [param for param in command.params if param.name not in shared and not getattr(param, "hidden", False)]
    arguments = [param for param in own if param.param_type_name == "argument"]
    options = [param for param in own if param.param_type_name == "option"]
    group = path.rpartition(" ")[0]
    siblings = [other for other in COMMANDS if group and other != path and other.rpartition(" ")[0] == group]
    paragraphs = inspect.cleandoc(run.__doc__ or "").split("\n\n")
    return _join(
        _head(path, _lower(COMMANDS[path].rstrip("."))),
        [".SH SYNOPSIS", _synopsis(path, arguments, options)],
        _paragraphs("DESCRIPTION", paragraphs),
        [".SH ARGUMENTS", *_arguments(arguments)] if arguments else [],
        [".SH OPTIONS", *_options(options), *_help_option()],
        [".SS Options of every command", *_options(shared_params())],
        _end(examples),
        _see_also(["olympia", *(_page_name(other) for other in siblings)]),
    )


# Sections


def _head(path: str, summary: str) -> list[str]:
    name = _page_name(path)
    return [
        '.\\" Made from the program by tools/generate_docs.py.',
        f'.TH {_text(name.upper())} 1 "" "olympia {__version__}" "Olympia manual"',
        # do not hyphenate names, do not justify lines
        ".nh",
        ".ad l",
        ".SH NAME",
        f"{_text(name)} \\- {_text(summary)}",
    ]


def _synopsis(path: str, arguments: Iterable[Any], options: Iterable[Any]) -> str:
    parts = [_bold(f"olympia {path}"), f"[{_italic('OPTION')}]..."]
    parts += [
        f"{_bold(max(option.opts, key=len))} {_italic(_metavar(option))}" for option in options if option.required
    ]
    for argument in arguments:
        placeholder = _italic(_metavar(argument))
        if not argument.required:
            placeholder = f"[{placeholder}]"
        parts.append(placeholder + "..." if argument.nargs == -1 else placeholder)
    return " ".join(parts)


def _paragraphs(title: str, texts: Iterable[str]) -> list[str]:
    lines = [f".SH {title}"]
    for number, text in enumerate(texts):
        lines += [".PP"] * (number > 0)
        # typer marks preformatted lines with this character
        if text.startswith("\b\n"):
            lines += [".EX", *map(_text, text.splitlines()[1:]), ".EE"]
        else:
            lines.append(_text(" ".join(text.split())))
    return lines


def _arguments(arguments: Iterable[Any]) -> Iterator[str]:
    for argument in arguments:
        yield from (".TP", _italic(_metavar(argument)), _text(argument.help or ""))


def _options(options: Iterable[Any]) -> Iterator[str]:
    for option in options:
        names = sorted((*option.opts, *option.secondary_opts), key=len)
        value = "" if option.is_flag or option.count else f" {_italic(_metavar(option))}"
        yield from (".TP", ", ".join(map(_bold, names)) + value, _text(_with_default(option)))


def _help_option() -> list[str]:
    return [".TP", f"{_bold('-h')}, {_bold('--help')}", "Show the help and exit."]


def _with_default(option: Any) -> str:
    help = option.help or ""
    default = option.default
    if option.is_flag or option.required or option.multiple or default is None or callable(default) or default == "":
        return help
    return f"{help} Default: {getattr(default, 'value', default)}."


def _end(examples: Iterable[str]) -> list[str]:
    """Return the sections at the end of every page, except SEE ALSO."""
    lines = [".SH EXIT STATUS"]
    for code in sorted(EXIT_CODES.keys() | _classes_by_code().keys()):
        lines += [".TP", _bold(str(code)), _text(EXIT_CODES.get(code, ""))]
        for error in _classes_by_code().get(code, []):
            lines += [".br", f"{_bold(error.__name__)}: {_text(_summary(error))}"]
    lines.append(".SH ENVIRONMENT")
    for name, meaning in ENVIRONMENT.items():
        lines += [".TP", _bold(name), _text(meaning)]
    lines.append(".SH FILES")
    for name, meaning in FILES.items():
        lines += [".TP", _italic(name), _text(meaning)]
    lines += [".SH EXAMPLES", ".EX"]
    lines += [_text(example) for example in examples]
    return [*lines, ".EE"]


def _see_also(names: Iterable[str]) -> list[str]:
    return [".SH SEE ALSO", ",\n".join(f"{_bold(name)}(1)" for name in names)]


@cache
def _classes_by_code() -> dict[int, list[type[errors.OlympiaError]]]:
    classes: dict[int, list[type[errors.OlympiaError]]] = {}
    for error in vars(errors).values():
        if isinstance(error, type) and issubclass(error, errors.OlympiaError) and error not in errors.FAMILIES:
            classes.setdefault(error.exit_code, []).append(error)
    return classes


# Words


def _page_name(path: str) -> str:
    return "-".join(["olympia", *path.split()])


def _metavar(param: Any) -> str:
    metavar = (param.metavar or _choices(param) or (param.name or "").replace("_", "-").upper()).removesuffix("...")
    return metavar[1:-1] if metavar.startswith("[") and metavar.endswith("]") else metavar


def _choices(param: Any) -> str:
    return "|".join(str(choice) for choice in getattr(param.type, "choices", None) or ())


def _summary(thing: type) -> str:
    return " ".join(inspect.cleandoc(thing.__doc__ or "").split("\n\n")[0].split())


def _lower(text: str) -> str:
    return text[:1].lower() + text[1:]


def _bold(text: str) -> str:
    return f"\\fB{_text(text)}\\fR"


def _italic(text: str) -> str:
    return f"\\fI{_text(text)}\\fR"


_SPECIAL = str.maketrans(
    {"\n": " ", "\\": "\\e", "-": "\\-", "'": "\\(aq", '"': "\\(dq", "`": "\\(ga", "^": "\\(ha", "~": "\\(ti"}
)


def _text(text: str) -> str:
    """Escape a text for roff; words in backquotes are bold."""
    parts = re.split(r"`([^`]+)`", text)
    source = "".join(f"\\fB{_letters(part)}\\fR" if at % 2 else _letters(part) for at, part in enumerate(parts))
    # roff takes a line that begins with a dot for a request
    return "\\&" + source if source.startswith(".") else source


def _letters(text: str) -> str:
    source = text.translate(_SPECIAL)
    return source if source.isascii() else re.sub(r"[^\x00-\x7f]", lambda match: f"\\[u{ord(match[0]):04X}]", source)


def _join(*sections: Iterable[str]) -> str:
    return "\n".join(line for section in sections for line in section if line) + "\n"
