"""What a command costs before it does anything: whole processes, as ratios within one run.

    python benchmarks/cli.py [--tables 1000000]

Each figure is the best of several runs; the yardsticks are Python processes that only import what cannot be avoided.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from olympia_cli.storage.local import LocalStore
from tests.helpers.big_catalog import make_big_catalog

OLYMPIA = [str(Path(sys.executable).parent / "olympia")]
BARE = "import typer"
FULL = "import typer, rich.table, pyarrow, google.protobuf.descriptor_pool"


def best(command: list[str], runs: int = 15) -> float:
    seconds = []
    for _ in range(runs):
        start = time.perf_counter()
        subprocess.run(command, capture_output=True, check=False)
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def cpu(command: list[str], runs: int = 15) -> float:
    """Seconds of CPU that a process takes, the least of several: what else runs on the machine adds to it."""
    seconds = []
    for _ in range(runs):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, capture_output=True, check=False)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    return min(seconds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=1_000_000)
    tables = parser.parse_args().tables
    bare, full = (best([sys.executable, "-c", code]) for code in (BARE, FULL))
    print("| command | bound | here |\n| --- | --- | --- |")
    for words in ("--help", "ns --help", "nope", "table show", "__complete bash -- olympia ta"):
        print(f"| `olympia {words}` | 1.6 × `{BARE}` | {best([*OLYMPIA, *words.split()]) / bare:.2f} |")
    with tempfile.TemporaryDirectory() as folder:
        make_big_catalog(LocalStore(Path(folder) / "catalog", durable=False), 100, tables // 100)
        at = ["-c", str(Path(folder) / "catalog")]
        name = f"ns000050.table{tables // 200:06}"
        for words in (f"table show {name}", "ns ls", "table ls ns000007", "log -n 20"):
            ratio = best([*OLYMPIA, *at, *words.split()]) / full
            bound = f"1.5 × `{FULL}`" if words.startswith("table show") else ""
            print(f"| `olympia {words}`, {tables:,} tables | {bound} | {ratio:.2f} |")
        print_floor(at, name)


def print_floor(at: list[str], name: str) -> None:
    """CPU, not time: what a command cannot do without, and what it takes."""
    least = cpu([*OLYMPIA, "--help"])
    print("\n| CPU | × `olympia --help` |\n| --- | --- |")
    for code in ("import numpy", "import pyarrow", "import typer, pyarrow, google.protobuf.descriptor_pool"):
        print(f"| `{code}` | {cpu([sys.executable, '-c', code]) / least:.1f} |")
    for words in (f"table show {name}", "ns create more --if-not-exists"):
        print(f"| `olympia {words}` | {cpu([*OLYMPIA, *at, *words.split()]) / least:.1f} |")


if __name__ == "__main__":
    main()
