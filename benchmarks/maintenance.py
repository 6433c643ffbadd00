"""What expire and fsck cost on a large catalog: memory, files read, and how often each.

    python benchmarks/maintenance.py [--tables 1000000] [--versions 10000] [--folder FOLDER]

The catalog is made once in the folder, on local disk without syncing, each table with a definition of its own, each
version a commit that changes one table. Every operation runs in a process of its own, whose peak memory is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.names import TableName
from olympia_cli.ops.expire.expire import mark, purge
from olympia_cli.ops.expire.plan import Planner
from olympia_cli.ops.expire.retention import Policy, read_policy
from olympia_cli.ops.expire.values import Floors
from olympia_cli.ops.fsck.fsck import Level, fsck
from olympia_cli.storage.local import LocalStore
from tests.helpers.big_catalog import make_big_catalog
from tests.helpers.stores import WrappedStore

TABLES_A_NAMESPACE = 1000
OFFLINE = Floors(0, 0, offline=True)


class Counted(WrappedStore):
    """Counts reads by kind of file, and remembers in a few bytes which files were read twice."""

    def __init__(self, store) -> None:
        super().__init__(store)
        self.reads: Counter[str] = Counter()
        self.seen: set[int] = set()
        self.twice: Counter[str] = Counter()

    def _note(self, path: str) -> None:
        kind = file_kind(path).value
        self.reads[kind] += 1
        code = hash(path)
        if code in self.seen:
            self.twice[kind] += 1
        self.seen.add(code)

    def read(self, path):
        self._note(path)
        return self.inner.read(path)

    def read_many(self, paths):
        for path, data in self.inner.read_many(paths):
            self._note(path)
            yield path, data


def build(folder: Path, tables: int, versions: int) -> None:
    store = LocalStore(folder, durable=False)
    namespaces = max(1, tables // TABLES_A_NAMESPACE)
    catalog = make_big_catalog(store, namespaces, tables // namespaces, own=True)
    chosen = random.Random(1)
    for number in range(versions):
        with catalog.transaction() as transaction:
            name = TableName(
                f"ns{chosen.randrange(namespaces):06}", f"table{chosen.randrange(tables // namespaces):06}"
            )
            transaction.alter_table(name, metadata_location=f"s3://bucket/{number}")


def half(planner: Planner) -> Policy:
    """Keep the newer half of the versions."""
    keep = planner.head.version // 2
    return read_policy(planner.definition, planner.now, keep_last=keep, older_than="0s", offline=True)


def operation(name: str, folder: Path) -> dict[str, object]:
    store = Counted(LocalStore(folder, durable=False))
    catalog = Catalog(store)
    began = time.perf_counter()
    found: dict[str, object] = {}
    if name == "expire-plan":
        planner = Planner(catalog, OFFLINE)
        policy = read_policy(
            planner.definition, planner.now, keep_last=catalog.snapshot().version // 2, older_than="0s", offline=True
        )
        plan = planner.expire(policy)
        found = {"expired": len(plan.mark.expired), "kept": len(plan.mark.kept), "files": len(plan.mark.files)}
    elif name == "expire-purge":
        planner = Planner(catalog, OFFLINE)
        policy = read_policy(
            planner.definition, planner.now, keep_last=catalog.snapshot().version // 2, older_than="0s", offline=True
        )
        mark(catalog, planner.expire(policy).mark)
        planner = Planner(catalog, OFFLINE)
        plan = planner.purge()
        purge(catalog, plan, planner.head.version, OFFLINE)
        found = {"purged": plan.purged, "files": len(plan.files)}
    elif name in ("fsck-structure", "fsck-full"):
        level = Level.STRUCTURE if name == "fsck-structure" else Level.FULL
        report = fsck(store, level=level, all_versions=True)
        found = {"damaged": report.damaged, "findings": len(report.findings), "checked": report.checked}
    seconds = time.perf_counter() - began
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    kinds = [FileKind.ROOT, FileKind.NODE, FileKind.DEFINITION]
    return {
        "operation": name,
        "peak_mib": peak,
        "seconds": round(seconds, 1),
        "reads": {kind.value: store.reads[kind.value] for kind in kinds},
        "read_again": {kind.value: store.twice[kind.value] for kind in kinds},
        **found,
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=1_000_000)
    parser.add_argument("--versions", type=int, default=10_000)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--only", default="fsck-structure,fsck-full,expire-plan,expire-purge")
    parser.add_argument("--run", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.run:
        print(json.dumps(operation(asked.run, asked.folder)))
        return
    with tempfile.TemporaryDirectory() as made:
        folder = asked.folder or Path(made) / "catalog"
        if not (folder / "vn").exists():
            began = time.perf_counter()
            build(folder, asked.tables, asked.versions)
            print(f"made {asked.tables:,} tables, {asked.versions:,} versions in {time.perf_counter() - began:.0f} s")
        for name in asked.only.split(","):
            done = subprocess.run(
                [sys.executable, __file__, "--run", name, "--folder", str(folder)],
                capture_output=True,
                text=True,
                env={**os.environ, "PYTHONHASHSEED": "0"},
            )
            print(done.stdout.strip() or done.stderr.strip(), flush=True)


if __name__ == "__main__":
    main()
