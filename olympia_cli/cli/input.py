"""What a command is given while it runs: answers to its questions, and files of lines."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TextIO

from olympia_cli.cli.talk import tell
from olympia_cli.errors import InvalidOption, Refused, quoted


def confirm(question: str, yes: bool) -> None:
    """Ask before something is destroyed; where nobody can answer, `--yes` is needed."""
    if yes:
        return
    if not _is_somebody_there():
        raise Refused(
            "this needs to be confirmed, and nobody is there to ask", hint="add --yes, or look first with --dry-run"
        )
    if _answer(f"{question} [y/N] ").lower() not in ("y", "yes"):
        raise Refused("nothing was done", hint="")


def confirm_unknown(what: str, uri: str, hint: str, command: Sequence[str]) -> None:
    """Ask before something is destroyed of which nobody knows how much: a yes typed by habit is not enough, so where
    the catalog is has to be."""
    if not _is_somebody_there():
        raise Refused(what, hint=hint, command=command)
    if _answer(f"{what}. To go on all the same type where the catalog is, {uri}: ") != uri:
        raise Refused("nothing was done", hint=hint, command=command)


def _is_somebody_there() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


def _answer(question: str) -> str:
    tell(question, end="")
    try:
        return sys.stdin.readline().strip()
    except UnicodeDecodeError:
        return ""


@contextmanager
def lines_of(path: str) -> Iterator[TextIO]:
    """A text file; standard input or a pipe is kept in a temporary file, so that it can be read twice."""
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
