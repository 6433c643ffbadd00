"""Importing a DeltaCAT catalog: what is read, what is written, and what a cut leaves."""

from __future__ import annotations

import shutil
import uuid

import pyarrow as pa
import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import OlympiaError
from olympia_cli.format.definitions import body
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.importers.deltacat.checks import check
from olympia_cli.importers.deltacat.imports import DeltacatImport
from olympia_cli.importers.deltacat.index import FOREVER
from olympia_cli.importers.deltacat.source import MAX_SIZE, DeltacatSource
from olympia_cli.importers.footers import SourceFolder
from olympia_cli.importers.objects import Renaming
from olympia_cli.names import Kind
from olympia_cli.storage.local import LocalStore
from tests.helpers.check import check_catalog
from tests.helpers.deltacat_catalog import LEGACY, SMALL, DeltacatWriter, numbered, unpack
from tests.helpers.stores import CountingStore, CuttingStore, PowerCut

SCHEMA = numbered(("id", pa.int64()))


@pytest.fixture(scope="module")
def real(tmp_path_factory):
    return {name: unpack(name, tmp_path_factory.mktemp("deltacat"))[0] for name in (SMALL, LEGACY)}


def bring(source, store, run=DeltacatImport.run, dry_run=False):
    """Import into the catalog at a store."""
    return run(importing(source, store, dry_run), FOREVER, "")


def importing(source, store, dry_run=False, of=DeltacatImport):
    catalog = OlympiaCatalog.of(Catalog(store))
    base = f"file://{source.store.uri}"
    renaming = Renaming(catalog.store_catalog.snapshot().sizes)
    return of(source, SourceFolder(base), catalog, renaming, dry_run=dry_run)


def new_store(folder):
    Catalog.create(folder)
    return LocalStore(str(folder))


def held(store):
    """The objects, without what is new in each run: where metadata was written."""
    snapshot = Catalog(store).snapshot()
    return {
        one.name: (one.id, sorted(key for key in one.definition.properties))
        for kind in (Kind.NAMESPACE, Kind.TABLE)
        for one in snapshot.objects(kind)
        if body(one.definition)
    }


@pytest.mark.parametrize("name", [SMALL, LEGACY])
@pytest.mark.parametrize("how", ["import", "history", "inspect", "check"])
def test_each_file_of_metadata_is_read_once(real, tmp_path, name, how):
    store = CountingStore(LocalStore(str(real[name])))
    source = DeltacatSource(store)
    if how == "inspect":
        importing(source, new_store(tmp_path / "c"), dry_run=True).inspect(FOREVER)
    elif how == "check":
        list(check(source, FOREVER))
    else:
        bring(source, new_store(tmp_path / "c"), DeltacatImport.history if how == "history" else DeltacatImport.run)
    read = store.paths("read", "read_many")
    assert read
    assert len(read) == len(set(read))
    assert store.lists == 1
    assert (store.writes, store.probes) == (0, 0)


def test_a_dry_run_writes_nothing(real, tmp_path):
    store = CountingStore(new_store(tmp_path / "c"))
    before = sorted(tmp_path.rglob("*"))
    done, version = bring(DeltacatSource(LocalStore(str(real[SMALL]))), store, dry_run=True)
    assert (len(done.created), version, sorted(tmp_path.rglob("*")), store.writes) == (4, 0, before, 0)


def test_cut_at_every_write(tmp_path):
    with DeltacatWriter(tmp_path / "source").transaction() as txn:
        partition = txn.partition(txn.table(txn.namespace("n"), "t", SCHEMA))
        txn.delta(partition, 1, pa.table({"id": [1]}, schema=SCHEMA))
    source = DeltacatSource(LocalStore(str(tmp_path / "source")))
    whole = CuttingStore(new_store(tmp_path / "whole"))
    bring(source, whole)
    everything = held(whole.inner)
    assert len(everything) == 2
    for number in range(whole.writes):
        store = new_store(tmp_path / f"c{number}")
        with pytest.raises((PowerCut, OlympiaError)):
            bring(source, CuttingStore(store, number))
        assert held(store) in ({}, everything)
        check_catalog(store)
        assert bring(source, store)[1] == 1
        assert held(store) == everything


def test_a_history_that_is_cut_goes_on_where_it_was(real, tmp_path):
    source = DeltacatSource(LocalStore(str(real[LEGACY])))
    whole = CuttingStore(new_store(tmp_path / "whole"))
    _, version = bring(source, whole, DeltacatImport.history)
    store = new_store(tmp_path / "cut")
    with pytest.raises((PowerCut, OlympiaError)):
        bring(source, CuttingStore(store, whole.writes // 2), DeltacatImport.history)
    cut_at = Catalog(store).snapshot().version
    assert 0 < cut_at < version
    assert bring(source, store, DeltacatImport.history)[1] == version
    assert held(store) == held(whole.inner)
    check_catalog(store)


def test_others_may_commit_in_the_middle_of_a_history(real, tmp_path):
    """Another writer drops a table between two commits of the import: the table's next transaction restores it."""
    store = new_store(tmp_path / "c")

    class Interrupted(DeltacatImport):
        def commit(self, before, message):
            version = super().commit(before, message)
            if version == 5:
                OlympiaCatalog.of(Catalog(store)).drop_table("sales.orders")
            return version

    _, version = importing(DeltacatSource(LocalStore(str(real[SMALL]))), store, of=Interrupted).history(FOREVER, "")
    assert version == 19
    table = OlympiaCatalog.of(Catalog(store)).load_table("sales.customer_orders")
    assert table.scan().to_arrow().num_rows == 22
    check_catalog(store)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    made = DeltacatWriter(tmp_path / "source")
    with made.transaction() as txn:
        ns = txn.namespace("n")
        stream = txn.table(ns, "t", SCHEMA)
    [file] = made.folder.joinpath(*stream[:2], "rev").rglob("*.mpk")
    with file.open("r+b") as opened:
        opened.truncate(MAX_SIZE + 1)
    store = CountingStore(LocalStore(str(made.folder)))
    done, _ = bring(DeltacatSource(store), new_store(tmp_path / "c"))
    [left_out] = done.left_out
    assert left_out.reason.endswith("it has 67,108,865 bytes, which no metadata has")
    assert file.relative_to(made.folder).as_posix() not in store.paths("read", "read_many")


def test_a_copy_elsewhere_is_the_same_source(real, tmp_path):
    """A catalog is told by its first transaction: what was imported from one place is followed at another."""
    store = new_store(tmp_path / "c")
    bring(DeltacatSource(LocalStore(str(real[SMALL]))), store)
    shutil.copytree(real[SMALL], tmp_path / "copy")
    done, version = bring(DeltacatSource(LocalStore(str(tmp_path / "copy"))), store)
    assert (done.unchanged, version) == (7, 1)


def test_a_source_without_a_finished_transaction_has_lost_nothing(tmp_path):
    """Objects that others made here do not count as those of a source without an identity."""
    DeltacatWriter(tmp_path / "source").write(f"txn/running/1_{uuid.uuid4()}", b"")
    store = new_store(tmp_path / "c")
    OlympiaCatalog.of(Catalog(store)).create_namespace("own")
    done, version = bring(DeltacatSource(LocalStore(str(tmp_path / "source"))), store)
    assert (done.left_out, version) == ([], 1)
