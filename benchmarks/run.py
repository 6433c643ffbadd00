"""What the core costs: requests and files, which do not depend on the weather, and times as ratios within one run.

    python benchmarks/run.py [--quick]

Each line is a claim of the design, the bound, and what was counted or measured here.
"""

from __future__ import annotations

import argparse
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

import pyarrow as pa

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format import node_file
from olympia_cli.format.node import Node
from olympia_cli.format.paths import LATEST, file_kind, new_definition_path, new_node_path
from olympia_cli.names import Kind, NamespaceName, TableName
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.tree.load import NodeReader
from olympia_cli.tree.search import depth
from tests.helpers.big_catalog import add_versions, make_big_catalog
from tests.helpers.stores import CountingStore


def row(what: str, bound: str, found: str) -> None:
    print(f"| {what} | {bound} | {found} |")


def head(title: str) -> None:
    print(f"\n## {title}\n\n| what | bound | here |\n| --- | --- | --- |")


def counted(paths: list[str]) -> str:
    kinds = Counter(file_kind(path).value for path in paths)
    return ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))


def best(work: Callable[[], object], repeat: int = 7, number: int = 20) -> float:
    """Seconds for one run, the best of several rounds: noise only adds."""
    rounds = []
    for _ in range(repeat):
        start = time.perf_counter()
        for _ in range(number):
            work()
        rounds.append((time.perf_counter() - start) / number)
    return min(rounds)


def requests(namespaces: int, tables: int) -> None:
    head(f"Requests, in a catalog of {namespaces * tables:,} tables")
    files = MemoryStore()
    catalog = make_big_catalog(files, namespaces, tables)
    levels = depth(NodeReader(files), catalog.snapshot().root.node)
    nodes = sum(1 for _ in files.list("node/"))
    row("levels of the tree, nodes", "", f"{levels}, {nodes:,}")
    store = CountingStore(files)
    catalog = Catalog(store)
    name = TableName("ns000001", "table000002")
    catalog.snapshot().table(name)
    row(
        "lookup: reads",
        f"2 hints, root, catalog definition, {levels - 1} nodes, definition",
        counted(store.paths("read", "read_many")),
    )
    row("lookup: probes, listings", "1, 0", f"{store.probes}, {store.lists}")
    transaction = catalog.begin()
    transaction.alter_table(name, {"p": "1"})
    store.reset()
    catalog.commit(transaction)
    row(
        "commit of one object: writes",
        f"1 definition, {levels - 1} nodes, 1 root, 1 hint",
        counted(store.paths("create", "create_many", "write_hint")),
    )
    row("commit of one object: listings", "0", str(store.lists))
    snapshot = catalog.snapshot()
    store.reset()
    found = sum(1 for _ in snapshot.tables("ns000002"))
    row(
        f"scan of a namespace of {found:,}: nodes read",
        f"those that hold it (about {found // 127 + 2})",
        str(store.count("read", "read_many") - 1),
    )
    store.reset()
    transaction = catalog.begin()
    transaction.create_namespace(NamespaceName("bulk"))
    for number in range(9_999):
        transaction.create_table(TableName("bulk", f"t{number:05}"), "s3://x")
    store.reset()
    catalog.commit(transaction)
    written = store.paths("create", "create_many", "write_hint")
    row("10,000 objects in one transaction: files written twice", "0", str(len(written) - len(set(written))))
    row("10,000 objects in one transaction: writes", "each node once", counted(written))


def lost_hint(versions: int) -> None:
    head("Finding the latest version")
    files = MemoryStore()
    Catalog.create(files)
    add_versions(files, versions)
    store = CountingStore(files)
    Catalog(store).snapshot()
    row(f"{versions:,} versions, hint right: probes", "1", str(store.probes))
    files.delete_many([LATEST])
    store.reset()
    Catalog(store).snapshot()
    row(f"{versions:,} versions, hint lost: probes, listings", "O(log versions), 0", f"{store.probes}, {store.lists}")


def bulk_memory(tables: int) -> None:
    head("Memory")
    script = (
        "import resource, sys, tempfile, time; from pathlib import Path;"
        "from tests.helpers.big_catalog import make_big_catalog; from olympia_cli.storage.local import LocalStore;"
        "folder = tempfile.TemporaryDirectory(); start = time.perf_counter();"
        f"make_big_catalog(LocalStore(Path(folder.name) / 'c', durable=False), 100, {tables // 100});"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024, round(time.perf_counter() - start, 1))"
    )
    root = Path(__file__).parents[1]
    done = subprocess.run([sys.executable, "-c", script], cwd=root, capture_output=True, text=True, check=True)
    peak, seconds = done.stdout.split()
    row(
        f"bulk load of the tree of {tables:,} tables: peak memory of the process",
        "1,024 MiB",
        f"{peak} MiB ({seconds} s)",
    )


def encodings() -> None:
    head("Encoding of a full node of order 128, relative to uncompressed")
    key = "C===" + "sales".ljust(100)
    node = Node(
        tuple(key + f"table_{number:06}".ljust(100) for number in range(127)),
        tuple(new_definition_path(Kind.TABLE, TableName("sales", f"table_{number:06}")) for number in range(127)),
        tuple(new_node_path() for _ in range(128)),
    )
    kept = node_file._OPTIONS
    plain: tuple[float, float, int] | None = None
    for codec in (None, "lz4", "zstd"):
        node_file._OPTIONS = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
        data = node_file.encode_node(node, 1)
        encode = best(lambda: node_file.encode_node(node, 1))
        decode = best(lambda data=data: node_file.decode_node(data, "node"))
        if plain is None:
            plain = (encode, decode, len(data))
        ratios = f"{encode / plain[0]:.2f}, {decode / plain[1]:.2f}, {len(data) / plain[2]:.2f}"
        row(f"{codec or 'plain'}: encode, decode, size", "", f"{ratios} ({len(data):,} bytes)")
    node_file._OPTIONS = kept


def commits(count: int) -> None:
    head("Commits of one object on local disk, relative to a durable SQLite transaction (journal, FULL)")
    kept = node_file._OPTIONS
    with tempfile.TemporaryDirectory() as folder:
        database = sqlite3.connect(Path(folder) / "peer.db", isolation_level=None)
        database.execute("pragma synchronous=FULL")
        database.execute("create table tables (name text primary key, location text)")
        numbers = iter(range(1_000_000))

        def insert() -> None:
            number = next(numbers)
            database.execute("begin immediate")
            database.execute("insert into tables values (?, ?)", (f"t{number}", "s3://x"))
            database.execute("commit")

        peer = best(insert, repeat=5, number=count)
        row("SQLite, one row", "", "1.00")
        for codec in ("lz4", None):
            node_file._OPTIONS = pa.ipc.IpcWriteOptions(compression=codec, use_threads=False)
            for durable in (True, False):
                store = LocalStore(Path(folder) / f"catalog-{codec}-{durable}", durable=durable)
                catalog = make_big_catalog(store, 20, 1000)

                def create(catalog: Catalog = catalog) -> None:
                    with catalog.transaction() as transaction:
                        transaction.create_table(TableName("ns000001", f"new{next(numbers)}"), "s3://x")

                def lookup(catalog: Catalog = catalog) -> None:
                    catalog.snapshot().table(TableName("ns000001", "table000500"))

                kind = f"{'durable' if durable else 'no fsync'}, {codec or 'plain'}"
                row(f"commit into 20,000 tables, {kind}", "", f"{best(create, repeat=5, number=count) / peer:.2f}")
                row(f"lookup from nothing, {kind}", "", f"{best(lookup, repeat=5, number=count) / peer:.2f}")
        node_file._OPTIONS = kept


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller catalogs, for a first look")
    quick = parser.parse_args().quick
    print(f"# Benchmark of the core, Python {sys.version.split()[0]}, pyarrow {pa.__version__}")
    requests(10 if quick else 100, 2_000)
    lost_hint(1_000 if quick else 10_000)
    bulk_memory(100_000 if quick else 1_000_000)
    encodings()
    commits(20 if quick else 50)


if __name__ == "__main__":
    main()
