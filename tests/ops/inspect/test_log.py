"""The reads of the log, and its entries of rollbacks."""

from __future__ import annotations

import tracemalloc

import pyarrow as pa
import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.references import at_version
from olympia_cli.format.paths import FileKind, file_kind
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.ops.inspect import diff, history, log, log_between
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.big_catalog import add_versions, make_big_catalog
from tests.helpers.stores import CountingStore


def create(catalog: Catalog, name: str) -> None:
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName(name))


def roll_back(catalog: Catalog, version: int) -> None:
    transaction = catalog.begin()
    transaction.roll_back(version)
    catalog.commit(transaction)


def roots_read(store: CountingStore) -> int:
    return sum(file_kind(path) is FileKind.ROOT for path in store.paths("read", "read_many"))


def test_twenty_versions_read_twenty_roots():
    files = MemoryStore()
    Catalog.create(files)
    add_versions(files, 200)
    store = CountingStore(files)
    assert len(list(log_between(Catalog(store), None, None, 20))) == 20
    # the latest once more and the one after it, which is missing: that is how it is found
    assert roots_read(store) == 22
    assert store.lists == 0


def test_each_root_is_opened_once_for_its_tree_and_its_actions(monkeypatch):
    files = MemoryStore()
    Catalog.create(files)
    add_versions(files, 50)
    newest = Catalog(files).snapshot()
    opened, open_file = [], pa.ipc.open_file
    monkeypatch.setattr(pa.ipc, "open_file", lambda *data, **options: opened.append(1) or open_file(*data, **options))
    assert len(list(log(newest, 0))) == 51
    assert len(opened) == 51


def test_a_long_log_is_streamed():
    files = MemoryStore()
    Catalog.create(files)
    add_versions(files, 3_000)
    entries = log_between(Catalog(files), None, None)
    tracemalloc.start()
    first = next(entries)
    assert first.version == 3_000
    assert sum(1 for _ in entries) == 3_000
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 3_000_000, "memory does not grow with the number of versions"


def test_a_version_between_a_rollback_and_its_target_is_undone():
    catalog = Catalog.create(MemoryStore())
    for number in range(1, 5):
        create(catalog, f"n{number}")
    roll_back(catalog, 2)
    create(catalog, "after")
    undone = {entry.version: entry.undone_by for entry in log_between(catalog, None, None)}
    assert undone == {6: None, 5: None, 4: 5, 3: 5, 2: None, 1: None, 0: None}


def test_a_rollback_that_was_rolled_back_undoes_nothing_any_more():
    catalog = Catalog.create(MemoryStore())
    for number in range(1, 4):
        create(catalog, f"n{number}")
    roll_back(catalog, 1)
    roll_back(catalog, 3)
    undone = {entry.version: entry.undone_by for entry in log_between(catalog, None, None)}
    assert undone == {5: None, 4: 5, 3: None, 2: None, 1: None, 0: None}
    assert len(list(catalog.snapshot().namespaces())) == 3


def test_a_diff_reads_the_definitions_that_differ_and_no_others():
    store = CountingStore(MemoryStore())
    catalog = make_big_catalog(store, 10, 100, order=16)
    with catalog.transaction() as transaction:
        transaction.alter_table(TableName("ns000003", "table000007"), {"p": "1"})
    new = catalog.snapshot()
    old = at_version(1, new)
    store.reset()
    (change,) = diff(old, new)
    assert (change.change, str(change.name)) == ("altered", "ns000003.table000007")
    assert change.fields() == {"properties.p": (None, "1")}
    kinds = [file_kind(path) for path in store.paths("read", "read_many")]
    assert kinds.count(FileKind.DEFINITION) == 2
    assert kinds.count(FileKind.NODE) <= 8


class TestHistory:
    @pytest.fixture
    def catalog(self):
        catalog = Catalog.create(MemoryStore())
        with catalog.transaction() as transaction:
            transaction.create_namespace(NamespaceName("a"))
            transaction.create_table(TableName("a", "t"), "m0")
        return catalog

    def changes(self, catalog, name):
        found = history(catalog.snapshot(), TableName(*name.split(".")))
        return [(revision.entry.version, revision.change, str(revision.name)) for revision in found]

    def test_through_renames_of_table_and_namespace(self, catalog):
        with catalog.transaction() as transaction:
            transaction.alter_table(TableName("a", "t"), metadata_location="m1")
        with catalog.transaction() as transaction:
            transaction.rename_table(TableName("a", "t"), TableName("a", "u"))
        with catalog.transaction() as transaction:
            transaction.rename_namespace(NamespaceName("a"), NamespaceName("b"))
        assert self.changes(catalog, "b.u") == [
            (4, "renamed", "b.u"),
            (3, "renamed", "a.u"),
            (2, "altered", "a.t"),
            (1, "created", "a.t"),
        ]

    def test_of_a_dropped_table_and_one_that_came_back(self, catalog):
        found = catalog.snapshot().table(TableName("a", "t"))
        with catalog.transaction() as transaction:
            transaction.drop_table(TableName("a", "t"))
        assert self.changes(catalog, "a.t") == [(2, "dropped", "a.t"), (1, "created", "a.t")]
        with catalog.transaction() as transaction:
            transaction.restore(found, 1)
        assert self.changes(catalog, "a.t")[0] == (3, "restored", "a.t")

    def test_another_table_under_the_same_name_is_another_history(self, catalog):
        with catalog.transaction() as transaction:
            transaction.drop_table(TableName("a", "t"))
        with catalog.transaction() as transaction:
            transaction.create_table(TableName("a", "t"), "other")
        assert self.changes(catalog, "a.t") == [(3, "created", "a.t")]

    def test_across_a_rollback(self, catalog):
        with catalog.transaction() as transaction:
            transaction.rename_table(TableName("a", "t"), TableName("a", "u"))
        roll_back(catalog, 1)
        assert self.changes(catalog, "a.t") == [
            (3, "rolled back", "a.t"),
            (2, "renamed", "a.u"),
            (1, "created", "a.t"),
        ]
