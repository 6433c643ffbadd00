"""The boundary of the program: exit codes, messages on stderr, and answers from the user.

Every result and error becomes an exit code and at most one line on stderr. Messages are lines for people, or with
`--log-format json` one JSON object per line for log collectors.
"""

from __future__ import annotations

import errno
import io
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from traceback import format_exc
from typing import Any, Literal, TextIO

import typer

from olympia_cli import __version__
from olympia_cli.cli.output import dumps, visible
from olympia_cli.errors import InvalidOption, OlympiaError, OutOfMemory, Refused, RevertConflict, quoted
from olympia_cli.masking import masked
from olympia_cli.names import time_text

_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)
_LOOK_AT_LOG = "free some space; a change may have been committed: read the log before you run it again"


INTERRUPTED = 130


class PipeClosed(BaseException):
    """The reader of our output has closed the pipe. Not an Exception, so that no handler takes it for an error."""


def run(call: Callable[[], Any], arguments: Sequence[str]) -> int:
    """Run the program, and translate its result or error into an exit code."""
    _open_what_is_closed()
    _escape_what_the_terminal_cannot_show()
    begin(arguments)
    as_json, debug = _wants_json(arguments), "--debug" in arguments
    try:
        result = call()
        code = result if isinstance(result, int) else 0
        if code == INTERRUPTED:
            tell("interrupted", level="error", exit_code=code)
        sys.stdout.flush()
        tell_end(code)
        return code
    except (PipeClosed, BrokenPipeError):
        _discard_output()
        return 0
    except OlympiaError as error:
        if debug:
            _tell_traceback()
        more: dict[str, Any] = {"command": [*error.program, *error.command]} if error.command else {}
        if isinstance(error, RevertConflict):
            more["conflicts"] = error.conflicts
        report(error.name, error.message, error.hint, error.exit_code, as_json, more)
        return error.exit_code
    except typer.TyperException as error:
        if type(error).__name__ == "NoArgsIsHelpError":
            tell(error.format_message())
        else:
            about(command=_command_of(error))
            # typer lists the choices of a missing argument on separate lines
            message = error.format_message().replace("\n\t", " ").rstrip(".")
            report("Usage", message, _usage_hint(error), 2, as_json)
        return 2
    except (KeyboardInterrupt, typer.Abort):
        tell("interrupted", level="error", exit_code=INTERRUPTED)
        return INTERRUPTED
    except SystemExit as error:
        # typer ends the program with 1 when a help text goes into a closed pipe
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        _discard_output()
        return 0
    except Exception as error:
        if debug:
            _tell_traceback()
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            _discard_output()
            report("StorageFailed", f"the output cannot be written: {error.strerror}", _LOOK_AT_LOG, 30, as_json)
            return 30
        if isinstance(error, MemoryError):
            out_of_memory = OutOfMemory("this machine does not have enough memory for that")
            report(out_of_memory.name, out_of_memory.message, out_of_memory.hint, out_of_memory.exit_code, as_json)
            return out_of_memory.exit_code
        traceback = "this traceback" if debug else _write_traceback(arguments)
        report("Bug", f"a bug: {type(error).__name__}: {error}", f"please send {traceback}", 1, as_json)
        return 1


def report(
    code: str, message: str, hint: str, exit_code: int, as_json: bool, more: Mapping[str, Any] | None = None
) -> None:
    """Print an error as one line on stderr, or with --json as one JSON document, which alone contains `more`.

    A log in JSON has both in one line.
    """
    error = {"code": code, "message": message, "hint": hint, "exit_code": exit_code, **(more or {})}
    if is_json():
        whole: dict[str, Any] = {"error": error} if as_json else {}
        tell(message, level="error", exit_code=exit_code, code=code, hint=hint, **whole)
    elif as_json:
        tell_document({"error": error})
    else:
        tell(visible(f"error: {message}: {hint}" if hint else f"error: {message}"))


def _wants_json(arguments: Sequence[str]) -> bool:
    """Return whether JSON output is requested, even by a command line that cannot be parsed."""
    if "--" in arguments:
        arguments = arguments[: list(arguments).index("--")]
    flags = {"--json", "--output=json", "--output=jsonl", "-ojson", "-ojsonl"}
    pairs = set(pairwise(arguments))
    flag_pairs = {(flag, value) for flag in ("-o", "--output") for value in ("json", "jsonl")}
    return bool(flags & set(arguments) or flag_pairs & pairs)


def _usage_hint(error: Any) -> str:
    ctx = getattr(error, "ctx", None)
    return f"see {ctx.command_path} --help" if ctx is not None else "see olympia --help"


def _command_of(error: Any) -> str | None:
    ctx = getattr(error, "ctx", None)
    return None if ctx is None else str(ctx.command_path).partition(" ")[2] or None


def _open_what_is_closed() -> None:
    """Open streams that the caller closed, so that no file of the catalog gets their descriptors."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115


def _discard_output() -> None:
    """Redirect stdout to nowhere, so that the flush at interpreter exit does not fail again."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):
        return  # stdout is not a real file, so nothing is flushed to it


def _escape_what_the_terminal_cannot_show() -> None:
    """Write escapes for characters that the locale lacks and for file names that are not text, instead of crashing."""
    for stream in (sys.stdout, sys.stderr):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(errors="backslashreplace")


def _tell_traceback() -> None:
    """Print the traceback of the current error with secrets masked; Python would not mask them."""
    text = format_exc().rstrip()
    tell(text if is_json() else "\n".join(map(visible, text.splitlines())))


def _write_traceback(arguments: Sequence[str]) -> str:
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="olympia-bug-", suffix=".txt", delete=False) as file:
        # arguments may hold secrets, so only the names of options are kept: `-c` of `-cURI`
        options = [argument for argument in arguments if argument.startswith("-")]
        flags = [option.partition("=")[0] if option.startswith("--") else option[:2] for option in options]
        print(f"olympia {__version__}, Python {sys.version}, {sys.platform}, {flags}", file=file)
        print(masked(format_exc()), end="", file=file)
    return file.name


# Messages on stderr, as text or as lines of JSON.

Level = Literal["info", "warning", "error"]
FORMATS = ("text", "json")
VARIABLE = "OLYMPIA_LOG_FORMAT"


@dataclass(slots=True)
class _Run:
    """The facts about this run that its messages contain."""

    as_json: bool = False
    command: str | None = None
    catalog: str | None = None
    quiet: bool = False
    ended: bool = False
    color: bool = False


_run = _Run()
_COLORS = {"error": "1;31", "warning": "1;33"}
"""Colours of the first word of a message on a terminal."""


def begin(arguments: Sequence[str]) -> None:
    """Begin a run. The format is read from the raw arguments, so that it also applies to errors of parsing them."""
    global _run
    if "--" in arguments:
        arguments = arguments[: list(arguments).index("--")]
    formats = [word.partition("=")[2] for word in arguments if word.startswith("--log-format=")]
    formats += [value for flag, value in pairwise(arguments) if flag == "--log-format"]
    color = "--no-color" not in arguments and not os.environ.get("NO_COLOR")
    _run = _Run(as_json=(formats[-1] if formats else os.environ.get(VARIABLE)) == "json", color=color)


def about(*, command: str | None = None, catalog: str | None = None, quiet: bool | None = None) -> None:
    """Set facts about this run as they become known."""
    _run.command = command if command is not None else _run.command
    _run.catalog = catalog if catalog is not None else _run.catalog
    _run.quiet = quiet if quiet is not None else _run.quiet


def check_variable() -> None:
    """Raise InvalidOption if the variable for the format has an unknown value."""
    value = os.environ.get(VARIABLE)
    if value and value not in FORMATS:
        raise InvalidOption(f"{VARIABLE} is {value[:60]!a}", hint="use text or json")


def is_json() -> bool:
    """Return whether messages are lines of JSON."""
    return _run.as_json


def tell(text: str, end: str = "\n", *, level: Level = "info", exit_code: int | None = None, **more: Any) -> None:
    """Print a message, with secrets in URIs masked. A closed stderr does not stop the run or change its exit code."""
    _run.ended = _run.ended or exit_code is not None
    text = masked(text)
    if _run.as_json:
        text, end = _line(text, level, exit_code, more), "\n"
    elif _run.color and sys.stderr.isatty():
        word, colon, rest = text.partition(":")
        text = f"\x1b[{_COLORS[word]}m{word}:\x1b[0m{rest}" if colon and word in _COLORS else text
    _print(text, end)


def tell_document(value: Any) -> None:
    """Print a value as one line of JSON, with secrets in URIs masked."""
    _print(dumps(_masked_leaves(value), sys.stderr), "\n")


def hear_libraries() -> None:
    """Print the warnings of libraries like our own messages. Python would print them with all secrets."""
    import logging

    class Warnings(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            tell(f"warning: {record.getMessage()}")

    # this handler gets the records of loggers without handlers
    logging.lastResort = Warnings(logging.WARNING)


def _print(text: str, end: str) -> None:
    with suppress(OSError):
        print(text, end=end, file=sys.stderr, flush=True)


def _masked_leaves(value: Any) -> Any:
    """Mask each text in the value. Masking the encoded document could remove a quote of JSON."""
    if isinstance(value, str):
        return masked(value)
    if isinstance(value, dict):
        return {key: _masked_leaves(item) for key, item in value.items()}
    return [_masked_leaves(item) for item in value] if isinstance(value, list | tuple) else value


def tell_end(exit_code: int) -> None:
    """Print the last line of a JSON log: the end of the run. Omit it after an error, and after success with -q."""
    if _run.as_json and _run.command is not None and not _run.ended and not (_run.quiet and exit_code == 0):
        text = "done" if exit_code == 0 else f"ended with exit code {exit_code}"
        tell(text, level="info" if exit_code == 0 else "warning", exit_code=exit_code)


def _line(text: str, level: Level, exit_code: int | None, more: dict[str, Any]) -> str:
    if text.startswith("warning: "):
        text, level = text.removeprefix("warning: "), "warning"
    elif text.startswith("needs attention: "):
        level = "warning"
    line = {
        "time": time_text(time.time_ns() // 1_000_000),
        "level": level,
        "message": text.strip(),
        "command": _run.command,
        "catalog": None if _run.catalog is None else masked(_run.catalog),
        "exit_code": exit_code,
    }
    return dumps({**line, **_masked_leaves(more)}, sys.stderr)


# Input of a command while it runs: answers to its questions, and files of lines.


def confirm(question: str, yes: bool) -> None:
    """Ask for confirmation before something is destroyed. Without a terminal, `--yes` is needed."""
    if yes:
        return
    if not _can_ask():
        raise Refused(
            "this needs confirmation, and there is no terminal to ask", hint="add --yes, or see the plan with --dry-run"
        )
    if _answer(f"{question} [y/N] ").lower() not in ("y", "yes"):
        raise Refused("nothing was done", hint="")


def confirm_unknown(risk: str, uri: str, hint: str, command: Sequence[str]) -> None:
    """Ask for confirmation if the losses are unknown. The user types the catalog's location, not a yes by habit."""
    if not _can_ask():
        raise Refused(risk, hint=hint, command=command)
    if _answer(f"{risk}. To continue anyway, type the location of the catalog, {uri}: ") != uri:
        raise Refused("nothing was done", hint=hint, command=command)


def _can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _answer(question: str) -> str:
    tell(question, end="")
    try:
        return sys.stdin.readline().strip()
    except UnicodeDecodeError:
        return ""


@contextmanager
def lines_of(path: str) -> Iterator[TextIO]:
    """Open a text file. Standard input and pipes are copied to a temporary file, so that they can be read twice."""
    import tempfile

    try:
        source = sys.stdin.buffer if path == "-" else open(path, "rb")  # noqa: SIM115
        if path == "-" or not source.seekable():
            spool = tempfile.TemporaryFile()  # noqa: SIM115
            shutil.copyfileobj(source, spool)
            spool.seek(0)
            source = spool
    except OSError as error:
        raise InvalidOption(f"{quoted(path, 200)} cannot be read: {error.strerror}", hint="give a file, or -") from None
    with io.TextIOWrapper(source, encoding="utf-8") as file:
        try:
            yield file
        except UnicodeDecodeError:
            raise InvalidOption(f"{quoted(path, 200)} is not UTF-8 text", hint="give JSON lines") from None
