"""The answer to a write is lost. A commit is then a success, or says that it does not know; it is never done twice."""

from __future__ import annotations

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.distributed import TransactionState
from olympia_cli.errors import (
    CatalogNotFound,
    CommitUnknown,
    OlympiaError,
    OutcomeUnknown,
    SavedElsewhere,
    StorageFailed,
    TransactionClosed,
    TransactionNotFound,
)
from olympia_cli.format.paths import FileKind, file_kind, root_path
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_versions, replay
from tests.helpers.clock import FakeClock
from tests.helpers.names import location, ns, table
from tests.helpers.stores import AmbiguousStore, CountingStore, WrappedStore

MODES = ("lost_reply", "lost_request")


@pytest.fixture
def files():
    """Version 1 has the namespace a with five tables, in a tree of several levels."""
    store = MemoryStore()
    catalog = Catalog.create(store, order=3, clock=FakeClock())
    with catalog.transaction() as transaction:
        transaction.create_namespace(ns("a"))
        for number in range(5):
            transaction.create_table(table(f"a.t{number}"), location(number))
    return store


def copy(store):
    return MemoryStore(files=dict(store._files))


def begin(catalog):
    transaction = catalog.begin()
    transaction.create_table(table("a.mine"), location())
    transaction.alter_namespace(ns("a"), {"mine": "1"})
    return transaction


def writes_of(store, run):
    """The kind of each file that an operation writes, in order."""
    counted = CountingStore(copy(store))
    run(counted)
    return [
        file_kind(path) for path in counted.paths("create", "create_many", "overwrite", "write_hint", "delete_many")
    ]


def log(store):
    return [version.info.transaction_id for version in check_versions(store)]


def ambiguous(store, kind, mode, run):
    """A store that loses the first write of that kind."""
    return AmbiguousStore(store, writes_of(store, run).index(kind), mode)


def commit(store):
    catalog = Catalog(store, FakeClock())
    catalog.commit(begin(catalog))


def succeeds(run, store):
    """Return whether the operation succeeds; False if it fails, or if its outcome is unknown."""
    try:
        run(store)
    except (CommitUnknown, OutcomeUnknown, StorageFailed):
        return False
    return True


class Unreadable(WrappedStore):
    """After a lost answer, nothing can be read for a while."""

    def __init__(self, store):
        super().__init__(store)
        self.down = False

    def create(self, path, data):
        try:
            super().create(path, data)
        except OutcomeUnknown:
            self.down = True
            raise

    def read(self, path):
        if self.down:
            raise StorageFailed(f"{path} cannot be read just now")
        return super().read(path)


class Delayed(WrappedStore):
    """A store whose first root is delayed: no answer comes, and no reader sees it until it `arrives`."""

    def __init__(self, store):
        super().__init__(store)
        self.under_way = None

    def create(self, path, data):
        if file_kind(path) is FileKind.ROOT and self.under_way is None:
            self.under_way = (path, data)
            raise OutcomeUnknown(f"no answer for {path}")
        super().create(path, data)

    def arrive(self):
        """Create the delayed root, and return whether it won."""
        path, data = self.under_way
        try:
            self.inner.create(path, data)
        except OlympiaError:
            return False
        return True


class TestEveryWrite:
    @pytest.mark.parametrize("mode", MODES)
    def test_of_a_commit(self, files, mode):
        """Each write in turn: a caller who is told of a success finds it, one who is told of a failure does not."""
        kinds = writes_of(files, commit)
        assert set(kinds) == {FileKind.DEFINITION, FileKind.NODE, FileKind.ROOT, FileKind.HINT}
        for number, kind in enumerate(kinds):
            store = copy(files)
            catalog = Catalog(AmbiguousStore(store, number, mode), FakeClock())
            transaction = begin(catalog)
            where = f"write {number} of {len(kinds)}, {kind.value}, {mode}"
            try:
                end = catalog.commit(transaction).version
            except OlympiaError as error:
                end = type(error)
            if kind is FileKind.HINT or (kind is FileKind.ROOT and mode == "lost_reply"):
                assert end == 2, where
            elif kind is FileKind.ROOT:
                assert end is CommitUnknown, where
            else:
                assert end is StorageFailed, where
            assert log(store).count(transaction.id) == (end == 2), where
            replay(store)
            # the same transaction again: done once, whatever came before
            if end == 2:
                with pytest.raises(TransactionClosed):
                    catalog.commit(transaction)
            else:
                assert catalog.commit(transaction).version == 2, where
            assert log(store).count(transaction.id) == 1, where
            assert len(log(store)) == 3, where
            replay(store)

    @pytest.mark.parametrize("mode", MODES)
    def test_of_creating_a_catalog(self, mode):
        def create(store):
            Catalog.create(store, clock=FakeClock())

        empty = MemoryStore()
        for number in range(len(writes_of(empty, create))):
            store = MemoryStore()
            told = succeeds(create, AmbiguousStore(store, number, mode))
            try:
                Catalog.open(store)
            except CatalogNotFound:
                assert not told, f"write {number}"
                create(store)
            assert len(check_versions(store)) == 1

    @pytest.mark.parametrize("mode", MODES)
    def test_of_saving_a_distributed_transaction(self, files, mode):
        running = distributed.begin(Catalog(files, FakeClock()))

        def save(store):
            loaded = distributed.load(Catalog(store, FakeClock()), running.id)
            loaded.transaction.create_table(table("a.mine"), location())
            loaded.save()
            return loaded

        for number in range(len(writes_of(files, save))):
            store = copy(files)
            catalog = Catalog(store, FakeClock())
            told = succeeds(save, AmbiguousStore(store, number, mode))
            loaded = distributed.load(catalog, running.id)
            saved = loaded.transaction.exists(table("a.mine"))
            assert saved or not told, f"write {number}"
            assert loaded.commit().version == 2 or not saved
            assert (table("a.mine") in replay(store)[max(replay(store))]) == saved

    @pytest.mark.parametrize("mode", MODES)
    def test_of_beginning_a_distributed_transaction(self, files, mode):
        id = "11111111-2222-4333-8444-555555555555"

        def start(store):
            distributed.begin(Catalog(store, FakeClock()), id=id)

        for number in range(len(writes_of(files, start))):
            store = copy(files)
            told = succeeds(start, AmbiguousStore(store, number, mode))
            try:
                distributed.load(Catalog(store, FakeClock()), id)
            except TransactionNotFound:
                assert not told, f"write {number}"
                start(store)
            check_versions(store)

    @pytest.mark.parametrize("mode", MODES)
    def test_of_committing_a_distributed_transaction(self, files, mode):
        running = distributed.begin(Catalog(files, FakeClock()))
        running.transaction.create_table(table("a.mine"), location())
        running.save()

        def finish(store):
            return distributed.load(Catalog(store, FakeClock()), running.id).commit()

        for number in range(len(writes_of(files, finish))):
            store = copy(files)
            where = f"write {number}, {mode}"
            told = succeeds(finish, AmbiguousStore(store, number, mode))
            committed = log(store).count(running.id)
            assert committed or not told, where
            if distributed.find(store, running.id).state(FakeClock()) is TransactionState.OPEN:
                assert finish(store).version == 2, where
            assert log(store).count(running.id) == 1, where
            assert len(log(store)) == 3, where
            replay(store)


class TestTheRoot:
    def test_nothing_can_be_read_afterwards(self, files):
        """In the log, but the writer cannot know; when it asks again, it is told the version."""
        store = Unreadable(ambiguous(files, FileKind.ROOT, "lost_reply", commit))
        catalog = Catalog(store, FakeClock())
        transaction = begin(catalog)
        with pytest.raises(CommitUnknown) as raised:
            catalog.commit(transaction)
        assert raised.value.exit_code == 21
        assert root_path(2) in raised.value.message
        assert log(files).count(transaction.id) == 1
        store.down = False
        assert catalog.commit(transaction).version == 2
        assert log(files).count(transaction.id) == 1

    def test_nothing_can_be_read_and_nothing_was_written(self, files):
        store = Unreadable(ambiguous(files, FileKind.ROOT, "lost_request", commit))
        catalog = Catalog(store, FakeClock())
        transaction = begin(catalog)
        with pytest.raises(CommitUnknown):
            catalog.commit(transaction)
        assert transaction.id not in log(files)

    def test_the_answer_that_was_lost_was_a_refusal(self, files):
        """Another writer has the name: read back, found to be another's, and rebased."""
        store = ambiguous(files, FileKind.ROOT, "lost_reply", commit)
        catalog = Catalog(store, FakeClock())
        transaction = begin(catalog)
        with Catalog(files, FakeClock()).transaction() as winner:
            winner.create_table(table("a.winner"), location())
        assert catalog.commit(transaction).version == 3
        assert {table("a.mine"), table("a.winner")} <= replay(files)[3].keys()
        assert log(files).count(transaction.id) == 1

    def test_the_answer_is_lost_at_every_attempt(self, files):
        kinds = writes_of(files, commit)
        store = AmbiguousStore(files, range(kinds.index(FileKind.ROOT), 1000), "lost_reply")
        catalog = Catalog(store, FakeClock())
        transaction = begin(catalog)
        assert catalog.commit(transaction).version == 2
        assert log(files).count(transaction.id) == 1

    @pytest.mark.parametrize("arrives", ["before", "after"])
    def test_a_root_that_arrives_late(self, files, arrives):
        """The writer asks again before or after its first request gets through; one of the two wins, not both."""
        store = Delayed(files)
        catalog = Catalog(store, FakeClock())
        transaction = begin(catalog)
        with pytest.raises(CommitUnknown):
            catalog.commit(transaction)
        assert transaction.id not in log(files)
        if arrives == "before":
            assert store.arrive()
        assert catalog.commit(transaction).version == 2
        if arrives == "after":
            assert not store.arrive()
        assert log(files).count(transaction.id) == 1
        assert max(replay(files)) == 2

    def test_a_root_that_arrives_after_others_went_on_from_it(self, files):
        store = Delayed(files)
        catalog = Catalog(store, FakeClock())
        transaction = begin(catalog)
        with pytest.raises(CommitUnknown):
            catalog.commit(transaction)
        assert store.arrive()
        for number in range(3):
            with Catalog(files, FakeClock()).transaction() as other:
                other.create_table(table(f"a.other{number}"), location())
        assert catalog.commit(transaction).version == 2
        assert log(files).count(transaction.id) == 1
        assert max(replay(files)) == 5

    def test_a_root_that_arrives_when_its_name_is_taken(self, files):
        store = Delayed(files)
        catalog = Catalog(store, FakeClock())
        transaction = begin(catalog)
        with pytest.raises(CommitUnknown):
            catalog.commit(transaction)
        with Catalog(files, FakeClock()).transaction() as other:
            other.create_table(table("a.other"), location())
        assert not store.arrive()
        assert transaction.id not in log(files)
        assert catalog.commit(transaction).version == 3
        assert log(files).count(transaction.id) == 1


class TestDistributedCommitAgain:
    @pytest.fixture
    def running(self, files):
        running = distributed.begin(Catalog(files, FakeClock()))
        running.transaction.create_table(table("a.mine"), location())
        running.save()
        return running

    def test_by_another_process(self, files, running):
        store = Unreadable(Delayed(files))
        first = distributed.load(Catalog(store, FakeClock()), running.id)
        with pytest.raises(CommitUnknown):
            first.commit()
        assert store.inner.arrive()
        second = distributed.load(Catalog(files, FakeClock()), running.id)
        assert second.commit().version == 2
        assert log(files).count(running.id) == 1
        assert distributed.find(files, running.id).state(FakeClock()) is TransactionState.COMMITTED

    def test_after_others_committed(self, files, running):
        store = Delayed(files)
        first = distributed.load(Catalog(store, FakeClock()), running.id)
        with pytest.raises(CommitUnknown):
            first.commit()
        assert store.arrive()
        with Catalog(files, FakeClock()).transaction() as other:
            # without the id in the log, doing it again would be a conflict now
            other.drop_table(table("a.mine"))
        for again in (first, distributed.load(Catalog(files, FakeClock()), running.id)):
            assert again.commit().version == 2
        assert log(files).count(running.id) == 1
        assert table("a.mine") not in replay(files)[3]

    def test_save_with_lost_answer_can_be_repeated_after_loading(self, files, running):
        def save(store):
            loaded = distributed.load(Catalog(store, FakeClock()), running.id)
            loaded.transaction.create_table(table("a.more"), location())
            loaded.save()
            return loaded

        store = ambiguous(files, FileKind.TRANSACTION, "lost_reply", save)
        loaded = distributed.load(Catalog(store, FakeClock()), running.id)
        loaded.transaction.create_table(table("a.more"), location())
        with pytest.raises(OutcomeUnknown):
            loaded.save()
        with pytest.raises(SavedElsewhere):
            loaded.save()
        again = distributed.load(Catalog(files, FakeClock()), running.id)
        assert again.transaction.exists(table("a.more"))
        assert again.commit().version == 2
