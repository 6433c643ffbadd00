"""The pager for long output on a terminal. Output is streamed into it, not collected first."""

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
    """Open a stream into the pager. Closing the pager early ends the output without an error."""
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
                continue  # the pager handles Ctrl-C itself until it ends


def _start(text: str) -> subprocess.Popen[str] | None:
    """Start the pager. Return None if none is needed or it cannot run, so that the output goes to stdout."""
    try:
        command = shlex.split(text)
        if not command or command[0] == "cat" or shutil.which(command[0]) is None:
            return None
        # F: print short output directly; R: colours; X: keep the text on the screen
        environment = {"LESS": "FRX", **os.environ}
        return subprocess.Popen(
            command, stdin=subprocess.PIPE, env=environment, encoding="utf-8", errors="backslashreplace"
        )
    except (ValueError, OSError):
        return None
