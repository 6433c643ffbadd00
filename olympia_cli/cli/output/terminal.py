"""A terminal's pager for long output, and the progress of long work on stderr."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from olympia_cli.cli.boundary import is_json, tell
from olympia_cli.cli.options import Output
from olympia_cli.cli.output import visible
from olympia_cli.ops.progress import SILENT, Progress

if TYPE_CHECKING:
    from olympia_cli.cli.session import Session

# The pager for long output on a terminal. Output is streamed into it, not collected first.


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


# Progress of long work on stderr: a bar with rate and remaining time on a terminal, else a line every 30 seconds.

EVERY_SECONDS = 30
"""Interval between two lines without a terminal."""

PATIENCE_SECONDS = 10
"""Shorter work prints no lines without a terminal, so that cron sends no mail for it."""


@contextmanager
def shown(session: Session, disabled: bool) -> Iterator[Progress]:
    """Show the progress of this run until the end of the block. Print data after it, because a bar is in the way."""
    as_json = session.output in (Output.JSON, Output.JSONL)
    if disabled or session.quiet or (as_json and not session.verbose and not is_json()):
        yield SILENT
    elif session.verbose and session.metrics is not None:
        yield Phases(session.note)
    elif is_json() or not sys.stderr.isatty() or os.environ.get("TERM") == "dumb":
        yield Lines(lambda text: tell(text if is_json() else visible(text)))
    else:
        bar = Bar(session)
        try:
            yield bar
        finally:
            bar.close()


class Phases:
    """Prints a line at the beginning of each step. On Spark with --verbose, Spark's own bar shows the rest."""

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note

    def phase(self, what: str, total: int | None = None) -> None:
        self._note(what if total is None else f"{what}: {total:,}")

    def advance(self, count: int = 1) -> None:
        pass


class Lines:
    """Prints a line at the beginning of each step of longer work, and one every 30 seconds during a step."""

    def __init__(self, say: Callable[[str], None], now: Callable[[], float] = time.monotonic) -> None:
        self._say = say
        self._now = now
        self._lock = threading.Lock()
        self._what = ""
        self._total: int | None = None
        self._count = 0
        self._first = self._began = self._said = now()

    def phase(self, what: str, total: int | None = None) -> None:
        with self._lock:
            self._what, self._total, self._count = what, total, 0
            self._began = self._said = self._now()
            if self._said - self._first >= PATIENCE_SECONDS:
                self._say(what if total is None else f"{what}: {total:,}")

    def advance(self, count: int = 1) -> None:
        with self._lock:
            self._count += count
            now = self._now()
            if self._what and now - self._said >= EVERY_SECONDS:
                self._said = now
                self._say(self._line(now - self._began))

    def _line(self, seconds: float) -> str:
        rate = self._count / seconds if seconds > 0 else 0.0
        parts = [f"{self._what}: {self._count:,}", f"{rate:,.0f}/s"]
        if self._total:
            parts[0] += f" of {self._total:,} ({100 * self._count // self._total}%)"
            rest = self._total - self._count
            if rate > 0 and rest > 0:
                parts.append(f"{duration(rest / rate)} left")
        return ", ".join(parts)


def duration(seconds: float) -> str:
    """Format a duration in its two largest units: 1h 5m, 2m 3s, 40s."""
    whole = round(seconds)
    hours, minutes = whole // 3600, whole % 3600 // 60
    if hours:
        return f"{hours}h {minutes}m"
    return f"{minutes}m {whole % 60}s" if minutes else f"{whole}s"


class Bar:
    """A progress bar that disappears at the end of the work. Messages on stderr appear above it."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._display: Any = None
        self._task: Any = None
        self._lock = threading.Lock()

    def phase(self, what: str, total: int | None = None) -> None:
        with self._lock:
            if self._display is None:
                self._display = _display(self._session)
                self._display.start()
            elif self._task is not None:
                # show the final count even of a short step
                self._display.refresh()
                self._display.remove_task(self._task)
            self._task = self._display.add_task(visible(what), total=total)

    def advance(self, count: int = 1) -> None:
        if self._task is not None:
            self._display.advance(self._task, count)

    def close(self) -> None:
        if self._display is not None:
            self._display.stop()


def _display(session: Session) -> Any:
    # rich is slow to import, and short work does not need it
    from rich.console import Console
    from rich.progress import BarColumn, ProgressColumn, SpinnerColumn, Task, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as Display
    from rich.text import Text

    class Count(ProgressColumn):
        def render(self, task: Task) -> Text:
            of = "" if task.total is None else f"/{int(task.total):,}"
            speed = task.finished_speed or task.speed
            return Text(f"{int(task.completed):,}{of}" + (f" {speed:,.0f}/s" if speed else ""))

    colors = not session.no_color
    console = Console(
        file=_Deaf(sys.stderr),  # type: ignore[arg-type]
        width=session.width,
        height=25,
        force_terminal=True,
        no_color=not colors,
        color_system="standard" if colors else None,
        markup=False,
        emoji=False,
        highlight=False,
        legacy_windows=False,
    )
    return Display(
        SpinnerColumn("line"),
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=None),
        Count(),
        TimeRemainingColumn(),
        console=console,
        transient=True,
        refresh_per_second=5,
        redirect_stdout=False,
    )


class _Deaf:
    """A stream that ignores errors of a closed stderr, so that the work continues."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)

    def write(self, text: str) -> int:
        with suppress(OSError):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            self._stream.flush()
