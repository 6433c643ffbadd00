"""Measure the work of an administrator: mark, expire and fsck, here and on Spark."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.catalogs import history, owned
from benchmarks.measuring import BIN, Bench, Figure, best, count, filesystem, peak_mib, ratio, run
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import FileKind, file_kind, root_path
from olympia_cli.ops.expire import ExpirePlanner, Floors, read_policy
from olympia_cli.ops.fsck import FsckRequest, Level, fsck
from olympia_cli.ops.walk import NodeRules, ReachedFiles
from olympia_cli.storage.local import LocalStore
from tests.helpers.stores import CountingStore

OFFLINE = Floors(0, 0, offline=True)
LARGEST = 100_000


def _middling(sizes: tuple[int, ...], most: int) -> int:
    return max(size for size in sizes if size <= max(most, sizes[0]))


def mark(bench: Bench) -> Iterator[Figure]:
    versions, tables = _middling(bench.sizes.versions, 1_000), _middling(bench.sizes.tables, LARGEST)
    store = CountingStore(LocalStore(history(bench, versions, tables), durable=False))
    head = Catalog(store).snapshot()

    def reach(first: int) -> None:
        paths = [root_path(version) for version in range(head.version, first - 1, -1)]
        ReachedFiles(store, NodeRules.of(head)).add((path, store.inner.read(path)) for path in paths)

    one, many = best(
        lambda: reach(head.version), lambda: reach(head.version - versions + 1), rounds=max(2, bench.sizes.rounds // 3)
    )
    yield ratio(f"mark of {versions:,} versions of {tables:,} tables", many, one, most=6)
    store.reset()
    reach(head.version - versions + 1)
    paths = store.paths("read", "read_many")
    yield count("… nodes read again", len(paths) - len(set(paths)), 0, f"{len(paths):,} nodes")


def expire(bench: Bench) -> Iterator[Figure]:
    versions = _middling(bench.sizes.versions, 1_000)
    few, many = bench.sizes.tables[1 if len(bench.sizes.tables) > 2 else 0], bench.sizes.tables[-1]
    found = []
    for tables in (few, many):
        store = CountingStore(LocalStore(history(bench, versions, tables), durable=False))
        start = time.perf_counter()
        planner = ExpirePlanner(Catalog(store), OFFLINE)
        policy = read_policy(
            planner.facts.definition, planner.facts.now_millis, keep_last=versions // 2, older_than="0s", offline=True
        )
        plan = planner.expire(policy)
        seconds = time.perf_counter() - start
        read = store.paths("read", "read_many")
        gone = sum(1 for path in read if _of_removed(path, planner, plan.mark.oldest))
        removed = plan.mark.oldest - plan.mark.former_oldest
        found.append(gone / removed)
        detail = (
            f"{removed:,} versions, {len(plan.mark.files):,} files to delete, {len(read):,} read in {seconds:.1f} s"
        )
        yield count(f"{tables:,} tables: files read per removed version", found[-1], 8, detail)
    apart = abs(found[0] - found[1]) / max(*found, 1)
    yield count("… difference between the two in percent", 100 * apart, 20)


def _of_removed(path: str, planner: ExpirePlanner, oldest: int) -> bool:
    """Return True if only removed versions use a file."""
    if file_kind(path) is FileKind.ROOT:
        return path < root_path(oldest)
    return file_kind(path) is FileKind.NODE and path not in planner.reach


def check(bench: Bench) -> Iterator[Figure]:
    tables = bench.sizes.owned
    folder = owned(bench, tables)
    told = {}

    def apart(what: str) -> float:
        said = json.loads(run(BIN / "python", "-m", "benchmarks.maintaining", what, folder).out)
        told[what] = said
        return float(said["seconds"])

    apart("raw")  # warm the disk's cache for both
    raw, took = best(lambda: apart("raw"), lambda: apart("fsck"), rounds=_rounds(bench))
    said = told["fsck"]
    assert not said["damaged"], said
    files = f"{told['raw']['files']:,} files, {filesystem(folder)}; {said['mib']:.0f} MiB"
    yield ratio(f"`fsck --level full --all-versions`, {tables:,} objects", took, raw, most=3, more=files)
    each = (said["mib"] - said["imports"]) * 2**20 / tables
    # the memory bound is for large catalogs
    most = 200 if tables >= LARGEST else None
    yield Figure("… memory above imports, per object", each, most, unit=" bytes")
    few = min(tables, 10_000)
    store = CountingStore(LocalStore(owned(bench, few), durable=False))
    fsck(store, FsckRequest(Level.FULL, all_versions=True))
    read = [
        path for path in store.paths("read", "read_many") if file_kind(path) in (FileKind.NODE, FileKind.DEFINITION)
    ]
    yield count(f"… files read again, {few:,} objects", len(read) - len(set(read)), 0, f"{len(read):,} files")


def _rounds(bench: Bench) -> int:
    """Return the number of rounds: one if a disk may have to find every file."""
    return 1 if bench.sizes.owned > LARGEST and bench.memory is None else 2


def spark(bench: Bench) -> Iterator[Figure]:
    tables = bench.sizes.owned
    folder = owned(bench, tables)
    half = str(Catalog(LocalStore(folder)).snapshot().version // 2)
    keeping = ("--keep-last", half, "--older-than", "0s", "--grace", "0s", "--offline", "--dry-run")
    works = [("fsck", "--level", "full", "--all-versions"), ("expire", *keeping)]
    # a small catalog shows the time to start Spark, and one command is enough for that
    for words in works if tables >= LARGEST else works[:1]:
        line = (BIN / "olympia", "-c", folder, *words, "--json", "--engine")
        cores = [2, 4] if (os.cpu_count() or 1) >= 4 and tables >= LARGEST else [2]
        masters = [("spark", "--master", f"local[{number}]") for number in cores]
        # run once before, to warm the disk's cache for both
        assert _gist(run(*line, "local").out)
        here, *there = (run(*line, *engine) for engine in (("local",), *masters))
        assert all(_gist(one.out) == _gist(here.out) for one in there), "both engines find the same"
        memory = f"{filesystem(folder)}; {here.mib:.0f} and {there[0].mib:.0f} MiB"
        most = 1.5 if tables >= LARGEST else None
        yield ratio(f"`{words[0]}`, {tables:,} tables, `local[2]`", there[0].seconds, here.seconds, most, more=memory)
        for twice in there[1:]:
            yield ratio("… with twice the cores, compared with `local[2]`", twice.seconds, there[0].seconds, 0.6)


def _gist(told: str) -> Any:
    """Return the part of a result on which both engines must agree."""
    found = json.loads(told)
    return {name: found[name] for name in ("checked", "damaged", "files", "bytes") if name in found}


def main(what: str, folder: Path) -> None:
    """Run the raw read or fsck in its own process."""
    imports = peak_mib()
    store = LocalStore(folder, durable=False)
    if what == "raw":
        files = [file.path for file in store.list()]
        start = time.perf_counter()
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            for _ in pool.map(_read_some, [[folder / path for path in files[at::64]] for at in range(64)]):
                pass
        told: dict[str, Any] = {"files": len(files)}
    else:
        start = time.perf_counter()
        told = {"damaged": fsck(store, FsckRequest(Level.FULL, all_versions=True)).damaged, "imports": imports}
    print(json.dumps({"seconds": time.perf_counter() - start, "mib": peak_mib(), **told}))


def _read_some(paths: list[Path]) -> None:
    for path in paths:
        with open(path, "rb", buffering=0) as file:
            file.read()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
