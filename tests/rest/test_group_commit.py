"""Changes that come together become one commit; what is wrong with one is not the others' business."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest
from pyiceberg.io.pyarrow import PyArrowFileIO

from olympia_cli.catalog.catalog import Catalog
from olympia_cli.errors import CommitUnknown, NamespaceExists, StorageFailed
from olympia_cli.format.actions import commit_info
from olympia_cli.iceberg.table_changes import TableChanges
from olympia_cli.names import NamespaceName, TableName
from olympia_cli.rest.group_commit import GroupCommit
from olympia_cli.rest.latest import Latest
from olympia_cli.storage.memory import MemoryStore
from tests.helpers.check import check_catalog
from tests.helpers.stores import AmbiguousStore, CountingStore


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
            assert gate.wait(30)

        leader = self.pool.submit(self.commits.commit, first, "ann", "first")
        while not self.commits._is_led or self.commits._waiting:
            pass
        waiting = []
        for number, change in enumerate(changes):
            waiting.append(self.pool.submit(self.commits.commit, change, f"bob{number}", f"change {number}"))
            while len(self.commits._waiting) <= number:
                pass
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
    return Group(
        catalog, GroupCommit(catalog, Latest(catalog, pool), lambda properties, location: PyArrowFileIO()), pool
    )


def create(name: str) -> Callable[[TableChanges], str]:
    def change(changes: TableChanges) -> str:
        changes.transaction.create_namespace(NamespaceName(name))
        return name

    return change


def test_those_who_wait_are_one_commit(group):
    assert group.together(*(create(f"n{number}") for number in range(5))) == [f"n{number}" for number in range(5)]
    assert group.catalog.snapshot().version == 2
    assert (group.commits.groups, group.commits.changes) == (2, 6)
    info = commit_info(group.catalog.snapshot().actions())
    assert info is not None
    assert info.by == "bob0, bob1, bob2, bob3, bob4"
    assert info.message.startswith("bob0: change 0; bob1: change 1; ")


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


def test_what_another_process_did_first_is_that_changes_conflict_alone(group, store):
    def overtaken(changes: TableChanges) -> None:
        if not Catalog(store).snapshot().find(NamespaceName("taken")):
            with Catalog(store).transaction() as other:
                other.create_namespace(NamespaceName("taken"))
        changes.transaction.create_namespace(NamespaceName("taken"))

    found = group.together(create("a"), overtaken, create("b"))
    assert (found[0], found[2]) == ("a", "b")
    assert isinstance(found[1], NamespaceExists)


def test_what_goes_together_with_another_process_stays_one_commit(group, store):
    def overtaken(changes: TableChanges) -> None:
        with Catalog(store).transaction() as other:
            other.create_namespace(NamespaceName("beside"))
        changes.transaction.create_namespace(NamespaceName("mine"))

    assert group.together(create("a"), overtaken, create("b")) == ["a", None, "b"]
    # the first, the other process's, and the group
    assert group.catalog.snapshot().version == 3


def test_a_store_that_fails_is_told_to_all_and_the_next_is_done(store):
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


def test_an_outcome_that_nobody_knows_is_told_as_such(store):
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
