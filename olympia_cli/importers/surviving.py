"""Read files that may crash the process: on a damaged ORC file, Arrow's reader can follow offsets out of its memory."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable
from contextlib import suppress

_SECONDS = 600
"""Time limit for reading a file of a table: a reader in an endless loop ends then."""


def survives(read: Callable[[], object]) -> bool:
    """Return True if a process survives `read`, tried in a fork of this one. An exception in the fork counts as
    survival: the caller gets it again when it reads. Raise MemoryError if the machine has no memory for a fork, or
    kills it."""
    if not hasattr(os, "fork"):
        return True
    try:
        copy = os.fork()
    except OSError as error:
        raise MemoryError(str(error)) from None
    if copy == 0:
        with suppress(BaseException):
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.alarm(_SECONDS)
            # discard the output of the reader and of Python
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            read()
        os._exit(0)
    _, status = os.waitpid(copy, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        # only a machine that is out of memory kills a process with this signal, whatever it reads
        raise MemoryError("it was killed")
    return not os.WIFSIGNALED(status)
