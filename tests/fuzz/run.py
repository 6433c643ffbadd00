"""`python -m tests.fuzz.run [SECONDS [SEED]]`: batches of mutated catalogs, each in a process of its own."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
AT_ONCE = 50


def batch(seed: int, count: int, *more: str) -> str:
    """Return the failures of a number of catalogs of a seed, or an empty text."""
    command = [sys.executable, "-m", "tests.fuzz.batch", str(seed), *more, str(count)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60 + 120 * count)
    if not done.returncode and not done.stdout:
        return ""
    return f"{done.stdout}exit code {done.returncode}\n{done.stderr[-2000:]}"


def main(seconds: float, seed: int) -> int:
    end, failed = time.monotonic() + seconds, False
    while time.monotonic() < end:
        if failures := batch(seed, AT_ONCE):
            failed = True
            print(failures, flush=True)
        print(f"seed {seed}: {AT_ONCE} catalogs", flush=True)
        seed += 1
    return 1 if failed else 0


if __name__ == "__main__":
    given = sys.argv[1:]
    sys.exit(main(float(given[0]) if given else 600, int(given[1]) if len(given) > 1 else int(time.time())))
