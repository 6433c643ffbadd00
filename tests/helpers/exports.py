"""Catalogs to export, and what becomes of them at the destination."""

from __future__ import annotations

from typing import Any

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.format.paths import EXPORT_NOTE, LATEST, OLDEST
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.storage.protocol import Store
from tests.helpers.clock import FakeClock
from tests.helpers.names import location, ns, select, table, view

EXOTIC = ["a.b", 'say"hi"', "..", "smile\U0001f600", "per%2Fcent", "back\\slash", "sl/ash", "-rf", "[red]"]


def make_catalog(
    store: Store | None = None, clock: FakeClock | None = None, tables: int = 20, order: int = 4
) -> Catalog:
    """A catalog with a deep tree and odd names. Version 1 has the namespaces, 2 the tables, 3 one table less."""
    store = MemoryStore("source") if store is None else store
    catalog = Catalog.create(store, order=order, clock=clock if clock is not None else FakeClock())
    with catalog.transaction() as transaction:
        for name in ("sales", *EXOTIC):
            transaction.create_namespace(ns(name), {"owner": "ann"})
    with catalog.transaction() as transaction:
        for number in range(tables):
            transaction.create_table(table(f"sales.t{number}"), location(number))
        for name in EXOTIC:
            quoted = name.replace('"', '""')
            transaction.create_table(table(f'"{quoted}"."{quoted}"'), location(1))
        transaction.create_view(view("sales.v"), select())
    with catalog.transaction() as transaction:
        transaction.drop_table(table("sales.t0"))
    return catalog


def files(store: Store) -> dict[str, bytes]:
    """All that is there."""
    return {file.path: store.read(file.path) for file in store.list()}


def own_files(store: Store) -> dict[str, bytes]:
    """Root, nodes and definitions of an export."""
    found = files(store)
    return {path: data for path, data in found.items() if path not in (EXPORT_NOTE, LATEST, OLDEST)}


def contents(catalog: Catalog, **more: Any) -> list[str]:
    """The names that a version holds."""
    snapshot = catalog.snapshot(**more)
    return [*map(str, snapshot.namespaces()), *map(str, snapshot.tables()), *map(str, snapshot.views())]
