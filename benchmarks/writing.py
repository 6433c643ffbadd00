"""Measure writes: round trips, single commits, many changes at once, and concurrent writers."""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.catalogs import NAMESPACE, fill, grow, middle, peers
from benchmarks.measuring import (
    BIN,
    ROUND_TRIP,
    Bench,
    Figure,
    best,
    conversation,
    count,
    peak_mib,
    ratio,
    run,
    seconds_text,
)
from benchmarks.reading import look, peers_of
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import TableName
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.tree.load import NodeReader
from olympia_cli.tree.search import depth
from tests.helpers.big_catalog import make_big_catalog
from tests.helpers.stores import CountingStore, WrappedStore

WRITERS = 4


class SlowStore(WrappedStore):
    """Sleeps before each request; a batch is one request, and hints are not delayed."""

    def read(self, path: str) -> bytes:
        time.sleep(ROUND_TRIP)
        return super().read(path)

    def read_many(self, paths: Any) -> Any:
        time.sleep(ROUND_TRIP)
        return super().read_many(paths)

    def create(self, path: str, data: bytes) -> None:
        time.sleep(ROUND_TRIP)
        super().create(path, data)

    def create_many(self, files: Any) -> None:
        time.sleep(ROUND_TRIP)
        super().create_many(files)

    def exists(self, path: str) -> bool:
        time.sleep(ROUND_TRIP)
        return super().exists(path)


def alter(catalog: Catalog, name: TableName, numbers: Iterator[int]) -> Callable[[], None]:
    """Return a function that commits a change of one table."""

    def change() -> None:
        transaction = catalog.begin(names=[name])
        transaction.alter_table(name, {"p": str(next(numbers))})
        catalog.commit(transaction)

    return change


def naturals() -> Iterator[int]:
    return iter(range(1_000_000_000))


def round_trips(bench: Bench) -> Iterator[Figure]:
    tables = bench.sizes.tables[-2]
    files = MemoryStore()
    make_big_catalog(files, max(1, tables // 100_000), min(tables, 100_000))
    name = middle(tables)
    levels = depth(NodeReader(files), Catalog(files).snapshot().root.node)
    counting = CountingStore(files)
    look(Catalog(counting), name)
    yield count(f"cold lookup, {levels} levels: round trips", counting.round_trips, levels + 2)
    known = Catalog.open(counting)
    change = alter(known, name, naturals())
    change()
    counting.reset()
    change()
    # with two, a commit might be based on an old version (decision 032)
    yield count("warm commit: round trips", counting.round_trips, 3, _sent(counting))
    slow = SlowStore(files)
    warm_commit = alter(Catalog.open(slow), name, naturals())
    warm_commit()
    lookup, commit = best(lambda: look(Catalog(slow), name), warm_commit, rounds=bench.sizes.rounds)
    for what, took, most in (("cold lookup", lookup, levels + 2.3), ("warm commit", commit, 2.3)):
        shown = f"{what} at {ROUND_TRIP * 1000:.0f} ms per request: time in requests"
        yield Figure(shown, took / ROUND_TRIP, most, unit="")


def _sent(store: CountingStore) -> str:
    return ", ".join(f"{number} {method}" for method, number in store.calls.items())


def commit(bench: Bench) -> Iterator[Figure]:
    tables = bench.sizes.tables[1]
    fill(bench.scratch / "peer.db", 0)
    database = sqlite3.connect(bench.scratch / "peer.db", isolation_level=None)
    database.execute("pragma synchronous=FULL")
    numbers = naturals()

    def insert() -> None:
        database.execute("begin immediate")
        database.execute("insert into tables values (?, ?, ?)", ("n", f"t{next(numbers)}", "s3://x"))
        database.execute("commit")

    changes = []
    for durable in (False, True):
        grow(bench.scratch / f"commits-{durable}", tables)
        store = LocalStore(bench.scratch / f"commits-{durable}", durable=durable)
        changes.append(alter(Catalog.open(store), middle(tables), numbers))
    loose, durable, sqlite = best(*changes, insert, rounds=bench.sizes.rounds, number=20)
    yield ratio(f"commit into {tables:,} tables, not durable", loose, sqlite, most=1.5)
    yield ratio("… durable", durable, sqlite, most=3)
    store = CountingStore(LocalStore(bench.scratch / "commits-False", durable=False))
    catalog = Catalog.open(store)
    levels = depth(NodeReader(store), catalog.snapshot().root.node)
    store.reset()
    alter(catalog, middle(tables), numbers)()
    yield count(f"… files, {levels} levels", store.count("create", "create_many"), levels + 1, "and the hint")


def many(bench: Bench) -> Iterator[Figure]:
    from olympia_cli.iceberg import OlympiaCatalog

    number, tables = bench.sizes.together, bench.sizes.tables[0]
    folder = bench.scratch / "many"
    metadata = str(peers(bench, tables) / "metadata.json")
    rounds = naturals()

    def together(durable: bool) -> Callable[[], None]:
        """Return a function that registers many tables in one commit of a new catalog."""
        catalog = OlympiaCatalog.of(Catalog.create(LocalStore(folder / str(durable), durable=durable)))
        catalog.create_namespace("many")

        def register() -> None:
            first = next(rounds)
            with catalog.transaction() as transaction:
                transaction.register_tables({("many", f"t{first}-{at:06}"): metadata for at in range(number)})

        return register

    ours = OlympiaCatalog.of(Catalog.create(LocalStore(folder / "alone")))
    ours.create_namespace("many")

    apart = max(1, number // 50)

    def one_by_one() -> None:
        for _ in range(apart):
            ours.register_table(("many", f"alone{next(rounds)}"), metadata)

    with peers_of(bench, tables) as (ask, kinds):
        theirs = [lambda kind=kind: ask(do="register", kind=kind, number=apart) for kind in kinds]
        durable, loose = together(durable=True), together(durable=False)
        files = _files_of(durable, LocalStore(folder / "True"), LocalStore(folder / "files"))
        ours_all, ours_loose, files_alone, *yours = best(durable, loose, files, *theirs, rounds=bench.sizes.rounds)
        # measured separately: a thousand newly written files delay the next sync
        single, *others = best(one_by_one, *theirs, rounds=bench.sizes.rounds)
    yield ratio(f"{number:,} tables in one transaction, per table: speed-up", ours_all / number, yours[0], least=40)
    for what, took in (
        ("… speed-up of writing and syncing its files alone, without a catalog", files_alone / number),
        ("… speed-up without waiting for the disk", ours_loose / number),
    ):
        yield Figure(what, yours[0] / took, detail=seconds_text(took, yours[0]))
    yield ratio("register one table, durable: speed-up", single / apart, others[0], least=1)


def _files_of(work: Callable[[], None], done: LocalStore, store: LocalStore) -> Callable[[], None]:
    """Return a function that creates, in another store, the files that `work` creates in one. Names are new each time,
    and the root comes last, as in a commit."""
    before = {file.path for file in done.list()}
    work()
    *paths, root = sorted(file.path for file in done.list() if file.path not in before)
    files, numbers = [(path, done.read(path)) for path in paths], naturals()
    last = done.read(root)

    def create() -> None:
        number = next(numbers)
        store.create_after({f"{path}-{number}": data for path, data in files}, f"{root}-{number}", last, lambda: None)

    return create


def bulk(bench: Bench) -> Iterator[Figure]:
    tables = bench.sizes.tables[-1]
    python, part = BIN / "python", ("-m", "benchmarks.writing")
    numbers = naturals()
    imports = json.loads(run(python, *part, "imports").out)["mib"]
    most = []

    def build() -> float:
        told = json.loads(run(python, *part, "bulk", bench.scratch / f"bulk{next(numbers)}", tables).out)
        most.append(told["mib"])
        return float(told["seconds"])

    def raw() -> float:
        start = time.perf_counter()
        fill(bench.scratch / f"bulk{next(numbers)}.db", tables)
        return time.perf_counter() - start

    ours, sqlite = best(build, raw, rounds=max(1, bench.sizes.rounds // 3))
    yield ratio(f"the tree of {tables:,} tables", ours, sqlite, most=1.5)
    yield Figure(
        "… memory above imports", max(most) - imports, 128, detail=f"{max(most):.0f} MiB in total", unit=" MiB"
    )


def writers(bench: Bench) -> Iterator[Figure]:
    """Several processes commit for some seconds, each to its own table."""
    folder = bench.scratch / "writers"
    grow(folder, bench.sizes.tables[0], durable=True)
    before = Catalog(LocalStore(folder)).snapshot().version
    alone = _written(bench, folder, 1)
    together = _written(bench, folder, WRITERS)
    told = [*alone, *together]
    landed = Catalog(LocalStore(folder)).snapshot().version - before
    yield count("acknowledged commits that are not in the log", sum(one["commits"] for one in told) - landed, 0)
    rate, single = (sum(one["commits"] for one in some) / bench.sizes.seconds for some in (together, alone))
    waits = [max(one["worst"] for one in some) for some in (alone, together)]
    detail = f"{rate:.0f} and {single:.0f} per second; worst wait {waits[1]:.2f} s, alone {waits[0]:.2f} s"
    yield Figure(f"{WRITERS} processes: commits per second", rate / single, least=0.5, detail=detail)


def _written(bench: Bench, folder: Path, processes: int) -> list[dict[str, Any]]:
    from contextlib import ExitStack

    with ExitStack() as stack:
        words = (BIN / "python", "-m", "benchmarks.writing", "write", folder)
        asks = [stack.enter_context(conversation(*words, number)) for number in range(processes)]
        begin = time.time() + 0.5 + 0.2 * processes
        from concurrent.futures import ThreadPoolExecutor

        with ThreadPoolExecutor(processes) as pool:
            return list(pool.map(lambda ask: ask(begin=begin, seconds=bench.sizes.seconds), asks))


def write(folder: Path, number: int) -> None:
    """Commit as a writer for the time that the task gives."""
    change = alter(Catalog.open(LocalStore(folder)), TableName(NAMESPACE, f"table{number:06}"), naturals())
    task = json.loads(sys.stdin.readline())
    time.sleep(max(0.0, task["begin"] - time.time()))
    commits, worst, end = 0, 0.0, time.perf_counter() + task["seconds"]
    while (start := time.perf_counter()) < end:
        change()
        commits, worst = commits + 1, max(worst, time.perf_counter() - start)
    print(json.dumps({"commits": commits, "worst": worst}), flush=True)


def main() -> None:
    what, *words = sys.argv[1:]
    if what == "write":
        write(Path(words[0]), int(words[1]))
        return
    start = time.perf_counter()
    if what == "bulk":
        grow(Path(words[0]), int(words[1]))
    print(json.dumps({"seconds": time.perf_counter() - start, "mib": peak_mib()}))


if __name__ == "__main__":
    main()
