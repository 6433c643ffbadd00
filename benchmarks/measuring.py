"""Time, count and start processes, and compare results with their bounds.

This module imports little: the memory that a process reports is at least that of its parent.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).parents[1]
BIN = Path(sys.executable).parent
ROUND_TRIP = 0.02
"""Seconds of a request to a store that is slow on purpose."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """The sizes of what is measured."""

    tables: tuple[int, ...]
    """Numbers of tables per catalog, smallest first."""
    versions: tuple[int, ...]
    changes: tuple[int, ...]
    owned: int
    """Tables with their own definitions, for benchmarks that read every file."""
    files: int
    """Files on S3."""
    together: int
    """Tables in one transaction."""
    rounds: int
    seconds: float
    """Seconds for which servers and writers are kept busy."""


SIZES = {
    "full": Sizes(
        (1_000, 10_000, 100_000, 1_000_000), (100, 1_000, 10_000), (1, 10, 100, 1_000), 1_000_000, 10_000, 1_000, 9, 8
    ),
    "quick": Sizes((1_000, 10_000, 100_000), (100, 1_000), (1, 10, 100), 10_000, 1_000, 1_000, 3, 2),
    "tiny": Sizes((200, 400), (4, 8), (1, 4), 40, 10, 20, 1, 0.2),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """Folders and settings of a run: `folder` is kept between runs, `scratch` belongs to this run, `peers` is the
    Python with the peers. `memory` is kept, too: it is for catalogs of which every file is read, because a disk would
    have to find each file."""

    folder: Path
    scratch: Path
    peers: Path
    sizes: Sizes
    s3: str = ""
    """URL of an S3 server that runs already."""
    memory: Path | None = None

    def kept(self, name: str, make: Callable[[Path], object], *, in_memory: bool = False) -> Path:
        """Return a folder that is made once. Its files are on disk before anything is measured."""
        place = self.memory if in_memory and self.memory is not None else self.folder
        folder = place / name
        if not folder.exists():
            part = place / self.scratch.name / f"{name}.part"
            part.parent.mkdir(exist_ok=True)
            make(part)
            part.rename(folder)
            os.sync()
        return folder


@dataclass(frozen=True, slots=True)
class Figure:
    """A result: a ratio of times, or a count, which does not depend on the load of the machine."""

    what: str
    value: float
    most: float | None = None
    least: float | None = None
    detail: str = ""
    counted: bool = False
    unit: str = "×"

    @property
    def bound(self) -> str:
        if self.most is not None:
            return f"≤ {self.most:,.4g}{self.unit}"
        return "" if self.least is None else f"≥ {self.least:,.4g}{self.unit}"

    @property
    def shown(self) -> str:
        return f"{self.value:,.0f}{self.unit}" if self.counted or self.value >= 100 else f"{self.value:.2f}{self.unit}"

    @property
    def missed(self) -> float:
        """The part of the bound by which it is missed."""
        if self.most is not None:
            return max(0.0, self.value / self.most - 1 if self.most else self.value)
        return 0.0 if self.least is None else max(0.0, 1 - self.value / self.least)

    @property
    def verdict(self) -> str:
        if self.most is None and self.least is None:
            return ""
        if not self.missed:
            return "met"
        return "**broken**" if self.counted else f"missed by {self.missed:.0%}"


def count(what: str, value: float, most: float | None = None, detail: str = "", least: float | None = None) -> Figure:
    return Figure(what, value, most, least, detail, counted=True, unit="")


def best(*works: Callable[[], object], rounds: int, number: int = 1) -> list[float]:
    """Return the seconds of each work: the fastest of some rounds. The works take turns in each round, because other
    programs on the machine slow all of them down, and only add time. Work that returns a number has measured itself."""
    least = [float("inf")] * len(works)
    for _ in range(rounds):
        for at, work in enumerate(works):
            start = time.perf_counter()
            said = [work() for _ in range(number)][-1]
            took = said if isinstance(said, float) else (time.perf_counter() - start) / number
            least[at] = min(least[at], took)
    return least


@dataclass(frozen=True, slots=True)
class Ended:
    """A process that has ended."""

    seconds: float
    mib: float
    out: str


def run(*words: object) -> Ended:
    """Run a process to its end, and measure its time and its peak memory."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        start = time.perf_counter()
        process = subprocess.Popen(
            [str(word) for word in words], stdin=subprocess.DEVNULL, stdout=out, stderr=errors, env=_env(), cwd=HERE
        )
        _, status, used = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{words} ended with {process.returncode}: {errors.read().decode()[-2000:]}")
        return Ended(seconds, used.ru_maxrss / 1024, out.read().decode())


class Started:
    """A process to measure, and the peak memory of its last run."""

    def __init__(self, *words: object) -> None:
        self.words = words
        self.mib = 0.0

    def __call__(self) -> float:
        ended = run(*self.words)
        self.mib = ended.mib
        return ended.seconds


def _env() -> dict[str, str]:
    """Return the environment with bytecode enabled: without it, each start would compile the program."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextmanager
def conversation(*words: object) -> Any:
    """Start a process that answers lines of JSON with lines of JSON."""
    process = subprocess.Popen(
        [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_env(), cwd=HERE
    )
    assert process.stdin is not None
    assert process.stdout is not None

    def ask(**task: Any) -> Any:
        process.stdin.write(json.dumps(task) + "\n")
        process.stdin.flush()
        return json.loads(process.stdout.readline())

    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait(60)


def peak_mib() -> float:
    """Return the peak memory of this process."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def filesystem(folder: Path) -> str:
    """Return the type of a folder's filesystem."""
    return subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()


def seconds_text(*seconds: float) -> str:
    """Return times with units."""
    units = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))
    chosen = [next((unit for unit in units if one * unit[1] >= 1), units[-1]) for one in seconds]
    return " and ".join(f"{one * factor:,.3g} {unit}" for one, (unit, factor) in zip(seconds, chosen, strict=True))


def ratio(
    what: str, ours: float, theirs: float, most: float | None = None, least: float | None = None, more: str = ""
) -> Figure:
    """Return a ratio of times: ours to theirs for an upper bound, else the speed-up, theirs to ours."""
    value = theirs / ours if least is not None else ours / theirs
    return Figure(what, value, most, least, seconds_text(ours, theirs) + (f"; {more}" if more else ""))


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """Return the exponent with which the values grow: the slope of a line through their logarithms."""
    import math

    xs, ys = [math.log(size) for size in sizes], [math.log(max(value, 1e-9)) for value in values]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((one - x) ** 2 for one in xs)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread if spread else 0.0
