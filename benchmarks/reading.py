"""Measure reads: lists, lookups, the log."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.catalogs import NAMESPACE, history, middle, peers, rows, tree
from benchmarks.measuring import Bench, Figure, best, conversation, count, ratio
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.snapshot import CatalogObject
from olympia_cli.format.codec import decode_action_rows, decode_root
from olympia_cli.format.paths import LATEST, root_path
from olympia_cli.names import TableName
from olympia_cli.ops.inspect import log_between
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.tree.load import NodeReader
from tests.helpers.big_catalog import add_versions
from tests.helpers.stores import CountingStore


@contextmanager
def peers_of(bench: Bench, tables: int) -> Iterator[Any]:
    """Start the installed peers, to be called as `ask(do=…, kind=…)`."""
    with conversation(bench.peers, Path(__file__).with_name("peers.py"), "talk", peers(bench, tables)) as ask:
        kinds = ask(do="kinds")
        for kind in kinds:
            # load once before: the imports of the first call are not measured
            ask(do="load", kind=kind, name="table000000")
        yield ask, kinds


def cold(folder: Path) -> Catalog:
    """Open a catalog without caches."""
    return Catalog(LocalStore(folder, durable=False))


def warm(folder: Path) -> Catalog:
    return Catalog.open(LocalStore(folder, durable=False))


def look(catalog: Catalog, name: TableName) -> CatalogObject[Any]:
    return catalog.snapshot(names=[name]).table(name)


def listing(bench: Bench) -> Iterator[Figure]:
    tables = bench.sizes.tables[1]
    folder, database = tree(bench, tables), rows(bench, tables)
    known = warm(folder)

    def raw() -> None:
        found = database.execute("select namespace, name from tables where namespace = ? order by name", [NAMESPACE])
        assert len(found.fetchall()) == tables

    def list_all(catalog: Catalog) -> None:
        assert len(list(catalog.snapshot().tables(NAMESPACE))) == tables

    top = known.snapshot().root.node.children

    def read_nodes() -> None:
        assert len(list(NodeReader(LocalStore(folder)).nodes(top))) == len(top)

    with peers_of(bench, tables) as (ask, kinds):
        theirs = [lambda kind=kind: ask(do="list", kind=kind, tables=tables) for kind in kinds]
        works = (lambda: list_all(known), lambda: list_all(cold(folder)), read_nodes, raw)
        ours, without_cache, nodes, sqlite, *others = best(*works, *theirs, rounds=bench.sizes.rounds)
    yield ratio(f"list {tables:,} with a warm cache", ours, sqlite, most=3)
    yield ratio("… with a cold cache", without_cache, sqlite, most=3)
    yield ratio(f"… of this, reading and decoding {len(top)} nodes", nodes, sqlite)
    yield from beside_peers("… compared with", without_cache, kinds, others)


def beside_peers(what: str, ours: float, kinds: list[str], theirs: list[float]) -> Iterator[Figure]:
    names = {"sql": "PyIceberg's SqlCatalog", "boring": "Boring Catalog"}
    for kind, took in zip(kinds, theirs, strict=True):
        yield ratio(f"{what} {names[kind]}: speed-up", ours, took, least=1)


def warm_lookup(bench: Bench) -> Iterator[Figure]:
    tables = bench.sizes.tables[-2]
    folder, database, name = tree(bench, tables), rows(bench, tables), middle(tables)
    known = warm(folder)
    query = "select location from tables where namespace = ? and name = ?"
    with peers_of(bench, tables) as (ask, kinds):
        theirs = [lambda kind=kind: ask(do="load", kind=kind, name=name.name) for kind in kinds]
        ours, sqlite = best(
            lambda: look(known, name),
            lambda: database.execute(query, [NAMESPACE, name.name]).fetchone(),
            rounds=bench.sizes.rounds * 3,
            number=100,
        )
        others = best(*theirs, rounds=bench.sizes.rounds)
    yield ratio(f"lookup in {tables:,} tables, with a probe", ours, sqlite, most=3)
    yield from beside_peers("… compared with loading a table and its metadata by", ours, kinds, others)


def cold_lookup(bench: Bench) -> Iterator[Figure]:
    small, large = bench.sizes.tables[-2:]
    few, many = tree(bench, small), tree(bench, large)
    little, much = best(
        lambda: look(cold(few), middle(small)),
        lambda: look(cold(many), middle(large)),
        rounds=bench.sizes.rounds * 3,
        number=20,
    )
    yield ratio(f"cold lookup, {large:,} tables compared with {small:,}", much, little, most=1.2)


def log(bench: Bench) -> Iterator[Figure]:
    versions = bench.sizes.versions[-1]
    folder = history(bench, versions, bench.sizes.tables[1])
    store = LocalStore(folder, durable=False)
    paths = [root_path(version) for version in range(versions + 2)]

    def read_log() -> None:
        assert sum(len(entry.changes) for entry in log_between(Catalog(store), None, None)) == versions + 1

    def raw() -> None:
        for path in paths:
            (folder / path).read_bytes()

    def decode(what: Callable[[bytes, str], object]) -> None:
        for path, data in store.read_many(paths):
            assert isinstance(data, bytes)
            what(data, path)

    ours, files, roots, actions = best(
        read_log,
        raw,
        lambda: decode(decode_root),
        lambda: decode(decode_action_rows),
        rounds=max(1, bench.sizes.rounds // 3),
    )
    yield ratio(f"log of {versions:,} versions", ours, files, most=4)
    yield ratio("… of this, reading and decoding roots", roots, files)
    yield ratio("… and reading and decoding their actions", actions, files)

    files = MemoryStore()
    Catalog.create(files)
    add_versions(files, versions)
    files.delete_many([LATEST])
    counting = CountingStore(files)
    assert Catalog(counting).snapshot().version == versions
    most = math.floor(2 * math.log2(versions) + 2)
    yield count(f"latest of {versions:,} versions without a hint: probes", counting.probes, most)
    yield count("… listings", counting.lists, 0)
