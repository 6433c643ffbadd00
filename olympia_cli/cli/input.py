"""Input of a command while it runs: answers to its questions, and files of lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from olympia_cli.cli.talk import tell
from olympia_cli.errors import InvalidOption, Refused, quoted


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
    import io
    import shutil
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
