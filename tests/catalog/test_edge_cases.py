"""Cases that once went wrong, each with the sentence that it broke."""

from __future__ import annotations

import threading

import pytest

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.transaction import Transaction
from olympia_cli.errors import (
    CommitConflict,
    CommitUnknown,
    Damaged,
    InvalidOption,
    NamespaceNotFound,
    SavedElsewhere,
    StorageFailed,
    TableExists,
    TransactionClosed,
    TransactionExpired,
    VersionNotFound,
)
from olympia_cli.format import definitions
from olympia_cli.format.actions import Action
from olympia_cli.format.codec import encode_root
from olympia_cli.format.paths import OLDEST, root_path
from olympia_cli.format.pb.actions_pb2 import ActionType, CompactDef, ExpireDef, ExportDef
from olympia_cli.format.pb.objects_pb2 import IsolationLevel, TableDef
from olympia_cli.names import NamespaceName, TableName, parse_reference
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.clock import FakeClock
from tests.helpers.stores import CountingStore, WrappedStore

A, T = NamespaceName("a"), TableName("a", "t")


@pytest.fixture
def catalog():
    catalog = Catalog.create(MemoryStore(), order=8)
    with catalog.transaction() as transaction:
        transaction.create_namespace(A)
        transaction.create_table(T, "m0", {"p": "old"})
    return catalog


def mark(catalog, oldest):
    transaction = catalog.begin()
    payload = ExpireDef(oldest=oldest).SerializeToString()
    transaction.do(Action(ActionType.CATALOG_EXPIRE_MARK, None, b"", payload))
    catalog.commit(transaction)


def test_fields_of_a_newer_program_survive_alters_and_do_not_multiply(catalog):
    path = catalog.snapshot().find(T)
    unknown = b"\xc2\x0c\x03abc"
    body = definitions.body(TableDef.FromString(catalog.store.read(path))) + unknown
    catalog.store.overwrite(path, definitions.encode(body, path))
    for number in range(4):
        with catalog.transaction() as transaction:
            transaction.alter_table(T, {"x": str(number)}, metadata_location=f"m{number + 1}")
    assert catalog.store.read(catalog.snapshot().find(T)).count(unknown) == 1


def test_a_merged_drop_does_not_hide_that_the_name_is_taken_again(catalog):
    drop = catalog.begin()
    drop.drop_table(T)
    with catalog.transaction() as other:
        other.drop_table(T)
        other.create_table(T, "another")
    with pytest.raises(CommitConflict):
        catalog.commit(drop)
    assert catalog.snapshot().table(T).definition.iceberg_metadata_location == "another"


def test_an_object_that_lives_under_another_name_is_not_restored_beside_itself(catalog):
    old = catalog.snapshot().table(T)
    with catalog.transaction() as transaction:
        transaction.rename_table(T, TableName("a", "u"))
    with catalog.transaction() as transaction:
        transaction.rename_namespace(A, NamespaceName("b"))
        transaction.create_namespace(A)
    with pytest.raises(TableExists, match=r"b\.u"):
        catalog.begin().restore(old, 1)
    with catalog.transaction() as transaction:
        transaction.drop_table(TableName("b", "u"))
        transaction.restore(old, 1)
    assert catalog.snapshot().table(T).id == old.id


def test_restoring_follows_an_object_through_a_rollback(catalog):
    old = catalog.snapshot().table(T)
    with catalog.transaction() as transaction:
        transaction.rename_table(T, TableName("a", "u"))
    with catalog.transaction() as transaction:
        transaction.drop_table(TableName("a", "u"))
    transaction = catalog.begin()
    transaction.roll_back(2)
    catalog.commit(transaction)
    with pytest.raises(TableExists, match=r"a\.u"):
        catalog.begin().restore(old, 1)


def test_a_lookup_of_a_missing_namespace_is_a_read(catalog):
    one, two = (catalog.begin(IsolationLevel.SERIALIZABLE) for _ in range(2))
    for transaction, theirs, mine in ((one, "y", "x"), (two, "x", "y")):
        with pytest.raises(NamespaceNotFound):
            transaction.tables(theirs)
        transaction.create_namespace(NamespaceName(mine))
    catalog.commit(one)
    with pytest.raises(CommitConflict):
        catalog.commit(two)


def test_a_statement_that_failed_was_a_read(catalog):
    transaction = catalog.begin(IsolationLevel.SERIALIZABLE)
    with pytest.raises(TableExists):
        transaction.create_table(T, "m1")
    transaction.create_table(TableName("a", "because_of_it"), "m1")
    with catalog.transaction() as other:
        other.drop_table(T)
    with pytest.raises(CommitConflict):
        catalog.commit(transaction)


@pytest.mark.parametrize("unreadable", ["def/table/", "vn/"])
def test_a_store_that_fails_during_a_rebase_is_no_conflict(catalog, unreadable):
    class Failing(WrappedStore):
        broken = False

        def read_many(self, paths):
            paths = list(paths)
            if self.broken and any(path.startswith(unreadable) for path in paths):
                return ((path, StorageFailed("down")) for path in paths)
            return super().read_many(paths)

    store = Failing(catalog.store)
    mine = Catalog(store, FakeClock())
    transaction = mine.begin()
    transaction.alter_table(T, {"mine": "1"})
    with catalog.transaction() as other:
        other.alter_table(T, {"theirs": "1"})
    store.broken = True
    with pytest.raises(StorageFailed):
        mine.commit(transaction)
    store.broken = False
    mine.commit(transaction)
    assert catalog.snapshot().table(T).properties == {"p": "old", "mine": "1", "theirs": "1"}


def test_a_version_without_actions_conflicts_through_its_changes(catalog):
    """Another program may write it without actions; its effect on other writers' work is visible in its tree."""
    transaction = catalog.begin()
    transaction.alter_table(T, {"p": "mine"})
    with catalog.transaction() as other:
        other.alter_table(T, {"p": "theirs"})
    theirs = catalog.snapshot()
    catalog.store.overwrite(theirs.file.path, encode_root(theirs.root, []))
    with pytest.raises(CommitConflict):
        catalog.commit(transaction)
    assert catalog.snapshot().table(T).properties["p"] == "theirs"


def test_a_definition_that_is_handed_out_is_a_copy(catalog):
    snapshot = catalog.snapshot()
    snapshot.definition.properties["leak"] = "1"
    assert "leak" not in snapshot.definition.properties
    with catalog.transaction() as transaction:
        transaction.alter_catalog({"p": "1"})
    assert dict(catalog.snapshot().definition.properties) == {"p": "1"}


def test_several_threads_read_one_snapshot(catalog):
    with catalog.transaction() as transaction:
        for number in range(600):
            transaction.create_table(TableName("a", f"t{number}"), "m")
    snapshot = catalog.snapshot()
    snapshot.reader._keep = 3
    errors = []

    def work():
        try:
            for _ in range(5):
                assert len(list(snapshot.tables("a"))) == 601
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []


@pytest.mark.parametrize(
    "settings",
    [
        {"set_properties": {"olympia.required-features": "x"}},
        {"set_properties": {"olympia.expire.oldest": "5"}},
        {"set_properties": {"olympia.export.e": "{}"}},
        {"unset_properties": ["olympia.expire.oldest"]},
        {"txn_ttl_millis": 0},
        {"txn_ttl_millis": -1},
        {"txn_ttl_millis": 10**18},
        {"set_properties": {"a": "\ud800"}},
        {"set_properties": {"\ud800": "a"}},
        {"set_properties": {"": "a"}},
    ],
)
def test_settings_that_would_make_a_catalog_unusable_are_refused(catalog, settings):
    with pytest.raises(InvalidOption):
        catalog.begin().alter_catalog(**settings)


class TestRollback:
    def test_not_below_the_oldest_version(self, catalog):
        for number in range(3):
            with catalog.transaction() as transaction:
                transaction.create_namespace(NamespaceName(f"n{number}"))
        pending = catalog.begin()
        pending.roll_back(1)
        mark(catalog, 3)
        with pytest.raises(VersionNotFound):
            catalog.begin().roll_back(1)
        with pytest.raises(VersionNotFound):
            catalog.commit(pending)
        with pytest.raises(VersionNotFound):
            catalog.snapshot(parse_reference("1"))
        assert catalog.store.exists("vn/1" + "0" * 31), "marked, not gone"

    def test_rollback_to_current_or_future_version_is_refused(self, catalog):
        with pytest.raises(InvalidOption):
            catalog.begin().roll_back(1)
        for version in (2, 99):
            with pytest.raises(VersionNotFound):
                catalog.begin().roll_back(version)

    def test_it_is_a_transaction_of_its_own(self, catalog):
        transaction = catalog.begin()
        transaction.roll_back(0)
        with pytest.raises(InvalidOption):
            transaction.create_namespace(NamespaceName("more"))
        transaction = catalog.begin()
        transaction.create_namespace(NamespaceName("more"))
        with pytest.raises(InvalidOption):
            transaction.roll_back(0)

    @pytest.mark.parametrize("folder", ["node/", "def/table/"])
    def test_rollback_to_a_version_with_missing_files_writes_nothing(self, catalog, folder):
        with catalog.transaction() as transaction:
            for number in range(30):
                transaction.create_table(TableName("a", f"t{number}"), "m")
        needed = {file.path for file in catalog.store.list(folder)}
        with catalog.transaction() as transaction:
            transaction.drop_namespace(A, cascade=True)
        catalog.store.delete_many(sorted(needed)[:1])
        before = {file.path for file in catalog.store.list()}
        with pytest.raises(Damaged, match="missing"):
            catalog.begin().roll_back(2)
        assert {file.path for file in catalog.store.list()} == before

    def test_a_rollback_over_an_expire_notes_the_version_that_it_left(self, catalog):
        with catalog.transaction() as transaction:
            transaction.create_namespace(NamespaceName("more"))
        pending = catalog.begin()
        pending.roll_back(1)
        mark(catalog, 1)
        version = catalog.commit(pending).version
        snapshot = catalog.snapshot()
        assert version == 4
        assert snapshot.root.rollback_from_root == "vn/11" + "0" * 30
        assert snapshot.definition.properties["olympia.expire.oldest"] == "1"


class TestCatalogActions:
    """Export, expire and compact are done again on a rebase like any other action."""

    def commit_over(self, catalog, action):
        pending = catalog.begin()
        pending.do(action)
        with catalog.transaction() as other:
            other.create_table(TableName("a", "other"), "m")
            other.alter_catalog({"q": "1"})
        catalog.commit(pending)
        return catalog.snapshot()

    def test_export(self, catalog):
        payload = ExportDef(name="friday", location="s3://x/vn/1", mode="full", version=1)
        action = Action(ActionType.CATALOG_EXPORT, None, b"", payload.SerializeToString())
        snapshot = self.commit_over(catalog, action)
        assert dict(snapshot.definition.exported_snapshots) == {"friday": "s3://x/vn/1"}
        assert catalog.snapshot(parse_reference("friday")).version == 1
        payload.dropped = True
        with catalog.transaction() as transaction:
            transaction.do(Action(ActionType.CATALOG_EXPORT, None, b"", payload.SerializeToString()))
        assert dict(catalog.snapshot().definition.properties) == {"q": "1"}

    def test_compact(self, catalog):
        with catalog.transaction() as transaction:
            for number in range(100):
                transaction.create_table(TableName("a", f"t{number:03}"), "m")
        before = set(catalog.snapshot().tables())
        payload = CompactDef(fill_percent=100).SerializeToString()
        snapshot = self.commit_over(catalog, Action(ActionType.CATALOG_COMPACT, None, b"", payload))
        assert set(snapshot.tables()) == before | {TableName("a", "other")}


class TestDistributed:
    def begun(self, catalog):
        running = distributed.begin(catalog)
        running.transaction.create_table(TableName("a", "x"), "m")
        running.save()
        return running

    def test_an_aborted_transaction_does_not_commit(self, catalog):
        running = self.begun(catalog)
        distributed.load(catalog, running.id).abort()
        with pytest.raises(SavedElsewhere):
            running.commit()
        assert catalog.snapshot().version == 1

    def test_nor_does_one_that_this_process_aborted(self, catalog):
        running = self.begun(catalog)
        running.abort()
        with pytest.raises(TransactionClosed):
            running.commit()

    def test_stale_transaction_does_not_commit_over_a_newer_save(self, catalog):
        running = self.begun(catalog)
        other = distributed.load(catalog, running.id)
        other.transaction.create_table(TableName("a", "y"), "m")
        other.save()
        with pytest.raises(SavedElsewhere):
            running.commit()
        assert other.commit().version == 2
        assert catalog.snapshot().find(TableName("a", "y")) is not None

    def test_one_that_was_rebased_can_still_be_saved_and_loaded(self, catalog):
        running = self.begun(catalog)
        with catalog.transaction() as other:
            other.create_namespace(NamespaceName("new"))
        assert running._catch_up() is None
        running.transaction.create_table(TableName("new", "t"), "m")
        running.save()
        assert distributed.load(catalog, running.id).transaction.exists(TableName("new", "t"))


class PurgedMeanwhile(WrappedStore):
    """Versions 0 to 3 are purged just before a root is created."""

    purges = False

    def create(self, path, data):
        if self.purges and path.startswith("vn/"):
            self.inner.overwrite(OLDEST, b"4")
            self.inner.delete_many([root_path(version) for version in range(4)])
        super().create(path, data)


def begun_below_four_versions() -> tuple[PurgedMeanwhile, Catalog, Transaction]:
    clock = FakeClock()
    store = PurgedMeanwhile(MemoryStore())
    long_lived = Catalog.create(store, clock=clock)
    transaction = long_lived.begin()
    transaction.create_namespace(NamespaceName("late"))
    for number in range(4):
        with long_lived.transaction() as other:
            other.create_namespace(NamespaceName(f"n{number}"))
    clock.advance(2 * 3_600_000)
    store.purges = True
    return store, long_lived, transaction


def test_a_shortened_lifetime_does_not_hide_a_commit_at_a_freed_name():
    """Purge goes by today's lifetime; a transaction that began under a longer one looks at the oldest version too."""
    _, long_lived, transaction = begun_below_four_versions()
    with pytest.raises(CommitUnknown):
        long_lived.commit(transaction)


def test_a_commit_with_a_purged_base_writes_no_root():
    store, long_lived, transaction = begun_below_four_versions()
    store.inner.delete_many([root_path(version) for version in range(4)])
    with pytest.raises(CommitConflict, match="version 0, at which the transaction began, is gone"):
        long_lived.commit(transaction)
    assert not store.exists(root_path(1))


def test_a_commit_that_cannot_look_for_its_name_any_more_is_unknown_and_not_failed():
    """The root is written. After a failure, a client would repeat the commit, or delete its files."""

    class Silent(WrappedStore):
        """Answers nothing after a root was written."""

        written = False

        def create(self, path, data):
            super().create(path, data)
            self.written = path.startswith("vn/")

        def read_many(self, paths):
            if self.written:
                yield from ((path, StorageFailed(f"{path}: no answer")) for path in paths)
            else:
                yield from super().read_many(paths)

    clock, files = FakeClock(), MemoryStore()
    Catalog.create(files, clock=clock)
    catalog = Catalog(Silent(files), clock)
    transaction = catalog.begin()
    transaction.create_namespace(NamespaceName("late"))
    clock.advance(3_600_000)
    with pytest.raises(CommitUnknown, match=transaction.id):
        catalog.commit(transaction)
    assert list(Catalog(files, clock).snapshot().namespaces()) == [NamespaceName("late")]


def test_distributed_transaction_behind_an_expired_version_writes_no_root(catalog):
    running = distributed.begin(catalog)
    running.transaction.create_namespace(NamespaceName("late"))
    for number in range(4):
        with catalog.transaction() as other:
            other.create_namespace(NamespaceName(f"n{number}"))
    base = running.transaction.base.version
    catalog.store.overwrite(OLDEST, str(base + 3).encode())
    catalog.store.delete_many([root_path(version) for version in range(base + 3)])
    with pytest.raises(TransactionExpired):
        running.commit()
    assert not catalog.store.exists(root_path(base + 1))


@pytest.mark.parametrize("statement", ["create", "alter", "drop", "rename"])
def test_thousands_of_statements_take_no_more_than_a_few_requests_each(statement):
    store = CountingStore(MemoryStore())
    catalog = Catalog.create(store)
    with catalog.transaction() as transaction:
        for number in range(1000):
            transaction.create_namespace(NamespaceName(f"n{number:04}"))
    transaction = catalog.begin()
    store.reset()
    for number in range(1000):
        name = NamespaceName(f"n{number:04}")
        if statement == "create":
            transaction.create_table(TableName(name.namespace, "t"), "m")
        elif statement == "alter":
            transaction.alter_namespace(name, {"p": "1"})
        elif statement == "drop":
            transaction.drop_namespace(name)
        else:
            transaction.rename_namespace(name, NamespaceName(f"m{number:04}"))
    assert store.reads <= 1050, "each definition once, and the nodes"
