"""Changes that come together become one commit; what is wrong with one is not the others' business."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from olympia_cli.catalog import distributed
from olympia_cli.catalog.catalog import Catalog
from olympia_cli.catalog.commit import Author
from olympia_cli.errors import (
    CommitConflict,
    CommitUnknown,
    Damaged,
    NamespaceExists,
    OlympiaError,
    OutcomeUnknown,
    StorageFailed,
    StoreError,
    TableExists,
)
from olympia_cli.format.actions import commit_info
from olympia_cli.format.paths import root_path
from olympia_cli.format.pb.objects_pb2 import IsolationLevel, ViewDef
from olympia_cli.iceberg.changes import TableChanges
from olympia_cli.iceberg.files import PyIcebergFiles
from olympia_cli.names import NamespaceName, TableName, ViewName
from olympia_cli.rest.group_commit import GroupCommit
from olympia_cli.storage.local import LocalStore
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog
from tests.helpers.patience import PATIENCE, wait_until
from tests.helpers.serving import serving
from tests.helpers.stores import AmbiguousStore, CountingStore, WrappedStore

FILES = PyIcebergFiles(lambda location: PyArrowFileIO())


@dataclass
class Group:
    """A group commit, and threads that wait for it."""

    catalog: Catalog
    commits: GroupCommit
    pool: ThreadPoolExecutor

    def together(self, *changes: Callable[[TableChanges], Any]) -> list[Any]:
        """Have the changes wait behind one that makes `first`, and then go together: results, or errors."""
        gate = threading.Event()

        def first(changes: TableChanges) -> None:
            changes.transaction.create_namespace(NamespaceName("first"))
            assert gate.wait(PATIENCE)

        leader = self.pool.submit(self.commits.commit, first, "ann", "first")
        wait_until(lambda: self.commits._is_led and not self.commits._waiting, "led")
        waiting = []
        for number, change in enumerate(changes):
            waiting.append(self.pool.submit(self.commits.commit, change, f"bob{number}", f"change {number}"))
            wait_until(lambda number=number: len(self.commits._waiting) > number, f"waiting: change {number}")
        gate.set()
        leader.result()
        return [future.exception() or future.result() for future in waiting]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def group(store: MemoryStore) -> Iterator[Group]:
    with ThreadPoolExecutor(16) as pool:
        yield make(Catalog.create(store), pool)
    check_catalog(store)


def make(catalog: Catalog, pool: ThreadPoolExecutor) -> Group:
    catalog = catalog.remembering()
    return Group(catalog, GroupCommit(catalog, FILES), pool)


def create(name: str) -> Callable[[TableChanges], str]:
    def change(changes: TableChanges) -> str:
        changes.transaction.create_namespace(NamespaceName(name))
        return name

    return change


def test_waiting_changes_become_a_single_commit(group):
    assert group.together(*(create(f"n{number}") for number in range(5))) == [f"n{number}" for number in range(5)]
    assert group.catalog.snapshot().version == 2
    assert (group.commits.groups, group.commits.changes) == (2, 6)
    info = commit_info(group.catalog.snapshot().actions())
    assert info is not None
    assert info.by == "bob0, bob1, bob2, bob3, bob4"
    assert info.message.startswith("bob0: change 0; bob1: change 1; ")


def test_a_commit_after_a_commit_waits_three_times(store):
    """For the look, for the files, for the root: what the commit before has written is known."""
    Catalog.create(store)
    counting = CountingStore(store)
    with ThreadPoolExecutor(1) as pool:
        group = make(Catalog(counting), pool)
        for name in "abc":
            counting.reset()
            group.commits.commit(create(name), "ann", name)
    assert counting.calls == {"read_many": 1, "create_many": 1, "create": 1, "write_hint": 1}


def test_an_unwritable_hint_is_logged_once(tmp_path, caplog):
    catalog = Catalog.create(LocalStore(tmp_path))
    with ThreadPoolExecutor(1) as pool:
        group = make(catalog, pool)
        (tmp_path / "vn/latest").unlink()
        (tmp_path / "vn/latest").mkdir()
        for name in "ab":
            group.commits.commit(create(name), "ann", name)
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert f"a folder stands at vn/latest in {tmp_path}" in caplog.text
        (tmp_path / "vn/latest").rmdir()
        group.commits.commit(create("c"), "ann", "c")
        (tmp_path / "vn/latest").unlink()
        os.mkfifo(tmp_path / "vn/latest")
        group.commits.commit(create("d"), "ann", "d")
    assert len(caplog.records) == 2
    assert "a FIFO stands at vn/latest" in caplog.records[1].getMessage()


def test_a_change_that_fails_is_taken_back_whole_and_leaves_the_others_alone(group):
    def fails(changes: TableChanges) -> None:
        changes.transaction.create_namespace(NamespaceName("half"))
        changes.transaction.create_namespace(NamespaceName("first"))

    def after(changes: TableChanges) -> bool:
        return changes.transaction.exists(NamespaceName("half"))

    found = group.together(create("a"), fails, after, create("b"), create("a"))
    assert isinstance(found[1], NamespaceExists)
    assert isinstance(found[4], NamespaceExists)
    assert [found[0], found[2], found[3]] == ["a", False, "b"]
    assert sorted(name.namespace for name in group.catalog.snapshot().namespaces()) == ["a", "b", "first"]
    assert group.catalog.snapshot().version == 2


def test_changes_see_those_before_them_in_the_same_commit(group):
    def table(changes: TableChanges) -> None:
        changes.transaction.create_table(TableName("a", "t"), "/x/metadata.json")

    assert group.together(create("a"), table) == ["a", None]
    assert group.catalog.snapshot().version == 2
    assert group.catalog.snapshot().find(TableName("a", "t"))


def test_a_conflict_with_another_process_fails_one_change_alone(group, store):
    def overtaken(changes: TableChanges) -> None:
        if not Catalog(store).snapshot().find(NamespaceName("taken")):
            with Catalog(store).transaction() as other:
                other.create_namespace(NamespaceName("taken"))
        changes.transaction.create_namespace(NamespaceName("taken"))

    found = group.together(create("a"), overtaken, create("b"))
    assert (found[0], found[2]) == ("a", "b")
    assert isinstance(found[1], NamespaceExists)


def test_a_compatible_commit_of_another_process_keeps_the_group(group, store):
    def overtaken(changes: TableChanges) -> None:
        with Catalog(store).transaction() as other:
            other.create_namespace(NamespaceName("beside"))
        changes.transaction.create_namespace(NamespaceName("mine"))

    assert group.together(create("a"), overtaken, create("b")) == ["a", None, "b"]
    # the first, the other process's, and the group
    assert group.catalog.snapshot().version == 3


def test_a_failed_write_fails_only_its_own_group(store):
    class Failing(CountingStore):
        fails = False

        def create(self, path: str, data: bytes) -> None:
            if self.fails and path.startswith("vn/"):
                raise StorageFailed("no")
            super().create(path, data)

    failing = Failing(store)
    with ThreadPoolExecutor(16) as pool:
        group = make(Catalog.create(failing), pool)
        failing.fails = True
        for name in ("a", "b"):
            with pytest.raises(StorageFailed):
                group.commits.commit(create(name), "ann", name)
        failing.fails = False
        assert group.commits.commit(create("c"), "ann", "c") == "c"
    assert [name.namespace for name in Catalog(store).snapshot().namespaces()] == ["c"]


def test_an_unknown_outcome_is_reported_as_unknown(store):
    Catalog.create(store)

    class Silent(AmbiguousStore):
        def read(self, path: str) -> bytes:
            if path.startswith("vn/") and self.writes:
                raise StorageFailed("no answer")
            return super().read(path)

    # the definition and the root: the second write gets no answer, and nor does the look at it
    silent = Silent(store, 1, "lost_reply")
    with ThreadPoolExecutor(4) as pool:
        group = make(Catalog(silent), pool)
        with pytest.raises(Exception, match="not known") as raised:
            group.commits.commit(create("a"), "ann", "a")
    assert type(raised.value).__name__ in (CommitUnknown.__name__, "CommitStateUnknownException")


def test_an_unknown_outcome_names_each_client_its_own_files(tmp_path):
    class Silent(WrappedStore):
        """Does not say what became of the second root."""

        def create(self, path: str, data: bytes) -> None:
            if path == root_path(2):
                raise OutcomeUnknown(f"no answer for {path}")
            super().create(path, data)

        def read(self, path: str) -> bytes:
            if path == root_path(2):
                raise StorageFailed(f"no answer for {path}")
            return super().read(path)

    store = Silent(MemoryStore())
    Catalog.create(store)

    def writes(name: str) -> Callable[[TableChanges], None]:
        def change(changes: TableChanges) -> None:
            changes.transaction.create_namespace(NamespaceName(name))
            changes.add_file(f"{tmp_path}/{name}.json", b"{}")

        return change

    with ThreadPoolExecutor(16) as pool:
        told = make(Catalog(store), pool).together(writes("mine"), writes("theirs"))
    for error, own, other in zip(told, ("mine", "theirs"), ("theirs", "mine"), strict=True):
        assert type(error).__name__ == "CommitStateUnknownException"
        assert (f"{own}.json" in str(error), f"{other}.json" in str(error)) == (True, False)


def test_of_a_store_that_fails_each_hears_of_its_own_files(tmp_path):
    class Failing(WrappedStore):
        """Does not take the second root. Folders stand by then where the metadata was, so it cannot be deleted."""

        def create(self, path: str, data: bytes) -> None:
            if path != root_path(2):
                super().create(path, data)
                return
            for file in tmp_path.iterdir():
                file.unlink()
                file.mkdir()
            raise StorageFailed("no")

    store = Failing(MemoryStore())
    Catalog.create(store)

    def writes(name: str) -> Callable[[TableChanges], None]:
        def change(changes: TableChanges) -> None:
            changes.transaction.create_namespace(NamespaceName(name))
            changes.add_file(f"{tmp_path}/{name}.json", b"{}")

        return change

    with ThreadPoolExecutor(16) as pool:
        told = make(Catalog(store), pool).together(writes("mine"), writes("theirs"))
    for error, own, other in zip(told, ("mine", "theirs"), ("theirs", "mine"), strict=True):
        assert type(error) is StorageFailed
        assert (f"{own}.json" in str(error), f"{other}.json" in str(error)) == (True, False)


def test_a_store_that_fails_in_the_middle_of_a_change_leaves_nothing_of_it(store):
    """To take it back nothing is read."""

    class Failing(CountingStore):
        down = False

        def read_many(self, paths):
            for path, data in super().read_many(paths):
                yield path, StorageFailed("no") if self.down else data

    failing = Failing(store)
    large = {"comment": "x" * 5000}  # not among what is remembered of definitions
    with ThreadPoolExecutor(16) as pool:
        group = make(Catalog.create(failing), pool)
        with group.catalog.transaction() as transaction:
            for name in ("big", "other"):
                transaction.create_namespace(NamespaceName(name), large)

        def fails(changes: TableChanges) -> None:
            changes.transaction.create_namespace(NamespaceName("half"))
            failing.down = True
            changes.transaction.alter_namespace(NamespaceName("other"), {"whole": "1"})

        def after(changes: TableChanges) -> None:
            failing.down = False
            changes.transaction.create_namespace(NamespaceName("after"))

        def alter(changes: TableChanges) -> None:
            changes.transaction.alter_namespace(NamespaceName("big"), {"a": "1"})

        found = group.together(alter, fails, after)
    assert isinstance(found[1], StorageFailed)
    assert (found[0], found[2]) == (None, None)
    names = [name.namespace for name in Catalog(store).snapshot().namespaces()]
    assert sorted(names) == ["after", "big", "first", "other"]


def test_a_read_repeated_after_a_failed_change_can_conflict(store):
    catalog = Catalog.create(store)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("n"))
    changes = TableChanges(catalog.begin(IsolationLevel.SERIALIZABLE), FILES)
    with contextlib.suppress(LookupError), changes.whole():
        changes.transaction.exists(ViewName("n", "x"))
        raise LookupError
    with changes.whole():
        assert not changes.transaction.exists(ViewName("n", "x"))
        changes.transaction.create_table(TableName("n", "x"), "s3://b/m.json")
    with catalog.transaction() as other:
        other.create_view(ViewName("n", "x"), ViewDef())
    with pytest.raises(CommitConflict):
        changes.commit(Author(by="me", message=""))


def test_an_uncommitted_change_fails_no_other_change(group, store):
    with group.catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("n"))
        transaction.create_table(TableName("n", "t"), "s3://b/0")

    def drop_and_clash(changes: TableChanges) -> None:
        changes.transaction.drop_table(TableName("n", "t"))
        changes.transaction.create_table(TableName("n", "y"), "s3://b/y")
        if not Catalog(store).snapshot().find(TableName("n", "y")):
            with Catalog(store).transaction() as other:
                other.create_table(TableName("n", "y"), "s3://b/other")

    def alter(changes: TableChanges) -> None:
        changes.transaction.alter_table(TableName("n", "t"), {"k": "v"})

    dropped, altered = group.together(drop_and_clash, alter)
    assert isinstance(dropped, TableExists)
    assert altered is None
    assert group.catalog.snapshot().table(TableName("n", "t")).properties == {"k": "v"}


def test_an_unwritable_file_fails_its_change_alone(group):
    def nowhere(changes: TableChanges) -> None:
        location = "/proc/nope/x.metadata.json"
        changes.transaction.create_table(TableName("first", "t"), location)
        changes.add_file(location, b"{}")

    found = group.together(create("a"), nowhere, create("b"))
    assert (found[0], found[2]) == ("a", "b")
    assert isinstance(found[1], OlympiaError)
    assert not group.catalog.snapshot().find(TableName("first", "t"))


def test_the_leader_gets_the_result_of_its_own_change(store):
    """The group conflicts, so each change is done by itself: the first is committed, then the store fails."""

    class Failing(CountingStore):
        armed = down = False

        def exists(self, path: str) -> bool:
            if self.down:
                raise StorageFailed("no")
            return super().exists(path)

        def read_many(self, paths: Iterable[str]) -> Iterator[tuple[str, bytes | StoreError]]:
            if self.down:
                raise StorageFailed("no")
            return super().read_many(paths)

        def create(self, path: str, data: bytes) -> None:
            super().create(path, data)
            self.down = self.down or (self.armed and path.startswith("vn/"))

    failing = Failing(store)
    with ThreadPoolExecutor(16) as pool:
        group = make(Catalog.create(failing), pool)

        def clash(changes: TableChanges) -> None:
            changes.transaction.create_namespace(NamespaceName("x"))
            if not Catalog(store).snapshot().find(NamespaceName("x")):
                with Catalog(store).transaction() as other:
                    other.create_namespace(NamespaceName("x"))
                failing.armed = True

        found = group.together(create("mine"), clash)
    assert found[0] == "mine"
    assert isinstance(found[1], StorageFailed)
    assert Catalog(store).snapshot().find(NamespaceName("mine"))


def test_nothing_is_committed_into_a_gap(group, store):
    for name in ("a", "b", "c"):
        group.commits.commit(create(name), "ann", name)
    begun = distributed.begin(group.catalog)
    begun.transaction.create_namespace(NamespaceName("spread"))
    begun.save()
    plain = group.catalog.begin()
    plain.create_namespace(NamespaceName("plain"))
    # a root that was copied two versions ahead becomes the latest as soon as the version between exists
    stray = root_path(group.catalog.snapshot().version + 2)
    store.create(stray, store.read(root_path(1)))
    for commit in (
        lambda: group.commits.commit(create("served"), "ann", "served"),
        lambda: distributed.load(group.catalog, begun.id).commit("spread"),
    ):
        with pytest.raises(Damaged):
            commit()
    assert group.catalog.snapshot().version == 3
    store.delete_many([stray])
    group.commits.commit(create("d"), "ann", "d")
    stray = root_path(group.catalog.snapshot().version + 2)
    store.create(stray, store.read(root_path(1)))
    with pytest.raises(Damaged):
        group.catalog.commit(plain)
    store.delete_many([stray])


def test_a_table_with_a_damaged_definition_can_be_dropped(tmp_path):
    store = LocalStore(tmp_path)
    catalog = Catalog.create(store)
    with catalog.transaction() as transaction:
        transaction.create_namespace(NamespaceName("n"))
        transaction.create_table(TableName("n", "t"), "s3://b/m.json")
    path = catalog.snapshot().find(TableName("n", "t"))
    assert path is not None
    sound = (tmp_path / path).read_bytes()
    with serving(store) as served:
        (tmp_path / path).write_bytes(b"damaged")
        assert served.http.delete("/v1/namespaces/n/tables/t").status_code == 204
        # older versions still have it
        (tmp_path / path).write_bytes(sound)
