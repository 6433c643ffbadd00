"""Commands on catalogs that were mutated from a seed, in a process of limited memory, each within its time.

`python -m tests.fuzz.batch SEED COUNT` prints a line for each failure, and ends with 1 when there is one.
"""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MEMORY = 2**31
"""Maximum address space, of which programs reserve more than they use."""
RESIDENT = 2**30
SECONDS = 20

COMMANDS = """
status
log
log -p
log --json
log -o csv
diff oldest latest
ns ls
table ls
table ls --at v7 --json
table show b.t03
table history b.t03
view ls
catalog show
txn ls
tree
tree -o csv
dump-node latest
dump-node v3 --json
time-travel v7
table register b.new --metadata-location s3://bucket/x
ns create more
rollback v7 --yes
compact
expire -n
expire purge -n
expire --explain
export ls
export create copy --dest {new}
fsck
fsck --at v7 --level full
fsck --repair -n
fsck --repair --yes
fsck --salvage {new}
fsck --bundle {new}.zip
"""
CHECK = "fsck --all-versions --level full"


class OutOfTime(BaseException):
    """A command takes too long."""


def main(seed: int, count: int) -> int:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    failures = 0
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        _settle(Path(folder))
        for number in range(count):
            for failure in _one(f"{seed}.{number}", Path(folder)):
                failures += 1
                print(f"seed {seed}.{number}: {failure}", flush=True)
    return 1 if failures else 0


def _settle(folder: Path) -> None:
    """Remove this machine's settings."""
    for name in list(os.environ):
        if name.startswith(("OLYMPIA_", "XDG_")):
            del os.environ[name]
    os.environ |= {"HOME": str(folder), "TMPDIR": str(folder), "XDG_CACHE_HOME": str(folder / "cache")}
    tempfile.tempdir = None
    signal.signal(signal.SIGALRM, _ring)


def _ring(*_: object) -> None:
    raise OutOfTime


def _one(seed: str, folder: Path) -> Iterator[str]:
    """The failures of one mutated catalog."""
    from olympia_cli.storage.local import LocalStore
    from tests.helpers.hostile import MUTATIONS
    from tests.helpers.rot import rot

    draw = random.Random(seed)
    sample, contents = _sample(draw.random() < 0.5)
    catalog = folder / f"catalog-{seed}"
    store = LocalStore(catalog, durable=False)
    store.create_many(sample.files)
    honest = draw.random() < 0.3
    if honest:
        done = [str(rot(store, sorted(sample.files), draw.randint)) for _ in range(draw.choice([1, 1, 2]))]
    else:
        done = [draw.choice(MUTATIONS)(draw, store)]
    commands = [CHECK, *draw.sample(COMMANDS.strip().splitlines(), 4)]
    for at, command in enumerate(commands):
        words = command.format(new=folder / f"new-{seed}-{at}").split()
        failure, code = _run(catalog, words)
        if failure:
            yield f"{done}: {command}: {failure}"
        if honest and command == CHECK and code == 0 and not _reads(catalog, sample.versions, contents):
            yield f"{done}: SOUND, and its content is another"
    if (used := _most_memory()) > RESIDENT:
        yield f"{done}: {commands}: {used:,} bytes of memory"
    for left in folder.glob("*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()


def _most_memory() -> int:
    """Return the peak memory of this process in bytes. The value of getrusage includes the parent's."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


def _run(catalog: Path, words: list[str]) -> tuple[str, int]:
    """Run a command. Return the problem with its end, if there is one, and its exit code."""
    from typer.testing import CliRunner

    from olympia_cli.cli.app import app

    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        done = CliRunner().invoke(app, ["-c", str(catalog), *words], catch_exceptions=False)
    except OutOfTime:
        return f"no end in {SECONDS} s", -1
    except Exception as error:
        return f"raised {error!r}", -1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    if done.exit_code == 1 or "Traceback" in done.stderr or "not enough memory" in done.stderr:
        return f"exit code {done.exit_code}: {done.stderr[-300:]}", done.exit_code
    return "", done.exit_code


_samples: dict[bool, Any] = {}


def _sample(expired: bool) -> Any:
    from tests.helpers.damage_sample import make_sample, read_content

    if expired not in _samples:
        sample = make_sample(expired=expired)
        contents = {version: read_content(sample.store(), version) for version in sample.versions}
        _samples[expired] = sample, contents
    return _samples[expired]


def _reads(catalog: Path, versions: list[int], contents: dict[int, Any]) -> bool:
    from olympia_cli.storage.local import LocalStore
    from tests.helpers.damage_sample import read_content

    try:
        return all(read_content(LocalStore(catalog), version) == contents[version] for version in versions)
    except Exception:
        return False


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]), int(sys.argv[2])))
