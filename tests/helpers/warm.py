"""The program without its start-up: a process that has loaded it, and forks for each run.

Python and packages take ten times as long to load as most commands take. A run is still a process of its own. It gets
its arguments, environment, folder, streams and terminal, and ends like any other process. It shares only loaded modules
with its parent. Tests of the start-up itself, or of Python's own environment variables, start the program for real:
`can_run` tells them apart.

As a program (`python warm.py SOCKET WORD...`) it is a run with its own streams, folder and environment.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module

READ = 1 << 16
BY_SIGNAL = 128
"""And the number of the signal that ended it, as shells have it."""


LOADED = ("cli.app", "catalog.catalog", "ops.inspect.changes", "storage.local", "storage.open")


class Started:
    """A run that is under way, to be asked as a Popen is."""

    def __init__(self, answers: socket.socket) -> None:
        self._answers = answers
        self._said = b""
        self.returncode: int | None = None
        self.pid = self._next()

    def wait(self, timeout: float | None = None) -> int:
        """Return the exit code, which is negative after a signal. Raise TimeoutError if it takes longer."""
        if self.returncode is None:
            self._answers.settimeout(timeout)
            self.returncode = self._next()
            self._answers.close()
        return self.returncode

    def poll(self) -> int | None:
        try:
            return self.wait(0.001)
        except TimeoutError:
            return None

    def send_signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def _next(self) -> int:
        while b"\n" not in self._said:
            self._said += self._answers.recv(READ)
        line, _, self._said = self._said.partition(b"\n")
        return int(line)


def can_run(env: Mapping[str, str]) -> bool:
    """Return whether no variable of the environment is read by Python itself when it starts."""
    return not any(name.startswith(("PYTHON", "LC_")) for name in env)


def start(
    words: Sequence[str],
    streams: tuple[int, int, int],
    env: Mapping[str, str],
    folder: str,
    address: str | None = None,
) -> Started:
    """Run the program with these words. A terminal that is its standard input controls it."""
    asks = socket.socket(socket.AF_UNIX)
    asks.connect(address or serving())
    task = json.dumps({"words": list(words), "env": dict(env), "folder": folder}).encode() + b"\n"
    socket.send_fds(asks, [task[:1]], streams)
    asks.sendall(task[1:])
    return Started(asks)


@cache
def serving() -> str:
    """The socket of a process that forks for this one, and ends with it."""
    import subprocess
    import tempfile

    address = os.path.join(tempfile.mkdtemp(dir="/tmp"), "socket")
    env = {name: value for name, value in os.environ.items() if can_run({name: value})} | {"LANG": "C.UTF-8"}
    command = [sys.executable, __file__, address]
    # the pipe is closed when this process is gone, however it ends
    server = subprocess.Popen(
        command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True, text=True
    )
    assert server.stdout is not None
    assert server.stdout.readline() == "ready\n"
    globals()["_server"] = server
    return address


def serve(address: str) -> None:
    """Fork for each client, until standard input ends."""
    for name in ("rich.console", "rich.progress", "rich.table", *(f"olympia_cli.{name}" for name in LOADED)):
        import_module(name)
    # what is loaded stays, and is not looked through at the end of each run
    gc.freeze()
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(address)
    listening.listen()
    # let the kernel reap the forks of forks
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    print("ready", flush=True)
    while sys.stdin not in select.select([listening, sys.stdin], [], [])[0]:
        asked, _ = listening.accept()
        if os.fork() == 0:
            listening.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            return _run(asked)
        asked.close()
    os.unlink(address)
    os.rmdir(os.path.dirname(address))


def _run(asked: socket.socket) -> None:
    """Fork once more, and say the number of the process and how it ended."""
    task, streams, _, _ = socket.recv_fds(asked, READ, 3)
    while not task.endswith(b"\n"):
        task += asked.recv(READ)
    if (pid := os.fork()) == 0:
        asked.close()
        _become(streams, **json.loads(task))
    for stream in streams:
        os.close(stream)
    asked.sendall(b"%d\n" % pid)
    asked.sendall(b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    os._exit(0)


def _become(streams: Iterable[int], words: list[str], env: dict[str, str], folder: str) -> None:
    import fcntl
    import termios

    from olympia_cli.cli.app import main

    os.setsid()
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    # unless it is the terminal of the client
    with suppress(OSError):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    # as Python opens them, and leaves them open to the end
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        before, lines = getattr(sys, name), number == 2 or os.isatty(number)
        opened = open(number, "w" if number else "r", closefd=False, encoding=before.encoding, errors=before.errors)  # noqa: SIM115
        opened.reconfigure(line_buffering=lines)
        setattr(sys, name, opened)
    sys.argv = ["olympia", *words]
    sys.exit(main())


if __name__ == "__main__":
    if len(sys.argv) == 2:
        serve(sys.argv[1])
    else:
        code = start(sys.argv[2:], (0, 1, 2), os.environ, os.getcwd(), sys.argv[1]).wait()
        sys.exit(code if code >= 0 else BY_SIGNAL - code)
