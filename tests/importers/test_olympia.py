"""An import that is cut off leaves the catalog as it was, and the next one does all of it."""

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import OlympiaError
from olympia_cli.format.definitions import body
from olympia_cli.importers.olympia import import_catalog
from olympia_cli.names import Kind
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog
from tests.helpers.sdk_catalogs import SMALL, TXN, unpack
from tests.helpers.stores import CuttingStore, PowerCut


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    folder = tmp_path_factory.mktemp("java")
    return {name: Catalog(LocalStore(str(unpack(name, folder)[0]))) for name in (SMALL, TXN)}


def bring(source, store, history=False):
    here = Catalog(store)

    def commit(do, about):
        transaction = here.begin()
        return do(transaction), here.commit(transaction, about, retry_for=0).version

    return import_catalog(source, source.snapshot(), None, history, here, commit)


def new_store():
    store = MemoryStore()
    Catalog.create(store)
    return store


def held(store):
    snapshot = Catalog(store).snapshot()
    return {one.name: body(one.definition) for kind in Kind if kind for one in snapshot.objects(kind)}


def test_cut_at_every_write(sources):
    whole = CuttingStore(new_store())
    bring(sources[TXN], whole)
    everything = held(whole.inner)
    assert whole.writes > 4
    for number in range(whole.writes):
        store = new_store()
        with pytest.raises((PowerCut, OlympiaError)):
            bring(sources[TXN], CuttingStore(store, number))
        assert held(store) in ({}, everything)
        check_catalog(store)
        bring(sources[TXN], store)
        assert held(store) == everything
        assert Catalog(store).snapshot().version == 1


def test_a_history_that_is_cut_goes_on_where_it_was(sources):
    whole = CuttingStore(new_store())
    _, version = bring(sources[SMALL], whole, history=True)
    store = new_store()
    with pytest.raises((PowerCut, OlympiaError)):
        bring(sources[SMALL], CuttingStore(store, whole.writes // 2), history=True)
    cut_at = Catalog(store).snapshot().version
    assert 0 < cut_at < version
    assert bring(sources[SMALL], store, history=True)[1] == version
    assert held(store) == held(whole.inner)
    check_catalog(store)
