"""Run writers, expires, checks, exports and distributed transactions on one catalog for minutes, as real processes.

    python benchmarks/soak.py [--seconds 300] [--writers 4] [--expires 2]

All use a clock that advances with each expire, so hours of grace, quarantine and lifetime pass in seconds. The code and
its limits are the real ones. At the end, every acknowledged commit is in history exactly once, every live version is
sound, and no check found damage.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from olympia_cli.storage.local import LocalStore
from tests.helpers.clock import HOUR
from tests.helpers.soak import TICK, Soak, check_told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--expires", type=int, default=2)
    asked = parser.parse_args()
    roles = [*["write"] * asked.writers, "distribute", *["expire"] * asked.expires, "check", "export"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        soak = Soak(str(place / "catalog"), {}, place / "exports", roles=roles, seconds=asked.seconds)
        began = time.time()
        total = soak.in_processes()
        took = time.time() - began
        store = LocalStore(soak.uri)
        left = sum(1 for _ in store.list())
        hours = (place / "exports" / "ticks").stat().st_size // 8 * TICK / HOUR
        print(f"{len(roles)} processes for {took:.0f} s, in which {hours:.0f} hours passed\n")
        print("| what | how often |\n| --- | --- |")
        for what, count in sorted(total.counted.items()):
            print(f"| {what} | {count:,} |")
        print(f"| files at the end | {left:,} |")
        print(f"| went wrong | {len(total.wrong)} |\n")
        for wrong in total.wrong[:20]:
            print(f"- {wrong}")
        check_told(store, total)
    print(
        f"{len(total.acknowledged):,} acknowledged commits are in history exactly once, "
        f"of {len(total.history):,} versions; all live versions are sound"
    )


if __name__ == "__main__":
    main()
