"""Long output on a terminal goes through a pager, as it is made: nothing is collected first."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TextIO, cast


@contextmanager
def pager() -> Iterator[TextIO]:
    """A stream into the pager. Closing the pager early ends the output, and that is no error."""
    process = _start(os.environ.get("OLYMPIA_PAGER") or os.environ.get("PAGER") or "less -FRX")
    if process is None:
        yield sys.stdout
        return
    assert process.stdin is not None
    try:
        yield cast(TextIO, process.stdin)
    except BrokenPipeError:
        pass
    finally:
        with suppress(BrokenPipeError):
            process.stdin.close()
        while True:
            try:
                process.wait()
                break
            except KeyboardInterrupt:
                continue  # the pager handles it, and the terminal is its own until it ends


def _start(text: str) -> subprocess.Popen[str] | None:
    """The pager; None when it is not needed, or cannot be run: output is not lost for want of a pager."""
    try:
        command = shlex.split(text)
        if not command or command[0] == "cat" or shutil.which(command[0]) is None:
            return None
        # F: short output needs no pager; R: colours; X: the text stays on the screen
        environment = {"LESS": "FRX", **os.environ}
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, env=environment, encoding="utf-8", errors="backslashreplace"
        )
    except (ValueError, OSError):
        return None
