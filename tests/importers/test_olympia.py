"""An import that is cut off leaves the catalog as it was, and the next one does all of it; it reads no file twice."""

import pytest

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import OlympiaError
from olympia_cli.format.definitions import body
from olympia_cli.importers.olympia import import_catalog
from olympia_cli.names import Kind
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog
from tests.helpers.names import ns, table
from tests.helpers.sdk_catalogs import SMALL, TXN, unpack
from tests.helpers.stores import READS, CountingStore, CuttingStore, PowerCut


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


class TestReading:
    """Each file of the source that describes an object is read once."""

    @pytest.fixture
    def source(self):
        catalog = Catalog.create(MemoryStore(), order=8)
        with catalog.transaction() as transaction:
            for number in range(4):
                transaction.create_namespace(ns(f"n{number}"))
                for at in range(20):
                    transaction.create_table(table(f"n{number}.t{at:02}"), f"s3://b/{number}/{at}")
        return catalog

    def read(self, source, store, history=False):
        """Import, and see how often each file was read."""
        counting = CountingStore(source.store)
        done, version = bring(Catalog(counting), store, history)
        paths = [path for path in counting.paths(*READS) if path.startswith(("def/ns", "def/table", "node/"))]
        return done, version, {path: paths.count(path) for path in paths}

    def test_all_of_it(self, source):
        store = new_store()
        done, version, read = self.read(source, store)
        assert (len(done.created), done.namespaces, version) == (80, 4, 1)
        assert len([path for path in read if path.startswith("def/")]) == 84
        assert set(read.values()) == {1}
        done, version, read = self.read(source, store)
        assert (done.created, done.unchanged, version) == ([], 84, 1)
        assert set(read.values()) == {1}

    def test_changes_at_the_source_are_imported(self, source):
        store = new_store()
        self.read(source, store)
        with source.transaction() as transaction:
            transaction.alter_table(table("n1.t03"), metadata_location="s3://b/new")
            transaction.create_table(table("n3.new"), "s3://b/n")
            transaction.rename_table(table("n2.t00"), table("n0.moved"))
            transaction.drop_table(table("n0.t19"))
        done, version, read = self.read(source, store)
        assert ([str(one.name) for one in done.created], version) == (["n3.new"], 2)
        assert [str(one.name) for one in done.moved_on] == ["n0.moved", "n1.t03"]
        assert (done.dropped, done.unchanged, done.left_out) == (1, 81, [])
        assert set(read.values()) == {1}
        assert held(store) == held(source.store)


def test_source_with_an_empty_or_odd_id_is_imported(sources):
    """The id is part of a property's name here."""
    for id in ("", "name", "a" * 2000, "\x1b[31m/..\\"):
        source = Catalog.create(MemoryStore())
        with source.transaction() as transaction:
            transaction.create_namespace(ns("a"))
            definition = transaction.draft.catalog
            assert definition.id
        wanted = source.snapshot()
        wanted.definition.id = id
        store = new_store()
        here = Catalog(store)

        def commit(do, about, here=here):
            transaction = here.begin()
            return do(transaction), here.commit(transaction, about, retry_for=0).version

        for version in (1, 1):
            done, found = import_catalog(source, wanted, None, False, here, commit)
            assert (found, done.left_out) == (version, [])
        assert [one.namespace for one in here.snapshot().namespaces()] == ["a"]
        check_catalog(store)


class TestNamesThatAreTakenAgain:
    """A source may drop or rename something and give its name to another: here it is then as it is there."""

    @pytest.fixture
    def source(self):
        return Catalog.create(MemoryStore())

    @pytest.mark.parametrize("history", [False, True])
    @pytest.mark.parametrize(
        ("before", "since"),
        [
            ("+s +s.a", "-s.a -s +s +s.b +s.c"),
            ("+s", "-s +s"),
            ("+s +r +s.a", "s.a>r.a -s +s +s.b"),
            ("+s +s.a", "s>r +s"),
            ("+s +s.a", "s>r +s r.a>s.a +r.a"),
            ("+s +r +s.a", "-r s>r +s +s.a"),
            ("+s +r +s.a +r.a", "s>q r>s +r s.a>q.b"),
            ("+s +s.a +s.b", "s.b>s.c s.a>s.b +s.a"),
        ],
    )
    def test_is_as_at_the_source(self, source, before, since, history):
        store = new_store()
        for words in (before, since):
            for word in words.split():
                change(source, word)
            done, _ = bring(source, store, history)
        assert (held(store), done.left_out) == (held(source.store), [])
        check_catalog(store)

    @pytest.mark.parametrize("since", ["s.a>r.a -s +s r.a>s.a", "s>q r>s q>r"])
    def test_impossible_changes_are_reported_and_lose_nothing(self, source, since):
        """A namespace with a remaining table cannot be created again, and two names cannot be exchanged."""
        store = new_store()
        for words in ("+s +r +s.a", since):
            for word in words.split():
                change(source, word)
            done, _ = bring(source, store)
        assert held(store).keys() == held(source.store).keys()
        assert done.left_out

    def test_own_tables_keep_a_namespace_dropped_at_the_source(self, source):
        store = new_store()
        change(source, "+s")
        bring(source, store)
        change(Catalog(store), "+s.mine")
        for word in ("-s", "+s", "+s.a"):
            change(source, word)
        done, _ = bring(source, store)
        assert held(store).keys() == {ns("s"), table("s.a"), table("s.mine")}
        assert [one.reason for one in done.left_out] == ["it was dropped at the source, and is not empty here"]

    def test_a_namespace_that_is_not_here_any_more(self, source):
        store = new_store()
        change(source, "+s")
        bring(source, store)
        change(Catalog(store), "-s")
        change(source, "+s.a")
        done, _ = bring(source, store)
        assert [(one.part, one.reason) for one in done.left_out] == [("table s.a", "its namespace is not here")]
        assert bring(source, store)[0].left_out == []
        assert held(store) == held(source.store)


def change(catalog, word):
    """`+s` makes a namespace and `+s.a` a table, `-` drops one, and `s>r` renames."""
    with catalog.transaction() as transaction:
        old, _, new = word.strip("+-").partition(">")
        names = [table(one) if "." in one else ns(one) for one in (old, new) if one]
        kind = "table" if "." in old else "namespace"
        if new:
            getattr(transaction, f"rename_{kind}")(*names)
        elif word[0] == "-":
            getattr(transaction, f"drop_{kind}")(*names)
        elif kind == "table":
            transaction.create_table(*names, f"/{word}/metadata/v1.metadata.json")
        else:
            transaction.create_namespace(*names)
