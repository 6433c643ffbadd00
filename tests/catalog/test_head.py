"""The version that a catalog knows: for as few questions as it takes, and never an older one than the store has."""

from __future__ import annotations

import pytest

from olympia_cli.catalog.catalog import SURE_FOR_MILLIS, Catalog
from olympia_cli.errors import Damaged
from olympia_cli.format.paths import LATEST, root_path
from olympia_cli.names import Kind, NamespaceName, TableName
from olympia_cli.ops.expire import ExpirePlanner, Floors
from olympia_cli.storage.memory import MemoryStore
from olympia_cli.tree.load import NodeReader
from tests.helpers.clock import FakeClock
from tests.helpers.stores import CountingStore

NAME = TableName("a", "t")


@pytest.fixture
def files():
    files = MemoryStore()
    with Catalog.create(files, order=4).transaction() as transaction:
        transaction.create_namespace(NamespaceName("a"))
        for name in "stuvwxyz":
            transaction.create_table(TableName("a", name), "m")
    return files


def commit(catalog, name="a"):
    with catalog.transaction() as transaction:
        transaction.create_table(TableName("a", f"{name}{transaction.base.version}"), "m")


def test_lookup_on_a_remembered_version_asks_the_store_once(files):
    store = CountingStore(files)
    catalog = Catalog(store, remembers=True)
    known = catalog.snapshot()
    known.table(NAME)
    store.reset()
    assert catalog.snapshot() is known
    known.table(NAME)
    assert store.sequence == [("exists", root_path(2))]


def test_nodes_for_a_name_are_prefetched_with_the_root(files):
    store = CountingStore(files)
    catalog = Catalog(store, remembers=True)
    catalog.snapshot().namespace(NamespaceName("a"))
    store.reset()
    catalog.snapshot(names=[TableName("a", "z")])
    assert store.round_trips == 1
    root, node = store.paths("read_many")
    assert root == root_path(2)
    assert node.startswith("node/")


def test_commits_of_other_writers_are_seen_at_once(files):
    catalog, others = Catalog(files, remembers=True), Catalog(files)
    for _ in range(5):
        commit(others)
        assert catalog.snapshot().version == others.snapshot().version
        assert catalog.begin().base.version == others.snapshot().version


def test_a_repeated_commit_begins_with_one_round_trip(files):
    store = CountingStore(files)
    catalog = Catalog(store, remembers=True)
    commit(catalog)
    store.reset()
    catalog.begin()
    assert store.round_trips == 1
    assert store.paths("read_many") == [root_path(3), root_path(4), root_path(2)]


def test_a_commit_after_a_commit_waits_three_times(files):
    """The commit reads the latest version, and writes the files and the root; hints cost no round trip."""
    store = CountingStore(files)
    catalog = Catalog(store, remembers=True)
    for number in range(4):
        store.reset()
        transaction = catalog.begin(names=[NAME])
        transaction.alter_table(NAME, {"p": str(number)})
        catalog.commit(transaction)
    assert store.calls == {"read_many": 1, "create_many": 1, "create": 1, "write_hint": 1}
    assert store.round_trips == 3
    assert store.paths("read_many") == [root_path(version) for version in (5, 6, 4)]


def test_remembered_state_after_commits_equals_the_stored_state(files):
    catalog = Catalog(files, remembers=True)
    for number in range(12):
        with catalog.transaction() as transaction:
            transaction.create_table(TableName("a", f"n{number}"), "m", {"k": "v" * 500 * number})
            if number % 3:
                transaction.drop_table(TableName("a", f"n{number - 1}"))
            if number == 5:
                transaction.alter_catalog({"k": "v"})
        known, read = catalog.head.still(), Catalog(files).snapshot()
        assert known is not None
        assert known.root == read.root
        assert known.definition == read.definition
        assert list(known.objects(Kind.TABLE)) == list(read.objects(Kind.TABLE))
    nodes, kept = known.reader._nodes, known.definitions._kept
    assert len(nodes) > 12
    assert len(kept) > 8
    assert all(NodeReader(files).node(path) == node for path, node in nodes.items())
    assert all(files.read(path) == data for path, data in kept.items())


def test_a_copy_of_a_root_behind_a_gap_is_not_committed_below(files):
    catalog = Catalog(files, remembers=True)
    catalog.begin()
    files.create(root_path(3), files.read(root_path(1)))
    with pytest.raises(Damaged):
        catalog.begin()


def test_a_copied_root_after_another_commit_is_damage(files):
    catalog = Catalog(files, remembers=True)
    catalog.begin()
    commit(Catalog(files))
    files.create(root_path(4), files.read(root_path(1)))
    with pytest.raises(Damaged):
        catalog.begin()


def test_a_lost_version_is_not_overwritten_after_a_read(files):
    commit(Catalog(files))
    files.delete_many([root_path(2)])
    catalog = Catalog(files, remembers=True)
    catalog.snapshot().table(NAME)
    with pytest.raises(Damaged, match="it says 2, and the last root is that of version 1"):
        catalog.begin()
    assert files.read(LATEST) == b"2"
    files.overwrite(LATEST, b"1")
    commit(catalog)


def test_a_purged_remembered_version_is_replaced_by_the_latest(files):
    """An expire may have taken the version that is known and the one after it."""
    clock = FakeClock()
    catalog = Catalog(files, clock, remembers=True)
    catalog.snapshot()
    for _ in range(3):
        commit(Catalog(files))
    files.overwrite("vn/oldest", b"4")
    files.delete_many([root_path(version) for version in range(4)])
    clock.advance(SURE_FOR_MILLIS)
    assert catalog.snapshot().version == 4
    assert catalog.begin().base.version == 4


def test_a_clock_that_was_set_back_makes_nothing_sure(files):
    clock = FakeClock()
    catalog = Catalog(files, clock, remembers=True)
    catalog.snapshot()
    store = catalog.head._store = CountingStore(files)
    clock.set_wall(clock.now_millis() - 1)
    catalog.snapshot()
    assert root_path(1) in store.paths("read", "read_many")


class TestCommitsOnWhatIsThere:
    """Whatever became of the catalog under a program that holds it open, its next commit is on what is there now."""

    def test_commit_finds_the_latest_version_after_a_hasty_purge(self, files):
        idle = Catalog(files, remembers=True)
        idle.snapshot()
        others = Catalog(files)
        for _ in range(4):
            commit(others)
        files.overwrite("vn/oldest", b"5")
        files.delete_many([root_path(version) for version in range(5)])
        commit(idle, "mine")
        assert Catalog(files).snapshot().version == 6
        assert Catalog(files).snapshot().find(TableName("a", "mine5"))

    def test_commit_goes_into_the_catalog_recreated_at_its_location(self, files):
        idle = Catalog(files, remembers=True)
        idle.snapshot()
        files.delete_many([file.path for file in list(files.list())])
        with Catalog.create(files).transaction() as transaction:
            transaction.create_namespace(NamespaceName("new"))
        with idle.transaction() as transaction:
            transaction.create_namespace(NamespaceName("mine"))
        found = Catalog(files).snapshot()
        assert found.version == 2
        assert sorted(name.namespace for name in found.namespaces()) == ["mine", "new"]

    def test_a_backup_that_was_put_in_its_place(self, files):
        backup = {file.path: files.read(file.path) for file in list(files.list())}
        idle = Catalog(files, remembers=True)
        for _ in range(3):
            commit(idle)
        files.delete_many([file.path for file in list(files.list())])
        files.create_many(backup)
        commit(Catalog(files), "theirs")
        commit(idle, "mine")
        found = Catalog(files).snapshot()
        assert found.version == 3
        assert found.find(TableName("a", "theirs1"))
        assert found.find(TableName("a", "mine2"))

    def test_commit_builds_on_a_lost_root_that_was_recreated(self, files):
        idle = Catalog(files, remembers=True)
        commit(idle, "lost")
        files.delete_many([root_path(2), LATEST])
        commit(Catalog(files), "theirs")
        commit(idle, "mine")
        found = Catalog(files).snapshot()
        assert [found.find(TableName("a", name)) is not None for name in ("lost1", "theirs1", "mine2")] == [
            False,
            True,
            True,
        ]


def test_a_definition_that_was_damaged_is_read_again_when_it_is_mended(files):
    catalog = Catalog(files, remembers=True)
    path = catalog.snapshot().table(NAME).path
    sound = files.read(path)
    catalog = Catalog(files, remembers=True)
    files.overwrite(path, sound[:-1] + bytes([sound[-1] ^ 1]))
    with pytest.raises(Damaged):
        catalog.snapshot().table(NAME)
    files.overwrite(path, sound)
    assert catalog.snapshot().table(NAME).path == path


def test_a_rollback_checks_its_files_in_the_store(files):
    catalog = Catalog(files, remembers=True)
    catalog.snapshot().table(NAME)
    nodes = sorted(file.path for file in files.list("node/"))
    with catalog.transaction() as transaction:
        transaction.drop_namespace(NamespaceName("a"), cascade=True)
    files.delete_many(nodes)
    with pytest.raises(Damaged, match="missing"):
        catalog.begin().roll_back(1)


def test_catalogs_used_for_deleting_or_copying_remember_nothing(files):
    catalog = Catalog(files, remembers=True)
    catalog.snapshot()
    for one in (Catalog(files), catalog.anew(), ExpirePlanner(catalog, Floors(0, 0, offline=True)).catalog):
        store = one.head._store = CountingStore(files)
        one.snapshot()
        one.snapshot()
        assert store.of(root_path(1), "read", "read_many") >= 2
    assert catalog.remembering() is catalog
    assert Catalog(files).remembering().head.remembers
