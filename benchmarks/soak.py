"""Writers, expires, checks, exports and distributed transactions on one catalog for minutes, as real processes.

    python benchmarks/soak.py [--seconds 300] [--rate 600] [--writers 4] [--expires 2]

Each process lives by a clock that runs `rate` times as fast, so that hours of grace, quarantine and lifetime pass in
seconds; the code and its floors are the real ones. At the end: every acknowledged commit is in history exactly once,
every version that counts is whole, and no check on the way found damage.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from olympia_cli.storage.local import LocalStore
from tests.helpers.soak import Soak, check_told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--seconds", type=float, default=300)
    parser.add_argument("--rate", type=int, default=600)
    parser.add_argument("--writers", type=int, default=4)
    parser.add_argument("--expires", type=int, default=2)
    asked = parser.parse_args()
    roles = [*["write"] * asked.writers, "distribute", *["expire"] * asked.expires, "check", "export"]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        soak = Soak(str(place / "catalog"), {}, place / "exports", asked.seconds, asked.rate, roles)
        began = time.time()
        total = soak.in_processes()
        took = time.time() - began
        store = LocalStore(soak.uri)
        left = sum(1 for _ in store.list())
        print(f"{len(roles)} processes for {took:.0f} s, in which {took * asked.rate / 3600:.0f} hours passed\n")
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
        f"of {len(total.history):,} versions; all versions that count are whole"
    )


if __name__ == "__main__":
    main()
