"""Break one promise at a time, and check that the test for it fails.

The promises are in the `*.toml` files beside this one. Each mutant has a text that occurs exactly once in a file of the
package, and its replacement. It names the promise that the replacement breaks, and the tests that must then fail. If
another part of the program keeps the promise too, `second_defence` names it. With `also`, the mutants that remove that
part, both together must be detected.

    make mutants                        all of them
    make mutants MUTANTS="purge undo"   those whose names contain one of the words

Each worker has a copy of the package and of the tests: nothing is changed in place.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
PACKAGE = "olympia_cli"
COPIED = (PACKAGE, "tests", "pyproject.toml")

PATIENCE = 900
"""Seconds after which a run counts as one that does not end."""

_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+?)(?:\[|$| )", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Mutant:
    name: str
    promise: str
    file: str
    search: str
    replace: str
    killed_by: tuple[str, ...] = ()
    second_defence: str = ""
    also: tuple[str, ...] = ()

    def apply(self, package: Path) -> str:
        """The file's text with the promise broken; ValueError when the text to replace does not stand there once."""
        text = (package / self.file).read_text()
        times = text.count(self.search)
        if times != 1:
            raise ValueError(f"{self.name}: what it replaces stands {times} times in {self.file}")
        return text.replace(self.search, self.replace)


@dataclass(frozen=True, slots=True)
class Outcome:
    mutant: Mutant
    verdict: str
    detail: str = ""

    @property
    def is_good(self) -> bool:
        return self.verdict in ("killed", "second defence")


def load() -> list[Mutant]:
    found = []
    for path in sorted(HERE.glob("*.toml")):
        for entry in tomllib.loads(path.read_text())["mutant"]:
            lists = {key: tuple(entry.pop(key, ())) for key in ("killed_by", "also")}
            found.append(Mutant(**entry, **lists))
    return found


def copy_to(folder: Path) -> Path:
    for name in COPIED:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            shutil.copy(source, folder / name)
    return folder


def run_tests(folder: Path, tests: Iterable[str]) -> tuple[int, str]:
    """The exit code of pytest on a copy, and what it printed."""
    environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": ""}
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-rfE", "--tb=no", "-p", "no:cacheprovider", *tests]
    try:
        done = subprocess.run(
            command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return -1, f"no end within {PATIENCE} seconds"
    return done.returncode, done.stdout + done.stderr


def judge(mutant: Mutant, by_name: dict[str, Mutant], folder: Path) -> Outcome:
    """Break the promise in a copy, run the tests, and mend the copy."""
    if not mutant.killed_by:
        return Outcome(mutant, "second defence", "nothing to run")
    package = folder / PACKAGE
    whole: dict[Path, str] = {}
    try:
        for part in (mutant, *(by_name[name] for name in mutant.also)):
            path = package / part.file
            whole.setdefault(path, path.read_text())
            _write(path, part.apply(package))
        code, output = run_tests(folder, mutant.killed_by)
    except ValueError as error:
        return Outcome(mutant, "does not apply", str(error))
    finally:
        for path, text in whole.items():
            _write(path, text)
    if code not in (0, 1):
        return Outcome(mutant, "broken", output[-2000:])
    failed = set(_FAILED.findall(output))
    passed = [test for test in mutant.killed_by if test.partition("[")[0] not in failed]
    if passed:
        return Outcome(mutant, "SURVIVES", ", ".join(passed))
    return Outcome(mutant, "second defence" if mutant.second_defence else "killed")


def _write(path: Path, text: str) -> None:
    path.write_text(text)
    # bytecode is known by time and size alone, and two texts of one size may be written within one tick
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*.pyc"):
        compiled.unlink()


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Break one promise at a time: the tests meant for it must fail.")
    parser.add_argument("words", nargs="*", help="only mutants whose names hold one of these")
    parser.add_argument("--jobs", type=int, default=2, help="how many at once")
    parser.add_argument("--trust", action="store_true", help="do not run the tests on the unbroken package first")
    options = parser.parse_args(arguments)
    every = load()
    by_name = {mutant.name: mutant for mutant in every}
    chosen = [m for m in every if not options.words or any(word in m.name for word in options.words)]
    with tempfile.TemporaryDirectory(prefix="mutants-") as scratch:
        free: SimpleQueue[Path] = SimpleQueue()
        for number in range(options.jobs):
            free.put(copy_to(Path(scratch, str(number))))
        if not options.trust:
            folder = free.get()
            code, output = run_tests(folder, sorted({test for mutant in chosen for test in mutant.killed_by}))
            free.put(folder)
            if code != 0:
                print(output, "the tests must pass on the package as it is", sep="\n")
                return 1

        def work(mutant: Mutant) -> Outcome:
            folder = free.get()
            try:
                return judge(mutant, by_name, folder)
            finally:
                free.put(folder)

        with ThreadPoolExecutor(options.jobs) as pool:
            outcomes = []
            for outcome in pool.map(work, chosen):
                outcomes.append(outcome)
                print(f"{outcome.verdict:15} {outcome.mutant.name:45} {outcome.mutant.promise}", flush=True)
                if not outcome.is_good:
                    print(f"    {outcome.detail}", flush=True)
    bad = sum(not outcome.is_good for outcome in outcomes)
    print(f"{len(outcomes)} mutants: {len(outcomes) - bad} as they should be, {bad} not")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
