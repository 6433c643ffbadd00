"""The boundary of the program: every result and error becomes an exit code and at most one line on stderr."""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from itertools import pairwise
from traceback import format_exc
from typing import Any

import typer

from olympia_cli import __version__
from olympia_cli.cli.output.escape import visible
from olympia_cli.cli.talk import about, begin, is_json, tell, tell_document, tell_end
from olympia_cli.errors import OlympiaError, OutOfMemory, RevertConflict
from olympia_cli.masking import masked

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
        tell(one_line(f"error: {message}: {hint}" if hint else f"error: {message}"))


def one_line(text: str) -> str:
    """Return the text as one line, with control characters as visible escapes."""
    return visible(text)


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
    tell(text if is_json() else "\n".join(map(one_line, text.splitlines())))


def _write_traceback(arguments: Sequence[str]) -> str:
    import tempfile

    with tempfile.NamedTemporaryFile("w", prefix="olympia-bug-", suffix=".txt", delete=False) as file:
        # arguments may hold secrets, so only the names of options are kept: `-c` of `-cURI`
        options = [argument for argument in arguments if argument.startswith("-")]
        flags = [option.partition("=")[0] if option.startswith("--") else option[:2] for option in options]
        print(f"olympia {__version__}, Python {sys.version}, {sys.platform}, {flags}", file=file)
        print(masked(format_exc()), end="", file=file)
    return file.name
