"""How things are measured: timed, counted, started as processes, and kept to their bounds. Little is imported, because
what a process says of its memory is no less than what the one had that started it."""

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
"""What a request takes, where requests are slow on purpose."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured."""

    tables: tuple[int, ...]
    """How large the catalogs are, the smallest first."""
    versions: tuple[int, ...]
    changes: tuple[int, ...]
    owned: int
    """Tables with a definition of their own, for what reads every file."""
    files: int
    """Files on S3."""
    together: int
    """Tables in one transaction."""
    rounds: int
    seconds: float
    """How long servers and writers are kept busy."""


SIZES = {
    "full": Sizes(
        (1_000, 10_000, 100_000, 1_000_000), (100, 1_000, 10_000), (1, 10, 100, 1_000), 1_000_000, 10_000, 1_000, 9, 8
    ),
    "quick": Sizes((1_000, 10_000, 100_000), (100, 1_000), (1, 10, 100), 10_000, 1_000, 1_000, 3, 2),
    "tiny": Sizes((200, 400), (4, 8), (1, 4), 40, 10, 20, 1, 0.2),
}


@dataclass(frozen=True, slots=True)
class Bench:
    """Where everything is: `folder` is kept between runs, `scratch` is this run's, `peers` is the peers' Python.
    `memory` is kept, too: for catalogs of which every file is read, which no disk should have to find one by one."""

    folder: Path
    scratch: Path
    peers: Path
    sizes: Sizes
    s3: str = ""
    """An S3 server that is there already."""
    memory: Path | None = None

    def kept(self, name: str, make: Callable[[Path], object], *, in_memory: bool = False) -> Path:
        """A folder that is made once. What was written is on disk before anything is measured."""
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
    """What was found: a ratio of times, or what was counted, which does not depend on the weather."""

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
        """By which part of the bound it is missed."""
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
    """The seconds that each takes, the least of some rounds in which they take turns: what else runs on the machine
    meets all of them, and only adds. Work that answers with a number has timed itself."""
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
    """A process, from its start to its end, with the most memory that it had."""
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
    """A process to be measured, and the memory that it had last."""

    def __init__(self, *words: object) -> None:
        self.words = words
        self.mib = 0.0

    def __call__(self) -> float:
        ended = run(*self.words)
        self.mib = ended.mib
        return ended.seconds


def _env() -> dict[str, str]:
    """With bytecode, whatever the environment says: nobody compiles a program at each start."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}


@contextmanager
def conversation(*words: object) -> Any:
    """A process that answers lines of JSON with lines of JSON."""
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
    """The most memory that this process had."""
    status = Path("/proc/self/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) / 1024


def filesystem(folder: Path) -> str:
    """What kind of filesystem a folder is on."""
    return subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True).stdout.strip()


def seconds_text(*seconds: float) -> str:
    """Times for people."""
    units = (("s", 1.0), ("ms", 1e3), ("µs", 1e6))
    chosen = [next((unit for unit in units if one * unit[1] >= 1), units[-1]) for one in seconds]
    return " and ".join(f"{one * factor:,.3g} {unit}" for one, (unit, factor) in zip(seconds, chosen, strict=True))


def ratio(
    what: str, ours: float, theirs: float, most: float | None = None, least: float | None = None, more: str = ""
) -> Figure:
    """A ratio of times: ours to theirs where it is bounded from above, else how many times as fast ours is."""
    value = theirs / ours if least is not None else ours / theirs
    return Figure(what, value, most, least, seconds_text(ours, theirs) + (f"; {more}" if more else ""))


def exponent(sizes: Sequence[float], values: Sequence[float]) -> float:
    """The power of the size that the values grow with: the slope of a line through their logarithms."""
    import math

    xs, ys = [math.log(size) for size in sizes], [math.log(max(value, 1e-9)) for value in values]
    x, y = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((one - x) ** 2 for one in xs)
    return sum((a - x) * (b - y) for a, b in zip(xs, ys, strict=True)) / spread if spread else 0.0
