"""A bad night on the command line: a catalog is damaged in six ways, checked and repaired. Then an expire is killed
half-way, and the next run finishes it.

    python examples/bad_night.py [FOLDER]
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from olympia_cli import Catalog, NamespaceName, TableName
from olympia_cli.format.paths import parse_root_path, root_path
from olympia_cli.storage.local import LocalStore

ENVIRONMENT = {**os.environ, "OLYMPIA_CATALOG": "catalog", "OLYMPIA_BY": "ann@laptop", "COLUMNS": "110"}


def main(folder: Path) -> int:
    folder.mkdir(parents=True, exist_ok=True)
    catalog = folder / "catalog"
    make(catalog)
    say("a sound catalog of 200 tables in 22 versions")
    olympia(folder, "fsck --level full --all-versions")

    say("damage: 1 a node is cut short, 2 a bit of a definition flips, 3 another definition is deleted,")
    say("4 the hint names a version that never existed, 5 the root of version 20 is replaced by a zip file,")
    say("6 the root of version 15 is copied to the path of version 25")
    damage(catalog)
    olympia(folder, "fsck --level full --all-versions")
    olympia(folder, "fsck --level full --all-versions --report fsck.html --bundle support.zip --quiet")
    olympia(folder, "table ls b -o name")

    say("repair")
    olympia(folder, "fsck --repair --dry-run")
    olympia(folder, "fsck --repair --yes -m 'the disk of node7'")
    olympia(folder, "fsck --level full")
    olympia(folder, "table ls b -o name", lines=3)
    olympia(folder, "log -n 3")
    say("damage in old versions is reported until they expire; acknowledged damage does not fail the check")
    olympia(folder, "fsck --level full --all-versions --acknowledge -m 'the disk of node7'")
    olympia(folder, "fsck --level full --all-versions --quiet")
    say("a new catalog from all readable objects:")
    olympia(folder, "fsck --salvage rescued")
    olympia(folder, "-c rescued fsck --level full --all-versions")

    say("an expire is killed in the middle of deleting")
    many = folder / "many"
    make(many, versions=1500)
    olympia(folder, "-c many expire --keep-last 5 --older-than 0s --grace 0s --offline --yes")
    kill_in_the_middle(many)
    print(f"  killed; {len(roots(many)):,} of 1,502 roots remain", flush=True)
    olympia(folder, "-c many fsck --all-versions")
    olympia(folder, "-c many expire purge --offline --yes")
    print(f"  {len(roots(many)):,} roots remain", flush=True)
    olympia(folder, "-c many fsck --level full --all-versions")
    olympia(folder, "-c many log --oneline -n 4")
    return 0


def make(folder: Path, versions: int = 20) -> None:
    catalog = Catalog.create(LocalStore(folder, durable=False), order=8)
    with catalog.transaction("teams") as transaction:
        for name in ("a", "b"):
            transaction.create_namespace(NamespaceName(name))
    for number in range(versions):
        with catalog.transaction(f"load {number}") as transaction:
            for at in range(10 if versions < 100 else 1):
                name = TableName("ab"[number % 2], f"t{number:04}_{at}")
                transaction.create_table(name, f"s3://lake/{number}/{at}/metadata.json")


def damage(folder: Path) -> None:
    snapshot = Catalog.open(folder).snapshot()
    child = next(child for child in snapshot.root.node.children if isinstance(child, str))
    node = folder / child
    node.write_bytes(node.read_bytes()[:700])
    flipped = folder / str(snapshot.find(TableName("b", "t0019_3")))
    data = bytearray(flipped.read_bytes())
    data[20] ^= 1
    flipped.write_bytes(data)
    (folder / str(snapshot.find(TableName("b", "t0017_1")))).unlink()
    (folder / "vn/latest").write_text("4711")
    (folder / root_path(20)).write_bytes(b"PK\x03\x04 not a root any more")
    shutil.copy(folder / root_path(15), folder / root_path(25))


def roots(folder: Path) -> list[Path]:
    return [path for path in (folder / "vn").iterdir() if parse_root_path(f"vn/{path.name}") is not None]


def kill_in_the_middle(folder: Path) -> None:
    print("\n$ olympia -c many expire purge --offline --yes", flush=True)
    command = [sys.executable, "-m", "olympia_cli", "-c", str(folder), "expire", "purge", "--offline", "--yes"]
    process = subprocess.Popen(command, env=ENVIRONMENT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    deadline = time.monotonic() + 120
    while (folder / root_path(100)).exists() and process.poll() is None and time.monotonic() < deadline:
        pass
    os.kill(process.pid, signal.SIGKILL)
    process.wait()


def say(text: str) -> None:
    print(f"\n# {text}", flush=True)


def olympia(folder: Path, line: str, lines: int | None = None) -> None:
    print(f"\n$ olympia {line}", flush=True)
    command = [sys.executable, "-m", "olympia_cli", *shlex.split(line)]
    done = subprocess.run(
        command, cwd=folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    shown = done.stdout.splitlines()
    print("\n".join(shown[:lines]), flush=True)
    if lines is not None and len(shown) > lines:
        print(f"… {len(shown) - lines} more", flush=True)
    if done.returncode:
        print(f"  exit code {done.returncode}", flush=True)


if __name__ == "__main__":
    if len(sys.argv) > 1:
        sys.exit(main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as temporary:
        sys.exit(main(Path(temporary)))
