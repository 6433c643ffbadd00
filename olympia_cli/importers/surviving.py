"""Reading what may end the program: Arrow's reader of ORC follows what a damaged file says out of its memory."""

from __future__ import annotations

import faulthandler
import os
import signal
from collections.abc import Callable
from contextlib import suppress

_SECONDS = 600
"""So long no file of a table takes: a reader that goes round in circles ends then."""


def survives(read: Callable[[], object]) -> bool:
    """Whether a process that reads it lives on: tried by a copy of this one, which has nothing to lose. What it raises,
    it raises again to whoever reads then. MemoryError where the machine has no room for a copy, or ends it."""
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
            # what the reader and Python say of it is nobody's news
            faulthandler.disable()
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)
            read()
        os._exit(0)
    _, status = os.waitpid(copy, 0)
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL:
        # no reader dies of that: a machine that is out of memory ends programs so, whatever they read
        raise MemoryError("it was killed")
    return not os.WIFSIGNALED(status)
