"""The program as a process of its own, killed just before it does something: kill -9 leaves no time to tidy up."""

from __future__ import annotations

import signal
import subprocess
import sys

PROGRAM = """
import os, signal, sys
event, below, left = sys.argv[1], sys.argv[2], int(sys.argv[3])
del sys.argv[1:4]

def hook(what, args):
    global left
    if what == event and below in os.fsdecode(args[0]):
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(hook)
from olympia_cli.cli.app import main
sys.exit(main())
"""


def run_killed(*args: object, event: str, number: int, below: str = "") -> None:
    """Killed before the `number`-th call of that name, as Python's audit events have it, for a path with `below`."""
    words = [event, below, str(number), *map(str, args)]
    done = subprocess.run([sys.executable, "-c", PROGRAM, *words], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, f"it ended before it was killed:\n{done.stdout}\n{done.stderr}"
