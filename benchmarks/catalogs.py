"""The catalogs that are measured, each made once."""

from __future__ import annotations

import random
import sqlite3
from pathlib import Path

from benchmarks.measuring import Bench, run
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.names import TableName
from olympia_cli.storage.local import LocalStore
from tests.helpers.big_catalog import make_big_catalog

NAMESPACE = "ns000000"
IN_A_NAMESPACE = 100_000


def tree(bench: Bench, tables: int) -> Path:
    """A catalog whose tables share one definition, so that the tree is the large part."""
    return bench.kept(f"tree-{tables}", lambda folder: grow(folder, tables))


def grow(folder: Path, tables: int, durable: bool = False) -> Catalog:
    namespaces = max(1, tables // IN_A_NAMESPACE)
    return make_big_catalog(LocalStore(folder, durable=durable), namespaces, tables // namespaces)


def middle(tables: int) -> TableName:
    return TableName(NAMESPACE, f"table{min(tables, IN_A_NAMESPACE) // 2:06}")


def owned(bench: Bench, tables: int) -> Path:
    """A catalog with a definition per table, a thousand tables per namespace, and a version per hundred tables."""

    def make(folder: Path) -> None:
        namespaces = max(1, tables // 1000)
        make_big_catalog(LocalStore(folder, durable=False), namespaces, tables // namespaces, own=True)
        change(folder, max(10, tables // 100), namespaces, tables // namespaces)

    return bench.kept(str(tables), make, in_memory=True)


def history(bench: Bench, versions: int, tables: int) -> Path:
    """A catalog of many versions, each of which changes one table."""

    def make(folder: Path) -> None:
        grow(folder, tables)
        change(folder, versions, max(1, tables // IN_A_NAMESPACE), min(tables, IN_A_NAMESPACE))

    return bench.kept(f"versions-{versions}-of-{tables}", make)


def change(folder: Path, versions: int, namespaces: int, tables: int) -> None:
    catalog, chosen = Catalog.open(LocalStore(folder, durable=False)), random.Random(1)
    for number in range(versions):
        with catalog.transaction() as transaction:
            name = TableName(f"ns{chosen.randrange(namespaces):06}", f"table{chosen.randrange(tables):06}")
            transaction.alter_table(name, metadata_location=f"s3://bucket/{number}")


def peers(bench: Bench, tables: int) -> Path:
    """The same tables in PyIceberg's SqlCatalog and in Boring Catalog, all with the same metadata file."""
    final = bench.folder / f"peers-{tables}"
    script = Path(__file__).with_name("peers.py")
    return bench.kept(final.name, lambda folder: run(bench.peers, script, "make", folder, final, tables))


def rows(bench: Bench, tables: int) -> sqlite3.Connection:
    """The same tables as rows in SQLite."""

    def make(folder: Path) -> None:
        folder.mkdir()
        fill(folder / "rows.db", tables)

    return sqlite3.connect(bench.kept(f"rows-{tables}", make) / "rows.db", isolation_level=None)


def fill(path: Path, tables: int) -> None:
    database = sqlite3.connect(path, isolation_level=None)
    database.execute("pragma synchronous=FULL")
    database.execute("create table tables (namespace text, name text, location text, primary key (namespace, name))")
    names = ((f"ns{at // IN_A_NAMESPACE:06}", f"table{at % IN_A_NAMESPACE:06}", "s3://x") for at in range(tables))
    database.execute("begin")
    database.executemany("insert into tables values (?, ?, ?)", names)
    database.execute("commit")
    database.close()
