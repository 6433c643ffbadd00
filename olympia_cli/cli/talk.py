"""Messages on stderr: lines for people, or with `--log-format json` one JSON object per line for log collectors."""

from __future__ import annotations

import io
import os
import shutil
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal, TextIO

from olympia_cli.cli.output.escape import dumps
from olympia_cli.errors import InvalidOption, Refused, quoted
from olympia_cli.masking import masked
from olympia_cli.names import time_text

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
